// Many letters at once: always counted first, and purged only by whoever types the number.

import { api } from '../parts/api.js';
import { ask } from '../parts/dialog.js';
import { h, replace } from '../parts/dom.js';
import { count, many, seconds } from '../parts/format.js';
import { asBody, inWords } from '../parts/filter.js';

const RATE = 50;
const MOST = 10_000;

// Asks the service how many match, and tells the dialog's form when that is known.
function counted(load, draw) {
  const box = h('div', { role: 'status' }, h('p', null, 'Counting…'));
  let number = null;
  load().then((answer) => {
    number = answer.matched;
    replace(box, draw(answer));
  }).catch((error) => replace(box, h('p', { class: 'problem' }, `It could not be counted: ${error.message}.`)))
    .finally(() => box.closest('form')?.dispatchEvent(new Event('ready')));
  return { box, number: () => number };
}

function rateField(matched) {
  const told = h('span', { class: 'soft small' });
  const input = h('input', { name: 'rate', type: 'number', min: '1', max: String(MOST), required: true, value: String(RATE) });
  const tell = () => {
    const rate = Number(input.value);
    const number = matched();
    told.textContent = number && rate > 0 ? `At this rate it takes about ${seconds(Math.max(1, number / rate))}.` : '';
  };
  input.addEventListener('input', tell);
  return { node: [h('label', null, 'Letters a second, at most', input), told], tell };
}

const rateOf = (data) => Number(data.get('rate'));
const rateIsRight = (data) => rateOf(data) >= 1 && rateOf(data) <= MOST;

// Resolves with the job, or undefined.
export function replayAll(filter) {
  const body = asBody(filter);
  const preview = counted(
    () => api.post('/v1/replays', { filter: body, dry_run: true }),
    ({ matched }) => {
      queueMicrotask(rate.tell);
      return [h('p', { class: 'big' }, many(matched, 'letter')), h('p', { class: 'soft' }, matched
        ? 'match and wait. Each is sent once more, with the same webhook-id, behind what is published meanwhile.'
        : 'match. There is nothing to send again.')];
    },
  );
  const rate = rateField(preview.number);
  return ask({
    title: 'Replay all that match',
    content: [h('p', null, `Filter: ${inWords(body)}`), preview.box, rate.node],
    confirm: 'Start the replay',
    ready: (data) => preview.number() > 0 && rateIsRight(data),
    submit: (data) => api.post('/v1/replays', { filter: body, rate_per_second: rateOf(data) }),
  });
}

// Resolves with what was purged, or undefined.
export function purgeAll(filter) {
  const body = asBody(filter);
  const preview = counted(
    () => api.post('/v1/dead-letters/purge', { filter: body, dry_run: true }),
    ({ matched, skipped }) => [
      h('p', { class: 'big' }, many(matched, 'letter')),
      h('p', null, matched ? 'will be purged, with their payloads. That cannot be taken back.' : 'match.'),
      skipped > 0 && h('p', { class: 'soft' }, `${many(skipped, 'more is', 'more are')} being replayed and will stay.`),
      matched > 0 && h('label', null, `Type ${matched} to confirm`, h('input', { name: 'typed', autocomplete: 'off', inputmode: 'numeric' })),
    ],
  );
  return ask({
    title: 'Purge all that match',
    content: [h('p', null, `Filter: ${inWords(body)}`), preview.box],
    confirm: 'Purge them',
    danger: true,
    ready: (data) => preview.number() > 0 && data.get('typed')?.trim() === String(preview.number()),
    submit: () => api.post('/v1/dead-letters/purge', { filter: body, dry_run: false }),
  });
}

export function purgeOne(id) {
  return ask({
    title: 'Delete this letter',
    content: [h('p', null, 'Its payload and its history go with it. That cannot be taken back.')],
    confirm: 'Delete it',
    danger: true,
    submit: async () => {
      await api.remove(`/v1/dead-letters/${id}`);
      return true;
    },
  });
}

export const replayed = (answer) => `On its way: ${answer.replay_id}.`;
export const purged = (answer) => `${count(answer.purged)} purged.`;
