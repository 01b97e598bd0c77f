// What happened: in a corner, for everybody; and in place of what could not be shown.

import { h } from './dom.js';

const LONG = 6000;

export function notice(text, kind = '') {
  const box = document.getElementById('notices');
  const line = h('div', { class: `notice ${kind}` }, text);
  box.append(line);
  setTimeout(() => line.remove(), LONG);
}

// What a failure means to whoever looks, in place of what was to be shown.
export function failed(error) {
  const [title, text] = words(error);
  return h('div', { class: 'panel failure' }, h('h2', null, title), h('p', null, text));
}

function words(error) {
  switch (error.status) {
    case 0: return ['The service does not answer', 'It will be asked again by itself.'];
    case 403: return ['Your key may not see this', `The service says: ${error.message}.`];
    case 404: return ['It is not there', 'It may have been removed, or belong to another tenant.'];
    case 429: return ['Too many requests', 'The rate of your key is used up for the moment.'];
    case 503: return ['Not available now', `${error.message}. It will be asked again by itself.`];
    default: return ['That did not work', error.message];
  }
}

// Does something that a button asked for, and says how it went. The button rests meanwhile.
export async function attempt(button, work, done) {
  if (button) button.disabled = true;
  try {
    const answer = await work();
    if (done) notice(typeof done === 'function' ? done(answer) : done);
    return answer;
  } catch (error) {
    if (error.name !== 'AbortError') notice(words(error).join(': '), 'bad');
    return undefined;
  } finally {
    if (button) button.disabled = false;
  }
}
