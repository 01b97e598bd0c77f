// What is kept, up to which limits, and what these have dropped.

import { api } from '../parts/api.js';
import { h } from '../parts/dom.js';
import { bytes, count, when } from '../parts/format.js';
import { live } from '../parts/live.js';
import { session } from '../parts/session.js';
import { table } from '../parts/table.js';

const NAMES = { archive: 'Events', attempts: 'Attempts', dlq: 'Dead letters', audit: 'Acts' };

// The streams hold all tenants' data, so a key of one tenant is not asked for them.
export function kept(signal) {
  const box = h('div');
  if (session.caller.tenant === null) live(signal, box, 30, (stop) => api.get('/v1/retention', stop), draw);
  return box;
}

function draw({ streams, dead_letter_budget: budget }) {
  const columns = ['', ['Kept', 'number'], ['Bytes', 'number'], 'Oldest', 'Limits', 'Dropped by them'];
  return h('section', { class: 'panel' }, h('h2', null, 'What is kept'),
    table('Since this copy of the service began', columns, streams.map((stream) => [
      NAMES[stream.name] ?? stream.name, count(stream.messages), bytes(stream.bytes), when(stream.oldest_at),
      limits(stream, stream.name === 'dlq' ? budget : null), dropped(stream),
    ])));
}

function limits(stream, budget) {
  const found = [stream.max_age, stream.max_bytes && bytes(stream.max_bytes), budget && `${bytes(budget)} a tenant`];
  return found.filter(Boolean).join(', ') || 'none';
}

function dropped(stream) {
  const found = [['age', stream.dropped_by_age], ['bytes', stream.dropped_by_bytes], ['a tenant’s budget', stream.dropped_by_tenant_budget]]
    .filter(([, number]) => number > 0);
  if (found.length === 0) return h('span', { class: 'soft' }, 'nothing');
  return found.map(([why, number]) => `${count(number)} by ${why}`).join(', ');
}
