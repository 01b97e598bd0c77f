// Tables with a caption, and what is said where there is nothing to put into one.

import { h } from './dom.js';

// `columns` are names, or [name, 'number']; `rows` are arrays of cells.
export function table(caption, columns, rows) {
  const kinds = columns.map((column) => (Array.isArray(column) ? column[1] : null));
  const names = columns.map((column) => (Array.isArray(column) ? column[0] : column));
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    h('table', null,
      h('caption', null, caption),
      h('thead', null, h('tr', null,
        names.map((name, at) => h('th', { scope: 'col', class: kinds[at] }, name)))),
      h('tbody', null, rows.map((cells) => h('tr', null,
        cells.map((cell, at) => h('td', { class: kinds[at] }, cell)))))));
}

// In place of a list: what that means, and what to do.
export function empty(title, ...content) {
  return h('div', { class: 'empty' }, h('h2', null, title), content);
}

// Names and values, without those that are not there.
export function facts(pairs, kind = '') {
  const there = pairs.filter(([, value]) => value !== null && value !== undefined && value !== false && value !== '');
  return h('dl', { class: `facts ${kind}` }, there.flatMap(([name, value]) => [h('dt', null, name), h('dd', null, value)]));
}

// The heading of a view, with what belongs beside it.
export function head(title, { back, side = [], beside = [] } = {}) {
  return h('div', { class: 'head' },
    back && h('div', { class: 'back' }, h('a', { href: back[0] }, `← ${back[1]}`)),
    h('h1', null, title), beside, h('div', { class: 'side' }, side));
}

export function panel(title, ...content) {
  return h('section', { class: 'panel' }, h('h2', null, title), content);
}
