// Every endpoint, with how it is.

import { api, withQuery } from '../parts/api.js';
import { h } from '../parts/dom.js';
import { count, many, millis, short, when } from '../parts/format.js';
import { live } from '../parts/live.js';
import { go } from '../parts/router.js';
import { session } from '../parts/session.js';
import { empty, head, table } from '../parts/table.js';
import { chip, whyWaits } from '../parts/words.js';

const PAGE = 100;
// More tenants than this are not asked for their URLs: the list is told by ids then.
const MOST_TENANTS = 8;

export function endpoints({ query, signal }) {
  const [tenant, trouble, cursor] = ['tenant', 'trouble', 'cursor'].map((name) => query.get(name) ?? '');
  const box = h('div');
  const load = async (stop) => {
    const page = await api.get(withQuery('/v1/endpoints', { tenant, trouble, limit: PAGE, cursor }), stop);
    return { page, urls: await urls(page.items, stop) };
  };
  live(signal, box, 5, load, ({ page, urls }) => draw(page, urls, { tenant, trouble }));
  return {
    title: 'Endpoints',
    node: h('div', null, head('Endpoints'), form(tenant, trouble), h('section', { class: 'panel', 'aria-label': 'Endpoints' }, box)),
  };
}

function form(tenant, trouble) {
  const node = h('form', { class: 'filters panel', 'aria-label': 'Filter' },
    h('label', null, 'Tenant', h('input', { name: 'tenant', value: tenant, autocomplete: 'off' })),
    h('label', { class: 'check' }, h('input', { type: 'checkbox', name: 'trouble', checked: trouble === 'true' }), 'Only those in trouble'),
    h('div', { class: 'row' }, h('button', { class: 'first' }, 'Apply filter')));
  node.addEventListener('submit', (event) => {
    event.preventDefault();
    const data = new FormData(node);
    go(withQuery('/endpoints', { tenant: data.get('tenant').trim(), trouble: data.has('trouble') ? 'true' : '' }));
  });
  return node;
}

// The URLs are the public API's to show, to a key that may see them.
async function urls(items, stop) {
  const tenants = [...new Set(items.map((item) => item.tenant))];
  if (session.whyIngest() !== null || tenants.length > MOST_TENANTS) return {};
  try {
    const lists = await Promise.all(tenants.map((tenant) => api.get(`/ingest/tenants/${tenant}/endpoints?limit=500`, stop)));
    return Object.fromEntries(lists.flatMap((list) => list.items.map((item) => [item.id, item.url])));
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    return {};
  }
}

function draw(page, urls, filter) {
  if (page.items.length === 0) return nothing(filter);
  const next = page.next_cursor && h('p', null,
    h('a', { href: withQuery('/endpoints', { ...filter, cursor: page.next_cursor }) }, 'Next page'));
  return [endpointTable(many(page.total, 'endpoint'), page.items, urls), next];
}

function nothing({ tenant, trouble }) {
  if (trouble) return empty('No endpoint is in trouble', h('p', null, h('a', { href: withQuery('/endpoints', { tenant }) }, 'Show all')));
  return empty(tenant ? `Tenant ${tenant} has no endpoint` : 'There is no endpoint yet',
    h('p', null, 'An endpoint is a URL that events are delivered to. Create the first one:'),
    h('pre', null, `posthorn endpoints add https://example.com/hooks --tenant ${tenant || 'acme'}`));
}

export function endpointTable(caption, items, urls = {}) {
  const columns = ['Endpoint', 'Health', 'Breaker', 'Waiting', 'Last 15 minutes', 'Last failure'];
  return table(caption, columns, items.map((item) => [
    name(item, urls[item.id]), [chip(item.health), why(item)], breaker(item), waiting(item), recent(item.recent), failure(item.recent),
  ]));
}

function name(item, url) {
  return [
    h('a', { href: `/endpoints/${item.id}`, title: item.id, 'data-focus': item.id }, item.description || url || short(item.id)),
    h('span', { class: 'sub' }, item.tenant, item.description && url ? ` · ${url}` : '', ` · ${item.event_types.join(', ')}`),
  ];
}

function why(item) {
  const text = item.enabled ? item.lane && whyWaits(item.lane.reason) : `${item.disabled_reason} `;
  if (!text) return null;
  return h('span', { class: 'sub' }, text, !item.enabled && when(item.disabled_since));
}

function breaker({ has_breaker: has, breaker }) {
  if (!has) return h('span', { class: 'soft' }, 'off');
  const next = breaker.state !== 'closed' && breaker.next_probe_at;
  return [chip(breaker.state), next && h('span', { class: 'sub' }, 'probe ', when(next))];
}

function waiting({ lane, replay_lane: replay }) {
  if (!lane && !replay) return h('span', { class: 'soft' }, 'nothing');
  return [
    lane && [count(lane.depth), lane.oldest && h('span', { class: 'sub' }, 'oldest ', when(lane.oldest))],
    replay && h('span', { class: 'sub' }, `${count(replay.depth)} to be sent again`),
  ];
}

function recent(seen) {
  if (seen.delivered + seen.failed === 0) return h('span', { class: 'soft' }, 'no attempt');
  return [
    `${count(seen.delivered)} delivered, ${count(seen.failed)} failed`,
    h('span', { class: 'sub' }, `half within ${millis(seen.latency_p50_ms)}, 95 % within ${millis(seen.latency_p95_ms)}`),
  ];
}

function failure(seen) {
  if (!seen.last_failure) return h('span', { class: 'soft' }, '–');
  const text = /^\d+$/.test(seen.last_failure) ? `HTTP ${seen.last_failure}` : seen.last_failure.replaceAll('_', ' ');
  return [h('span', { class: 'nowrap' }, text), h('span', { class: 'sub' }, when(seen.last_failure_at))];
}
