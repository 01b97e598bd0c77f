// What was tried: a line for each attempt with everything that the receiver said.

import { h } from './dom.js';
import { clock, millis, when } from './format.js';
import { chip, outcome, whyDead } from './words.js';

function body(attempt, key) {
  const text = attempt.response_body ?? attempt.response_body_base64;
  if (!text) return h('p', { class: 'soft small' }, 'The answer had no body, or it is no longer kept.');
  const name = attempt.response_body_base64 ? 'Response body (base64)' : 'Response body';
  return h('details', { 'data-focus': key, open: text.length < 600 },
    h('summary', null, name), h('pre', { tabindex: '0', role: 'region', 'aria-label': name }, text));
}

const isGood = (attempt) => attempt.status >= 200 && attempt.status < 300;

function line(attempt, key) {
  const decided = attempt.disposition && h('span', { class: 'soft small' }, 'then: ', decision(attempt));
  return h('li', { class: isGood(attempt) ? 'good' : '' },
    h('div', { class: 'line' },
      h('strong', null, `Attempt ${attempt.number}`), outcome(attempt),
      h('span', null, millis(attempt.latency_ms)), clock(attempt.at), decided),
    body(attempt, key));
}

function decision(attempt) {
  switch (attempt.disposition) {
    case 'complete': return 'delivered';
    case 'retry': return ['tried again ', when(attempt.next_attempt_at)];
    case 'dead': return `given up, ${whyDead(attempt.reason)}`;
    default: return attempt.disposition;
  }
}

// Attempts, oldest first. A replay begins at 1 again, which is told by a heading.
export function timeline(attempts, name) {
  if (attempts.length === 0) return h('p', { class: 'soft' }, 'It was never attempted.');
  let lives = 0;
  const lines = attempts.flatMap((attempt, at) => {
    const begins = at > 0 && attempt.number === 1;
    lives += begins ? 1 : 0;
    const heading = begins ? [h('li', { class: 'calm' }, h('h3', null, `Replay ${lives}`))] : [];
    return [...heading, line(attempt, `${name}-${at}`)];
  });
  return h('ol', { class: 'timeline' }, lines);
}

// The cells of an attempt in a table.
export function attemptCells(attempt) {
  const text = attempt.response_body;
  return [
    when(attempt.at),
    h('a', { href: `/events?event=${attempt.event_id}`, class: 'id', 'data-focus': `event-${attempt.at}` }, attempt.event_id),
    [attempt.type, attempt.replay && h('span', { class: 'sub' }, 'replay')],
    attempt.number,
    outcome(attempt),
    millis(attempt.latency_ms),
    [chip(attempt.disposition), text && h('details', { 'data-focus': `body-${attempt.event_id}-${attempt.at}` },
      h('summary', null, 'response'), h('pre', null, text))],
  ];
}

export const ATTEMPT_COLUMNS = ['When', 'Event', 'Type', ['No.', 'number'], 'Outcome', ['Took', 'number'], 'Then'];
