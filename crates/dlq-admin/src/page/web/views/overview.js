// The installation at one glance, for somebody who was just woken up.

import { api } from '../parts/api.js';
import { chart, span } from '../parts/chart.js';
import { block } from '../parts/copy.js';
import { h, replace } from '../parts/dom.js';
import { count, many, millis, rate, seconds } from '../parts/format.js';
import { live } from '../parts/live.js';
import { empty, head } from '../parts/table.js';
import { endpointTable } from './endpoints.js';
import { jobLine } from './jobs.js';
import { kept } from './kept.js';

// Work that has been due for so long and is not being sent is somebody's problem.
const LATE = 30;

export function overview({ signal }) {
  const now = h('div');
  const flow = h('div');
  const queues = h('div');
  const trouble = h('div');
  const running = h('div');
  live(signal, now, 5, (stop) => api.get('/v1/overview', stop), (answer) => {
    const none = answer.endpoints.total === 0;
    const [first, second] = none ? [] : drawCharts(answer);
    replace(flow, first);
    replace(queues, second);
    trouble.hidden = none;
    return none ? begin() : tiles(answer);
  });
  live(signal, trouble, 5, (stop) => api.get('/v1/endpoints?trouble=true&limit=10', stop), drawTrouble);
  const again = live(signal, running, 2, runningJobs, (jobs) => jobs.length > 0 && h('section', { class: 'panel' },
    h('div', { class: 'panel-head' }, h('h2', null, 'Jobs under way'), h('a', { class: 'side', href: '/jobs' }, 'All jobs')),
    jobs.map((job) => jobLine(job, () => again()))));
  return { title: 'Overview', node: h('div', null, head('Overview'), now, flow, running, trouble, queues, kept(signal)) };
}

async function runningJobs(stop) {
  const { items } = await api.get('/v1/replays?limit=20', stop);
  return items.filter((job) => job.state === 'running' || job.state === 'paused');
}

function drawCharts(answer) {
  const all = (name) => answer.series.map((point) => point[name]);
  const { minutes, from } = span(['delivered', 'failed', 'accepted', 'held', 'waiting'].map(all), answer.series, answer.step_seconds);
  const series = answer.series.slice(from);
  const of = (name) => series.map((point) => point[name]);
  const times = of('at');
  const line = (name, kind, values) => ({ name, kind, values });
  const known = (values) => values.some((value) => value !== null);
  const draw = (title, format, lines) => chart({ title, minutes, times, format, series: lines });
  const row = (...charts) => h('div', { class: 'charts' }, charts);
  return [
    row(
      draw('Deliveries a second', rate, [
        line('delivered', 'a', of('delivered')), line('failed', 'b', of('failed')),
        ...(known(of('accepted')) ? [line('accepted events', 'c', of('accepted'))] : []),
      ]),
      draw('How long receivers take', (ms) => millis(ms === null ? null : Math.round(ms)), [
        line('half within', 'c', of('latency_p50_ms')), line('95 % within', 'd', of('latency_p95_ms')),
      ]),
    ),
    known(of('held')) && row(
      draw('Waiting', whole, [
        line('for a time', 'c', of('waiting')), line('in lanes', 'd', of('held')),
      ]),
      draw('Oldest due, and dead letters', whole, [
        line('oldest due, seconds', 'd', of('oldest_due_seconds')), line('dead letters', 'b', of('dead_letters')),
      ]),
    ),
  ];
}

const whole = (value) => (value === null ? '–' : count(Math.round(value * 10) / 10));

function tiles({ streams, endpoints, lanes, series }) {
  const latest = series.findLast((point) => point.delivered !== null) ?? {};
  const tile = (name, value, note, alarm = false) => h('div', { class: `tile ${alarm ? 'alarm' : ''}` },
    h('dt', null, name), h('dd', null, value), h('dd', { class: 'note' }, note));
  return h('dl', { class: 'tiles' },
    streams && tile('Accepted', rate(latest.accepted ?? null), `${count(streams.accepted_total)} events in all`),
    tile('Delivered', rate(latest.delivered), 'attempts that succeed'),
    tile('Failing', rate(latest.failed), 'attempts that do not', latest.failed > latest.delivered),
    streams && tile('Waiting', count(streams.waiting), 'for their next attempt'),
    streams && tile('Held', count(streams.held), `in ${many(lanes.active, 'lane')}`),
    streams && tile('Dead letters', count(streams.dead_letters), h('a', { href: '/dead-letters' }, 'look at them'), streams.dead_letters > 0),
    streams && tile('Oldest due', seconds(streams.oldest_due_seconds), 'not yet sent', streams.oldest_due_seconds > LATE),
    tile('Endpoints', count(endpoints.total), `${count(endpoints.breakers_open)} cut off, ${count(endpoints.disabled)} disabled`));
}

function drawTrouble(answer) {
  const more = answer.total > answer.items.length;
  return h('section', { class: 'panel' },
    h('div', { class: 'panel-head' }, h('h2', null, 'Endpoints in trouble'),
      h('a', { class: 'side', href: '/endpoints?trouble=true' }, more ? `All ${count(answer.total)}` : 'All endpoints')),
    answer.items.length === 0
      ? h('p', { class: 'soft' }, 'None. No endpoint is failing, held or disabled.')
      : endpointTable('Failing, held or disabled', answer.items));
}

function begin() {
  const command = [
    'posthorn listen &',
    'posthorn endpoints add http://127.0.0.1:9000/ --tenant acme',
    "posthorn send invoice.paid '{\"id\":\"in_1\"}' --tenant acme",
  ].join('\n');
  return h('section', { class: 'panel' }, empty('Nothing has been delivered yet',
    h('p', null, 'Create an endpoint and publish an event; what becomes of it is shown here.'),
    block(command, 'Commands for a first delivery')));
}
