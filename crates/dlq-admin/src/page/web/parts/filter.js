// The filter of dead letters: its fields, and how it stands in an address and in a call.

import { h } from './dom.js';
import { toLocal, toTime } from './format.js';
import { REASONS } from './words.js';

const FIELDS = ['tenant', 'endpoint', 'type', 'reason', 'status', 'text', 'since', 'until', 'state'];

// What an address filters by: only what is there.
export function readFilter(query) {
  const filter = {};
  for (const name of FIELDS) {
    const value = query.get(name);
    if (value) filter[name] = value;
  }
  return filter;
}

// The same as the body of a job or a purge. Both take letters that are dead and no others, so
// the state is no part of it.
export function asBody(filter) {
  const { state, status, ...body } = filter;
  if (status) body.status = Number(status);
  return body;
}

const NAMES = { type: 'type', text: 'error contains', since: 'from', until: 'until' };

export function inWords(filter) {
  const parts = Object.entries(filter).map(([name, value]) => `${NAMES[name] ?? name} ${value}`);
  return parts.length ? parts.join(', ') : 'everything';
}

function field(label, name, value, properties = {}) {
  return h('label', null, label, h('input', { name, value: value ?? '', autocomplete: 'off', spellcheck: 'false', ...properties }));
}

function choice(label, name, value, options) {
  return h('label', null, label, h('select', { name, value: value ?? '' },
    h('option', { value: '' }, 'any'),
    options.map((option) => h('option', { value: option, selected: option === value }, option.replaceAll('_', ' ')))));
}

// The form; `apply` gets the filter.
export function filterForm(filter, apply) {
  const form = h('form', { class: 'filters', 'aria-label': 'Filter' },
    field('Tenant', 'tenant', filter.tenant),
    field('Endpoint', 'endpoint', filter.endpoint, { placeholder: 'ep_…' }),
    field('Event type', 'type', filter.type, { placeholder: 'invoice.*' }),
    choice('Reason', 'reason', filter.reason, REASONS),
    field('Last HTTP status', 'status', filter.status, { inputmode: 'numeric', pattern: '[1-5][0-9][0-9]', placeholder: '503' }),
    field('Error contains', 'text', filter.text),
    choice('State', 'state', filter.state, ['dead', 'replaying']),
    field('Died from', 'since', toLocal(filter.since), { type: 'datetime-local', step: '1' }),
    field('Died before', 'until', toLocal(filter.until), { type: 'datetime-local', step: '1' }),
    h('div', { class: 'row' },
      h('button', { class: 'first' }, 'Apply filter'),
      h('button', { type: 'button', onclick: () => apply({}) }, 'Clear')));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(form));
    values.since = toTime(values.since);
    values.until = toTime(values.until);
    for (const name of Object.keys(values)) {
      values[name] = values[name].trim();
      if (!values[name]) delete values[name];
    }
    apply(values);
  });
  return form;
}
