// One dead letter: what was to be delivered, and what its receiver said each time.

import { api } from '../parts/api.js';
import { timeline } from '../parts/attempts.js';
import { block, copyButton, quoted } from '../parts/copy.js';
import { act, doAct } from '../parts/dialog.js';
import { h, replace } from '../parts/dom.js';
import { clock, count, when } from '../parts/format.js';
import { pretty } from '../parts/json.js';
import { live } from '../parts/live.js';
import { go } from '../parts/router.js';
import { session } from '../parts/session.js';
import { facts, head, panel } from '../parts/table.js';
import { chip, whyDead } from '../parts/words.js';
import { purgeOne, replayed } from './bulk.js';

export function letter({ params, signal }) {
  const top = h('div');
  const attempts = h('div');
  const payload = h('div');
  let known = null;
  const again = live(signal, top, 3, async (stop) => {
    const answer = await api.get(`/v1/dead-letters/${params.id}`, stop);
    replace(attempts, panel(`What was tried (${answer.attempts.length})`, timeline(answer.attempts, 'attempt')));
    if (known === null) showPayload(payload, answer, signal);
    known = answer.id;
    return { ...answer, payload: undefined, payload_base64: undefined };
  }, (answer) => draw(answer, () => again()));
  return { title: 'Dead letter', node: h('div', null, top, h('div', { class: 'columns' }, attempts, payload)) };
}

function draw(letter, again) {
  return [
    head(letter.type || 'Unreadable event', {
      back: ['/dead-letters', 'Dead letters'], beside: chip(letter.state), side: buttons(letter, again),
    }),
    h('section', { class: 'panel', 'aria-label': 'About this letter' }, facts([
      ['Why', [chip('', letter.reason), ' ', letter.detail || whyDead(letter.reason)]],
      ['Letter', [h('span', { class: 'id' }, letter.id), copyButton(letter.id, 'the id of the letter')]],
      ['Tenant', h('a', { href: `/dead-letters?tenant=${encodeURIComponent(letter.tenant)}` }, letter.tenant)],
      ['Endpoint', letter.endpoint && [
        h('a', { href: `/endpoints/${letter.endpoint}`, class: 'id' }, letter.endpoint), ' · ',
        h('a', { href: `/dead-letters?endpoint=${letter.endpoint}` }, 'its other letters')]],
      ['Event', letter.event_id && h('a', { href: `/events?event=${letter.event_id}`, class: 'id' }, letter.event_id)],
      ['Accepted', letter.accepted_at && clock(letter.accepted_at)],
      ['Died', [clock(letter.died_at), ' (', when(letter.died_at), ')']],
      ['Replayed', letter.replays > 0 && `${count(letter.replays)} times, last by ${letter.replay_id ?? 'nobody known'}`],
    ])),
  ];
}

function buttons(letter, again) {
  const busy = letter.state === 'replaying' ? 'It is being replayed.' : null;
  const delivery = letter.endpoint ? null : 'It never was a delivery.';
  return [
    doAct('Replay', session.why('operate') ?? busy ?? delivery, async () => {
      const answer = await api.post(`/v1/dead-letters/${letter.id}/replay`);
      again();
      return answer;
    }, replayed, { kind: 'first' }),
    act('Delete…', session.why('operate') ?? busy, async () => {
      if (await purgeOne(letter.id)) go('/dead-letters');
    }, { kind: 'danger' }),
  ];
}

async function showPayload(box, letter, signal) {
  const raw = letter.payload ?? letter.payload_base64 ?? '';
  const laidOut = letter.payload === undefined ? null : pretty(raw);
  const text = h('pre', { tabindex: '0', role: 'region', 'aria-label': 'Payload' });
  const choose = (which, shown) => h('button', { type: 'button', 'aria-pressed': 'false', 'data-which': which, onclick: () => pick(which, shown) }, which);
  const toggle = h('div', { class: 'toggle', role: 'group', 'aria-label': 'How the payload is shown' },
    laidOut !== null && choose('Pretty', laidOut), choose('Raw', raw));
  function pick(which, shown) {
    text.textContent = shown;
    for (const button of toggle.children) button.setAttribute('aria-pressed', String(button.dataset.which === which));
  }
  pick(laidOut === null ? 'Raw' : 'Pretty', laidOut ?? raw);
  const base64 = letter.payload === undefined ? ', in base64' : '';
  const request = h('div');
  replace(box,
    h('section', { class: 'panel' },
      h('div', { class: 'panel-head' }, h('h2', null, 'Payload'),
        h('span', { class: 'soft small' }, `${letter.content_type}${base64}`),
        h('div', { class: 'side row' }, toggle, copyButton(raw, 'the payload'))),
      text),
    panel('By command', block(replayCommand(letter), 'Replay it by REST'), request));
  replace(request, block(requestCommand(letter, await urlOf(letter, signal)), 'Make the request by hand, unsigned'));
}

// The URL is the public API's to show.
async function urlOf(letter, signal) {
  if (!letter.endpoint || session.whyIngest() !== null) return null;
  try {
    const endpoint = await api.get(`/ingest/tenants/${letter.tenant}/endpoints/${letter.endpoint}`, signal);
    return endpoint.url;
  } catch {
    return null;
  }
}

function replayCommand(letter) {
  return `curl -sS -X POST ${location.origin}/v1/dead-letters/${letter.id}/replay \\\n  -H "Authorization: Bearer $POSTHORN_API_KEY"`;
}

function requestCommand(letter, url) {
  const target = url === null ? '"$ENDPOINT_URL"' : quoted(url);
  const headers = [`content-type: ${letter.content_type}`, `webhook-id: ${letter.event_id}`];
  const told = headers.map((header) => `  -H ${quoted(header)} \\\n`).join('');
  if (letter.payload === undefined) {
    return `printf %s ${quoted(letter.payload_base64)} | base64 -d |\n  curl -sS -i ${target} \\\n${told}  --data-binary @-`;
  }
  return `curl -sS -i ${target} \\\n${told}  --data-binary ${quoted(letter.payload)}`;
}

