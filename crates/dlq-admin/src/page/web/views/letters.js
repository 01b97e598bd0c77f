// What was given up, newest first. What it is filtered by stands in the address.

import { api, withQuery } from '../parts/api.js';
import { act, doAct } from '../parts/dialog.js';
import { h } from '../parts/dom.js';
import { asBody, filterForm, inWords, readFilter } from '../parts/filter.js';
import { count, many, short, when } from '../parts/format.js';
import { live } from '../parts/live.js';
import { notice } from '../parts/notice.js';
import { go } from '../parts/router.js';
import { session } from '../parts/session.js';
import { empty, head, panel, table } from '../parts/table.js';
import { chip, outcome, whyDead } from '../parts/words.js';
import { purgeAll, purged, replayAll, replayed } from './bulk.js';

const PAGE = 50;

export function letters({ query, signal }) {
  const filter = readFilter(query);
  const cursor = query.get('cursor') ?? '';
  const box = h('div');
  const load = (stop) => api.get(withQuery('/v1/dead-letters', { ...filter, limit: PAGE, cursor }), stop);
  const again = live(signal, box, cursor ? 0 : 3, load, (page) => draw(page, filter, cursor, () => again()));
  return {
    title: 'Dead letters',
    node: h('div', null,
      head('Dead letters', { side: bulkButtons(filter, () => again()) }),
      panel('Filter', filterForm(filter, (wanted) => go(withQuery('/dead-letters', wanted)))),
      h('section', { class: 'panel', 'aria-label': 'Letters' }, box)),
  };
}

function bulkButtons(filter, again) {
  const without = Object.keys(asBody(filter)).length === 0 ? 'Filter first: without a filter it would be every letter.' : null;
  const busy = filter.state === 'replaying' ? 'These are being replayed already.' : null;
  const why = session.why('operate') ?? without ?? busy;
  return [
    act('Replay all that match…', why, async () => {
      if (await replayAll(filter)) go('/jobs');
    }, { kind: 'first' }),
    act('Purge all that match…', why, async () => {
      const answer = await purgeAll(filter);
      if (!answer) return;
      notice(purged(answer));
      again();
    }, { kind: 'danger' }),
  ];
}

function draw(page, filter, cursor, again) {
  if (page.items.length === 0 && !page.next_cursor) return nothing(filter);
  const known = page.total !== null && page.total !== undefined;
  const caption = known ? many(page.total, 'letter') : `${count(page.items.length)} on this page`;
  const rows = page.items.map((letter) => row(letter, again));
  return [
    table(caption, ['Died', 'Event', 'Endpoint', 'Why', 'Last answer', ['Attempts', 'number'], 'State', ''], rows),
    page.complete === false && h('p', { class: 'soft' }, 'The search was cut off here; the next page goes on with it.'),
    h('p', { class: 'row' },
      cursor && h('a', { href: withQuery('/dead-letters', filter) }, 'Newest'),
      page.next_cursor && h('a', { href: withQuery('/dead-letters', { ...filter, cursor: page.next_cursor }) }, 'Older')),
  ];
}

function row(letter, again) {
  const replaying = letter.state === 'replaying' ? 'It is being replayed.' : null;
  const why = session.why('operate') ?? replaying ?? (letter.endpoint ? null : 'It never was a delivery.');
  return [
    when(letter.died_at),
    [h('a', { href: `/dead-letters/${letter.id}`, 'data-focus': letter.id }, letter.type || short(letter.id)),
      h('span', { class: 'sub' }, letter.tenant)],
    letter.endpoint
      ? h('a', { href: `/endpoints/${letter.endpoint}`, class: 'id', title: letter.endpoint, 'data-focus': `ep-${letter.id}` }, short(letter.endpoint))
      : h('span', { class: 'soft' }, 'none'),
    [chip('', letter.reason), h('span', { class: 'sub' }, letter.detail || whyDead(letter.reason))],
    outcome(letter),
    count(letter.attempt_count),
    chip(letter.state),
    doAct('Replay', why, async () => {
      const answer = await api.post(`/v1/dead-letters/${letter.id}/replay`);
      again();
      return answer;
    }, replayed, { focus: `replay-${letter.id}` }),
  ];
}

function nothing(filter) {
  if (Object.keys(filter).length === 0) {
    return empty('No dead letters', h('p', null, 'Nothing has been given up. What is, lies here with every answer of its receiver, and can be sent again.'));
  }
  return empty('No letter matches', h('p', null, `Filter: ${inWords(filter)}.`), h('p', null, h('a', { href: '/dead-letters' }, 'Show all')));
}
