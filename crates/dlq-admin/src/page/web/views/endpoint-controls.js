// What can be done to an endpoint. What needs a question asks it.

import { api } from '../parts/api.js';
import { block } from '../parts/copy.js';
import { STAY, act, ask, doAct, tell } from '../parts/dialog.js';
import { h } from '../parts/dom.js';
import { count, many, millis, toTime } from '../parts/format.js';
import { go } from '../parts/router.js';
import { session } from '../parts/session.js';
import { facts } from '../parts/table.js';
import { outcome } from '../parts/words.js';

export function controls(endpoint, again) {
  const config = session.whyIngest();
  const operate = session.why('operate');
  const open = endpoint.breaker.state === 'open';
  const path = `/ingest/tenants/${endpoint.tenant}/endpoints/${endpoint.id}`;
  const then = (work) => async () => {
    const answer = await work();
    await again();
    return answer;
  };
  return [
    endpoint.enabled
      ? doAct('Pause', config, then(() => api.post(`${path}/pause`)), 'Paused: its events wait.', { focus: 'switch' })
      : doAct('Resume', config, then(() => api.post(`${path}/resume`)), 'Resumed: what waits is let go.', { focus: 'switch' }),
    doAct('Send a test', config, then(async () => showTest(await api.post(`${path}/test`)))),
    act('Open breaker…', operate ?? (endpoint.has_breaker ? null : 'Its breaker is off; pause it instead.'), () => openBreaker(endpoint, again)),
    doAct('Close breaker', operate ?? (open || endpoint.breaker.state === 'half_open' || endpoint.breaker.hold_until ? null : 'It is closed.'),
      then(() => api.post(`/v1/breakers/${endpoint.id}/close`)), 'Closed: what waits is let go, few at first.'),
    act('Rotate secret…', config, () => rotate(path)),
    act('Recover…', config, () => recover(path)),
  ];
}

async function openBreaker(endpoint, again) {
  const answer = await ask({
    title: 'Open the breaker',
    content: [
      h('p', null, 'Nothing is sent to the endpoint for this time; what comes waits in its lane. Then one delivery is tried first.'),
      h('label', null, 'For how long', h('input', { name: 'for', value: '15m', required: true, pattern: '[0-9]+[smhd]' })),
    ],
    confirm: 'Open it',
    submit: (data) => api.post(`/v1/breakers/${endpoint.id}/open`, { for: data.get('for') }),
  });
  if (answer) again();
}

async function rotate(path) {
  const answer = await ask({
    title: 'Rotate the secret',
    content: [
      h('p', null, 'A new secret is made and shown once. The old one signs as well until the overlap ends, so that the receiver can change over.'),
      h('label', null, 'Overlap', h('input', { name: 'overlap', value: '24h', required: true, pattern: '[0-9]+[smhd]' })),
    ],
    confirm: 'Rotate it',
    submit: (data) => api.post(`${path}/rotate`, { overlap: data.get('overlap') }),
  });
  if (!answer) return;
  await tell('The new secret', [
    h('p', null, 'It is shown this once. Give it to the receiver.'),
    block(answer.secret, 'Secret'),
    answer.public_keys.length > 0 && block(answer.public_keys.join('\n'), 'Public keys'),
  ]);
}

async function recover(path) {
  const preview = h('p', { class: 'soft', role: 'status' }, 'It is counted first.');
  const fields = (data) => ({
    since: toTime(data.get('since')), include_delivered: data.has('delivered'), rate_per_second: Number(data.get('rate')),
  });
  let counted = null;
  const answer = await ask({
    title: 'Recover from the archive',
    content: [
      h('p', null, 'Events since a time that match the endpoint’s types are sent to it again, or for the first time.'),
      h('label', null, 'Since', h('input', { name: 'since', type: 'datetime-local', step: '1', required: true })),
      h('label', null, 'Events a second, at most', h('input', { name: 'rate', type: 'number', min: '1', max: '10000', value: '50', required: true })),
      h('label', { class: 'check' }, h('input', { type: 'checkbox', name: 'delivered' }), 'Also what was delivered'),
      preview,
    ],
    confirm: 'Count, then recover',
    submit: async (data) => {
      const body = fields(data);
      const text = JSON.stringify(body);
      if (counted !== text) {
        const found = await api.post(`${path}/recover`, { ...body, dry_run: true });
        counted = found.matched === 0 && !found.recovery ? null : text;
        preview.textContent = previewOf(found);
        return STAY;
      }
      return api.post(`${path}/recover`, body);
    },
  });
  if (answer) go('/jobs');
}

// A count that takes long is a job of its own.
function previewOf({ matched, delivered, under_way: under, recovery, oldest_retained: oldest }) {
  if (recovery) return 'Counting takes long: its job is among the jobs. Press again to send without the number.';
  const left = `${count(delivered)} delivered and ${count(under)} under way are left out.`;
  const kept = oldest ? ` Events are kept since ${new Date(oldest).toLocaleString('en')}.` : '';
  return matched > 0
    ? `${many(matched, 'event is', 'events are')} owed; ${left}${kept} Press again to send.`
    : `Nothing is owed; ${left}${kept}`;
}

const OUTCOMES = {
  delivered: 'It took the test.', rejected: 'It refused the test.', failed: 'It did not answer.',
  refused: 'Nothing was sent to it.', pending: 'Nothing is known yet: its attempt will be among the recent ones.',
};

const lines = (headers) => Object.entries(headers).map(([name, value]) => `${name}: ${value}`).join('\n');

// The whole exchange, as it went over the wire; what is secret is masked by the service.
function showTest({ outcome: what, error, detail, latency_ms: latency, request, response }) {
  const body = response && (response.body ?? response.body_base64 ?? '');
  return tell('A test of the endpoint', [
    h('p', null, OUTCOMES[what] ?? what),
    facts([
      ['Outcome', what !== 'pending' && outcome({ status: response?.status, error })],
      ['Because', detail],
      ['Took', latency !== null && millis(latency)],
    ]),
    block(`${request.method} ${request.url}\n${lines(request.headers)}\n\n${request.body}`, 'Request'),
    response && block(`HTTP ${response.status}\n${lines(response.headers)}\n\n${body}`, response.body_base64 ? 'Response (body in base64)' : 'Response'),
  ]);
}
