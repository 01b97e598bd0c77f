// Asking again and again while somebody looks, and not while nobody does.

import { replace } from './dom.js';
import { failed } from './notice.js';

// Calls `load`, shows what it returns by `draw` in `box`, and again every `seconds` until the view
// is left; 0 is once. What cannot be loaded is said in the box, the first time; later what was
// there stays, and a line above it says that it is old. Returns a function that loads at once.
export function live(signal, box, seconds, load, draw) {
  let timer = null;
  let shown = null;

  async function once() {
    clearTimeout(timer);
    try {
      const answer = await load(signal);
      if (signal.aborted) return;
      box.removeAttribute('data-old');
      const text = JSON.stringify(answer);
      if (text !== shown) replace(box, draw(answer));
      shown = text;
    } catch (error) {
      if (signal.aborted || error.name === 'AbortError') return;
      if (shown === null) replace(box, failed(error));
      else box.setAttribute('data-old', error.message);
    } finally {
      box.removeAttribute('aria-busy');
      const again = !signal.aborted && seconds > 0;
      if (again) timer = setTimeout(() => document.hidden || once(), seconds * 1000);
    }
  }

  const seen = () => document.hidden || once();
  document.addEventListener('visibilitychange', seen, { signal });
  signal.addEventListener('abort', () => clearTimeout(timer));
  box.setAttribute('aria-busy', 'true');
  once();
  return once;
}
