// Text to be taken elsewhere: into the clipboard, and into a shell without being read by it.

import { h } from './dom.js';
import { notice } from './notice.js';

// One word of a shell.
export const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function copyButton(text, what) {
  return h('button', { type: 'button', class: 'quiet', 'aria-label': `Copy ${what}`, onclick: () => copy(text) }, 'Copy');
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    notice('Copied.');
  } catch {
    notice('The browser does not permit copying; select the text instead.', 'bad');
  }
}

// A block of text with a button to copy it.
export function block(text, what) {
  return h('div', null,
    h('div', { class: 'row' }, h('span', { class: 'soft small' }, what), copyButton(text, what)),
    h('pre', { tabindex: '0', role: 'region', 'aria-label': what }, text));
}
