// The service's words as chips and sentences, in one place.

import { h } from './dom.js';

const KINDS = {
  healthy: 'good', delivered: 'good', completed: 'good', closed: 'good', complete: 'good',
  failing: 'bad', dead: 'bad', open: 'bad', gone: 'bad',
  held: 'warn', disabled: 'warn', half_open: 'warn', paused: 'warn', retrying: 'warn', retry: 'warn',
  replaying: 'calm', running: 'calm', skipped: '', cancelled: '', quiet: '',
};

export function chip(word, text = word) {
  return h('span', { class: `chip ${KINDS[word] ?? ''}` }, String(text).replaceAll('_', ' '));
}

// The outcome of an attempt: a status, or the name of a failure.
export function outcome(attempt) {
  const status = attempt.status ?? attempt.last_status;
  if (status) {
    const good = status >= 200 && status < 300;
    return h('span', { class: `chip ${good ? 'good' : 'bad'}` }, `HTTP ${status}`);
  }
  const error = attempt.error ?? attempt.last_error;
  return error ? h('span', { class: 'chip bad' }, error.replaceAll('_', ' ')) : h('span', { class: 'chip' }, 'no attempt');
}

export const REASONS = [
  'exhausted', 'expired', 'permanent_status', 'gone', 'endpoint_deleted', 'egress_denied',
  'unsignable', 'invalid_event', 'too_large', 'backlog_full',
];

const REASON_WORDS = {
  exhausted: 'every attempt failed',
  expired: 'its time was over before it could be delivered',
  permanent_status: 'the receiver refused it for good',
  gone: 'the receiver said that it is gone',
  endpoint_deleted: 'its endpoint was deleted',
  egress_denied: 'its address may not be called',
  unsignable: 'it could not be signed',
  invalid_event: 'what was published is no event',
  too_large: 'it is too large',
  backlog_full: 'too much was waiting for its endpoint',
};

export const whyDead = (reason) => REASON_WORDS[reason] ?? reason;

const LANE_WORDS = {
  breaker_open: 'the breaker is open',
  probing: 'one delivery is tried first',
  ramp: 'it is eased back in',
  retry_after: 'the receiver asked for quiet',
  in_flight: 'as many requests are open as may be',
  rate_limit: 'its rate is used up',
  fifo: 'one after the other, in order',
  paused: 'it is paused',
  disabled: 'it is disabled',
  gone: 'it said that it is gone',
  replay: 'what is sent again',
  behind_live: 'what is published goes first',
  draining: 'what is left is let go',
};

export const whyWaits = (reason) => LANE_WORDS[reason] ?? reason;
