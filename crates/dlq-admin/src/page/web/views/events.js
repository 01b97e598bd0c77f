// What became of an event, endpoint by endpoint.

import { api, withQuery } from '../parts/api.js';
import { timeline } from '../parts/attempts.js';
import { h } from '../parts/dom.js';
import { when } from '../parts/format.js';
import { live } from '../parts/live.js';
import { go } from '../parts/router.js';
import { empty, head } from '../parts/table.js';
import { chip } from '../parts/words.js';

export function events({ query, signal }) {
  const event = query.get('event') ?? '';
  const tenant = query.get('tenant') ?? '';
  const box = h('div');
  if (event) {
    live(signal, box, 3, (stop) => api.get(withQuery('/v1/deliveries', { event, tenant }), stop), (answer) => draw(answer, event));
  } else {
    box.append(h('section', { class: 'panel' }, empty('Look an event up',
      h('p', null, 'Its id, evt_…, is what was answered when it was published, and what receivers know as webhook-id.'))));
  }
  return { title: 'Event look-up', node: h('div', null, head('Event look-up'), form(event, tenant), box) };
}

function form(event, tenant) {
  const node = h('form', { class: 'filters panel', 'aria-label': 'Look-up' },
    h('label', { class: 'long' }, 'Event', h('input', { name: 'event', value: event, required: true, placeholder: 'evt_…', autocomplete: 'off', spellcheck: 'false' })),
    h('label', null, 'Tenant, where it is known', h('input', { name: 'tenant', value: tenant, autocomplete: 'off' })),
    h('div', { class: 'row' }, h('button', { class: 'first' }, 'Look it up')));
  node.addEventListener('submit', (submitted) => {
    submitted.preventDefault();
    const data = new FormData(node);
    go(withQuery('/events', { event: data.get('event').trim(), tenant: data.get('tenant').trim() }));
  });
  return node;
}

function draw(answer, event) {
  if (answer.items.length === 0) {
    return h('section', { class: 'panel' }, empty('Nothing was tried for this event',
      h('p', null, 'It has no recorded attempt: no endpoint subscribes to its type, it is held or not yet due, or its records are no longer kept.')));
  }
  return [
    answer.complete === false && h('p', { class: 'soft' }, 'The search was cut off: older attempts may be missing.'),
    answer.items.map((delivery) => h('section', { class: 'panel', 'aria-label': `Delivery to ${delivery.endpoint}` },
      h('div', { class: 'panel-head' },
        h('h2', null, h('a', { href: `/endpoints/${delivery.endpoint}`, class: 'id' }, delivery.endpoint)),
        chip(delivery.state), h('span', { class: 'soft' }, `${delivery.tenant} · ${delivery.type}`),
        h('span', { class: 'side' }, standing(delivery))),
      timeline(delivery.attempts, `${event}-${delivery.endpoint}`))),
  ];
}

function standing(delivery) {
  if (delivery.dead_letter) return h('a', { href: `/dead-letters/${delivery.dead_letter}` }, 'Its dead letter');
  return delivery.next_attempt_at ? ['next attempt ', when(delivery.next_attempt_at)] : null;
}
