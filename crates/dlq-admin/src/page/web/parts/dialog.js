// Questions. The browser's own dialog keeps the focus inside and gives it back.

import { h } from './dom.js';
import { attempt } from './notice.js';

// What `submit` returns to leave the dialog open.
export const STAY = Symbol('stay');

// Opens a dialog and resolves when it has been closed: with what `submit` returned, or undefined.
// `content` are nodes; `submit` is called with the form's data and may throw, which is shown and
// leaves the dialog open. `ready` says whether there is anything to confirm; it is asked after
// every input, and when the form is told `ready`.
export function ask({ title, content, confirm, danger = false, submit, ready = () => true }) {
  return new Promise((resolve) => {
    let result;
    const problem = h('p', { class: 'problem', role: 'alert' });
    const yes = h('button', { class: danger ? 'first danger' : 'first' }, confirm);
    const form = h('form', { method: 'dialog' },
      h('h2', { id: 'dialog-title' }, title), content, problem,
      h('div', { class: 'row' },
        h('button', { type: 'button', onclick: () => dialog.close() }, 'Not now'), yes));
    const dialog = h('dialog', { 'aria-labelledby': 'dialog-title' }, form);
    const asker = document.activeElement?.dataset?.focus;
    const judge = () => { yes.disabled = !ready(new FormData(form)); };
    form.addEventListener('input', judge);
    form.addEventListener('ready', judge);
    form.addEventListener('submit', async (event) => {
      event.preventDefault();
      yes.disabled = true;
      problem.textContent = '';
      try {
        const answer = await submit(new FormData(form));
        if (answer === STAY) return judge();
        result = answer;
        dialog.close();
      } catch (error) {
        problem.textContent = error.message;
        judge();
      }
      return undefined;
    });
    dialog.addEventListener('close', () => {
      dialog.remove();
      // A list that was refreshed meanwhile has another button in the place of the one before.
      const lost = document.activeElement === document.body && asker;
      if (lost) document.querySelector(`[data-focus="${CSS.escape(asker)}"]`)?.focus();
      resolve(result);
    });
    document.body.append(dialog);
    judge();
    dialog.showModal();
  });
}

// Shows something that is there once, with a button to go on.
export function tell(title, content) {
  return ask({ title, content, confirm: 'Done', submit: () => true });
}

// A button of a view: it is off, and says why, where `why` has a reason.
export function act(label, why, onclick, { kind = '', focus = label } = {}) {
  return h('button', {
    type: 'button', class: kind, disabled: why !== null, title: why, 'data-focus': focus,
    onclick: (event) => onclick(event.currentTarget),
  }, label);
}

// The same for what is done at once, without a question.
export function doAct(label, why, work, done, options) {
  return act(label, why, (button) => attempt(button, work, done), options);
}
