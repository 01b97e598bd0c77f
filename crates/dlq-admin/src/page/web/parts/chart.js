// Time series as lines: small, still, and told in words as well.

import { h, svg } from './dom.js';

const [WIDTH, HEIGHT] = [560, 180];
const EDGE = { left: 46, right: 10, top: 8, bottom: 24 };
const INNER = { width: WIDTH - EDGE.left - EDGE.right, height: HEIGHT - EDGE.top - EDGE.bottom };
const ROUND = [1, 2, 2.5, 5, 10];

// The next round number, so that the scale does not jump with every value.
function ceiling(value) {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ROUND.find((step) => step * power >= value);
}

const last = (values) => values.findLast((value) => value !== null) ?? null;
const greatest = (values) => Math.max(0, ...values.filter((value) => value !== null));

// Runs of what is known: a hole is no zero, and no line goes through it.
function runs(values) {
  const found = [];
  let run = null;
  values.forEach((value, at) => {
    if (value === null) run = null;
    else if (run) run.push([at, value]);
    else found.push(run = [[at, value]]);
  });
  return found;
}

// How many of the last steps are shown: all, but shortly after a start no more than are not empty.
const WINDOWS = [3, 5, 10, 15];

export function span(series, times, stepSeconds) {
  const begins = Math.min(...series.map((values) => {
    const at = values.findIndex((value) => value > 0);
    return at < 0 ? values.length : at;
  }));
  const minutes = WINDOWS.find((some) => (some * 60) / stepSeconds >= times.length - begins) ?? WINDOWS.at(-1);
  return { minutes, from: Math.max(0, times.length - (minutes * 60) / stepSeconds) };
}

// `series` are {name, kind, values}; `times` are the beginnings of the steps; `format` makes a
// value a text. What is pointed at is told in the legend.
export function chart({ title, minutes, times, series, format }) {
  const top = ceiling(Math.max(...series.map((one) => greatest(one.values))));
  const steps = Math.max(times.length - 1, 1);
  const x = (at) => EDGE.left + (INNER.width * at) / steps;
  const y = (value) => EDGE.top + INNER.height * (1 - value / top);
  const point = ([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`;

  const grid = [0, 0.5, 1].map((part) => [
    svg('line', { class: 'grid', x1: EDGE.left, x2: WIDTH - EDGE.right, y1: y(top * part), y2: y(top * part) }),
    svg('text', { x: EDGE.left - 6, y: y(top * part) + 4, 'text-anchor': 'end' }, format(top * part)),
  ]);
  const lines = series.map((one) => svg('g', { class: `series-${one.kind}` }, runs(one.values).map((run) => [
    svg('polygon', { class: 'area', points: `${point([run[0][0], 0])} ${run.map(point).join(' ')} ${point([run.at(-1)[0], 0])}` }),
    svg('polyline', { class: 'line', points: run.map(point).join(' ') }),
  ])));
  const cursor = svg('line', { class: 'cursor', y1: EDGE.top, y2: HEIGHT - EDGE.bottom, visibility: 'hidden' });
  const axis = [
    svg('text', { x: EDGE.left, y: HEIGHT - 6 }, `${minutes} minutes ago`),
    svg('text', { x: WIDTH - EDGE.right, y: HEIGHT - 6, 'text-anchor': 'end' }, 'now'),
  ];
  const told = series.map((one) => `${one.name}: now ${format(last(one.values))}, at most ${format(greatest(one.values))}`);
  const drawing = svg('svg', {
    class: 'chart', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': `${title}, the last ${minutes} minutes. ${told.join('. ')}.`,
  }, grid, lines, cursor, axis);

  const legends = series.map((one) => h('span', { class: `legend series-${one.kind}` }));
  const tell = (at) => series.forEach((one, which) => {
    legends[which].textContent = `${one.name} ${format(at === null ? last(one.values) : one.values[at])}`;
  });
  tell(null);
  drawing.addEventListener('pointermove', (event) => {
    const box = drawing.getBoundingClientRect();
    const at = Math.round((((event.clientX - box.left) / box.width) * WIDTH - EDGE.left) / INNER.width * steps);
    if (at < 0 || at > steps) return;
    cursor.setAttribute('x1', x(at));
    cursor.setAttribute('x2', x(at));
    cursor.setAttribute('visibility', 'visible');
    tell(at);
  });
  drawing.addEventListener('pointerleave', () => {
    cursor.setAttribute('visibility', 'hidden');
    tell(null);
  });
  return h('figure', { class: 'panel' }, h('figcaption', null, h('h2', null, title), legends), drawing);
}
