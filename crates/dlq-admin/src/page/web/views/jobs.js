// Replays and recoveries under way, and those that have ended.

import { api, withQuery } from '../parts/api.js';
import { doAct } from '../parts/dialog.js';
import { h } from '../parts/dom.js';
import { inWords } from '../parts/filter.js';
import { clock, count, many, short, when } from '../parts/format.js';
import { live } from '../parts/live.js';
import { session } from '../parts/session.js';
import { empty, head } from '../parts/table.js';
import { chip } from '../parts/words.js';

const PAGE = 50;

export function jobs({ query, signal }) {
  const cursor = query.get('cursor') ?? '';
  const box = h('div');
  const load = (stop) => api.get(withQuery('/v1/replays', { limit: PAGE, cursor }), stop);
  const again = live(signal, box, 1, load, (page) => draw(page, () => again()));
  return { title: 'Jobs', node: h('div', null, head('Jobs'), h('section', { class: 'panel', 'aria-label': 'Jobs' }, box)) };
}

function draw(page, again) {
  if (page.items.length === 0) {
    return empty('No job yet', h('p', null, 'A job sends many letters again, at a rate that their receiver bears. Filter the ',
      h('a', { href: '/dead-letters' }, 'dead letters'), ' and choose “Replay all that match”.'));
  }
  const next = page.next_cursor && h('p', null, h('a', { href: withQuery('/jobs', { cursor: page.next_cursor }) }, 'Older'));
  return [page.items.map((job) => jobLine(job, again)), next];
}

// One job with its progress and what can be done with it.
export function jobLine(job, again) {
  const title = job.kind === 'recover' ? (job.recovery.dry_run ? 'Count of a recovery' : 'Recovery') : 'Replay';
  return h('article', { class: 'job', 'data-job': job.id, 'aria-label': `${title} ${job.id}` },
    h('div', { class: 'row' },
      h('strong', null, title), chip(job.state), h('span', { class: 'id', title: job.id }, short(job.id)),
      h('span', { class: 'soft small' }, about(job)),
      h('span', { class: 'side row' }, controls(job, again))),
    bar(job),
    h('div', { class: 'row small soft' }, told(job), ` · at most ${count(job.rate_per_second)} a second · asked for `, when(job.created_at), ' · ', last(job)));
}

const isCounted = (job) => job.recovery?.counted ?? true;

// What is not counted yet has no end to measure by.
function bar(job) {
  const name = `Progress of ${job.id}`;
  if (!isCounted(job) && job.state === 'running') return h('progress', { 'aria-label': name });
  const [done, all] = job.matched === 0 ? [1, 1] : [Math.min(job.replayed + job.skipped, job.matched), job.matched];
  return h('progress', { max: String(all), value: String(done), 'aria-label': name });
}

function told(job) {
  if (!isCounted(job)) return 'being counted';
  const skipped = job.skipped ? `, ${count(job.skipped)} skipped` : '';
  const left = job.recovery ? ` (left out: ${count(job.recovery.delivered)} delivered, ${count(job.recovery.under_way)} under way)` : '';
  return `${count(job.replayed)} of ${count(job.matched)} sent${skipped}${left}`;
}

function about({ recovery, filter }) {
  if (!recovery) return inWords(filter ?? {});
  return [h('a', { href: `/endpoints/${recovery.endpoint}` }, short(recovery.endpoint)), ', events since ', clock(recovery.since)];
}

function last(job) {
  if (job.state !== 'running') return ['changed ', when(job.updated_at)];
  return [many(job.remaining ?? 0, 'is', 'are').concat(' left'), job.ends_at && [', done ', when(job.ends_at), ' at the earliest']];
}

function controls(job, again) {
  const why = session.why('operate');
  const button = (label, word) => doAct(label, why, async () => {
    await api.post(`/v1/replays/${job.id}/${word}`);
    await again();
  }, null, { focus: `${job.id}-${word}`, kind: word === 'cancel' ? 'danger' : '' });
  if (job.state === 'running') return [button('Pause', 'pause'), button('Cancel', 'cancel')];
  if (job.state === 'paused') return [button('Resume', 'resume'), button('Cancel', 'cancel')];
  return [];
}
