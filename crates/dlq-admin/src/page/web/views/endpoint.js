// One endpoint: how it is, what waits for it, what it answered lately.

import { api } from '../parts/api.js';
import { ATTEMPT_COLUMNS, attemptCells } from '../parts/attempts.js';
import { copyButton } from '../parts/copy.js';
import { h, replace } from '../parts/dom.js';
import { clock, count, millis, when } from '../parts/format.js';
import { live } from '../parts/live.js';
import { session } from '../parts/session.js';
import { empty, facts, head, panel, table } from '../parts/table.js';
import { chip, whyWaits } from '../parts/words.js';
import { controls } from './endpoint-controls.js';

const ATTEMPTS = 20;

export function endpoint({ params, signal }) {
  const top = h('div');
  const configured = h('div');
  const attempts = h('div');
  let asked = false;
  const again = live(signal, top, 2, async (stop) => {
    const answer = await api.get(`/v1/endpoints/${params.id}`, stop);
    if (!asked) configuration(configured, answer, signal);
    asked = true;
    return answer;
  }, (answer) => draw(answer, () => again()));
  if (session.may('operate')) {
    live(signal, attempts, 3, (stop) => api.get(`/v1/attempts?endpoint=${params.id}&limit=${ATTEMPTS}`, stop), drawAttempts);
  } else {
    replace(attempts, h('section', { class: 'panel' }, h('p', { class: 'soft' }, session.why('operate'), ' Its attempts are not shown.')));
  }
  return { title: 'Endpoint', node: h('div', null, top, configured, attempts) };
}

function draw(endpoint, again) {
  return [
    head(endpoint.description || endpoint.id, { back: ['/endpoints', 'Endpoints'], beside: chip(endpoint.health) }),
    h('div', { class: 'panel row', role: 'group', 'aria-label': 'Controls' }, controls(endpoint, again)),
    h('div', { class: 'columns' }, health(endpoint), breaker(endpoint)),
  ];
}

function health(endpoint) {
  const { recent } = endpoint;
  return panel('Health', facts([
    ['Endpoint', [h('span', { class: 'id' }, endpoint.id), copyButton(endpoint.id, 'the id of the endpoint')]],
    ['Tenant', h('a', { href: `/endpoints?tenant=${endpoint.tenant}` }, endpoint.tenant)],
    ['State', endpoint.enabled ? chip('healthy', 'enabled') : [chip('disabled', endpoint.disabled_reason), ' since ', when(endpoint.disabled_since)]],
    ['Last 15 minutes', `${count(recent.delivered)} delivered, ${count(recent.failed)} failed`],
    ['Takes', recent.latency_p50_ms !== null && `half within ${millis(recent.latency_p50_ms)}, 95 % within ${millis(recent.latency_p95_ms)}`],
    ['Last failure', recent.last_failure && [recent.last_failure.replaceAll('_', ' '), ', ', when(recent.last_failure_at)]],
    ['Dead letters', h('a', { href: `/dead-letters?endpoint=${endpoint.id}` }, 'those of this endpoint')],
  ]));
}

function breaker(endpoint) {
  const { breaker: state, lane, replay_lane: replay } = endpoint;
  return panel('Breaker and lane', facts([
    ['Breaker', endpoint.has_breaker ? chip(state.state) : 'off'],
    ['Because', state.reason],
    ['Failures in a row', state.consecutive_failures > 0 && count(state.consecutive_failures)],
    ['Opened', state.opened_at && when(state.opened_at)],
    ['Next probe', state.next_probe_at && when(state.next_probe_at)],
    ['Quiet until', state.hold_until && when(state.hold_until)],
    ['Lane', lane ? `${count(lane.depth)} waiting: ${whyWaits(lane.reason)}` : 'none: deliveries flow freely'],
    ['Oldest waiting', lane?.oldest && when(lane.oldest)],
    ['Replay lane', replay && `${count(replay.depth)} waiting: ${whyWaits(replay.reason)}`],
  ]));
}

// The configuration is the public API's to show, to a key that may see it.
async function configuration(box, { tenant, id }, signal) {
  if (session.whyIngest() !== null) return;
  try {
    const endpoint = await api.get(`/ingest/tenants/${tenant}/endpoints/${id}`, signal);
    replace(box, panel('Configuration', facts([
      ['URL', [h('span', { class: 'id' }, endpoint.url), copyButton(endpoint.url, 'the URL')]],
      ['Types', endpoint.event_types.join(', ')],
      ['Headers', Object.keys(endpoint.headers).join(', ')],
      ['Signatures', endpoint.signatures.join(', ')],
      ['Order', endpoint.ordering],
      ['Timeout', endpoint.timeout],
      ['In flight', `${count(endpoint.max_in_flight)} at most`],
      ['Rate', endpoint.rate_limit ? `${endpoint.rate_limit.per_second} a second at most` : 'no limit'],
      ['Attempts', `${count(endpoint.retry.max_attempts)} at most`],
      ['Created', clock(endpoint.created_at)],
    ], 'wide')));
  } catch (error) {
    if (error.name !== 'AbortError') replace(box, panel('Configuration', h('p', { class: 'soft' }, `Not shown: ${error.message}.`)));
  }
}

function drawAttempts(page) {
  return panel('Recent attempts', page.items.length === 0
    ? empty('No attempt yet', h('p', null, 'Send it a test to see what it answers.'))
    : table('The newest first', ATTEMPT_COLUMNS, page.items.map(attemptCells)));
}
