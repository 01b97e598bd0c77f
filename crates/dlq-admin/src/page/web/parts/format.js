// Numbers and times as people read them. Absolute times are in the titles.

import { h } from './dom.js';

const NUMBER = new Intl.NumberFormat('en');
const WHEN = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'medium' });
const STEPS = [['day', 86_400], ['hour', 3_600], ['minute', 60], ['second', 1]];

export const count = (number) => (number === null || number === undefined ? '–' : NUMBER.format(number));

// “1 letter”, “2 letters”.
export const many = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 ? one : more}`;

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return '–';
  return `${perSecond >= 100 ? NUMBER.format(Math.round(perSecond)) : NUMBER.format(Math.round(perSecond * 10) / 10)}/s`;
}

export function millis(ms) {
  if (ms === null || ms === undefined) return '–';
  return ms < 1000 ? `${NUMBER.format(ms)} ms` : `${NUMBER.format(Math.round(ms / 100) / 10)} s`;
}

const BYTES = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(number) {
  const power = Math.min(Math.floor(Math.log2(Math.max(number, 1)) / 10), BYTES.length - 1);
  return `${NUMBER.format(Math.round((number / 1024 ** power) * 10) / 10)} ${BYTES[power]}`;
}

export function seconds(total) {
  if (total === null || total === undefined) return '–';
  if (total < 1) return '0 s';
  for (const [unit, length] of STEPS) {
    if (total >= length) return `${Math.floor(total / length)} ${unit[0]}`;
  }
  return '0 s';
}

function ago(time) {
  const distance = (Date.now() - time) / 1000;
  const [size, past] = [Math.abs(distance), distance >= 0];
  if (size < 1) return 'now';
  const [unit, length] = STEPS.find(([, length]) => size >= length);
  const text = many(Math.floor(size / length), unit);
  return past ? `${text} ago` : `in ${text}`;
}

// A time element: how long ago, and the time itself as its title.
export function when(text) {
  if (!text) return h('span', { class: 'soft' }, '–');
  const time = new Date(text);
  return h('time', { datetime: text, title: WHEN.format(time), class: 'nowrap', 'data-ago': true }, ago(time));
}

// “5 seconds ago” is true for a second: said anew while it stands there.
export function keepTimesTrue() {
  setInterval(() => {
    for (const time of document.querySelectorAll('time[data-ago]')) {
      const text = ago(new Date(time.dateTime));
      if (time.textContent !== text) time.textContent = text;
    }
  }, 1000);
}

// The time itself.
export function clock(text) {
  return h('time', { datetime: text, title: text, class: 'nowrap' }, WHEN.format(new Date(text)));
}

// The end of an id is what tells it from others.
export const short = (id) => (id && id.length > 20 ? `${id.slice(0, id.indexOf('_') + 1)}…${id.slice(-8)}` : id);

// What is typed into a field for a local time, as the service reads it.
export const toTime = (local) => (local ? new Date(local).toISOString() : '');

export function toLocal(text) {
  if (!text || Number.isNaN(Date.parse(text))) return '';
  const time = new Date(text);
  return new Date(time - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
