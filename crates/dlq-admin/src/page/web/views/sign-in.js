// Asks for a key.

import { h } from '../parts/dom.js';
import { session } from '../parts/session.js';

export function signIn(context, arrived) {
  const problem = h('p', { class: 'problem', role: 'alert' });
  const key = h('input', { type: 'password', name: 'key', id: 'key', required: true, autocomplete: 'current-password', spellcheck: 'false' });
  const button = h('button', { class: 'first' }, 'Sign in');
  const form = h('form', null,
    // Password managers keep a password under a name.
    h('input', { type: 'text', name: 'username', autocomplete: 'username', value: 'posthorn', hidden: true }),
    h('label', { for: 'key' }, 'API key', key), problem, button);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    button.disabled = true;
    problem.textContent = '';
    try {
      await session.signIn(key.value.trim());
      key.value = '';
      arrived();
    } catch (error) {
      problem.textContent = error.status === 401 ? 'This key is not known, or it has expired.' : error.message;
      key.focus();
    } finally {
      button.disabled = false;
    }
  });
  return {
    title: 'Sign in',
    node: h('section', { class: 'panel sign-in' },
      h('h1', null, 'Sign in'),
      h('p', { class: 'soft' }, 'With an API key, or with the admin key. It is sealed into a cookie that only this service can read, for 12 hours.'),
      form),
  };
}
