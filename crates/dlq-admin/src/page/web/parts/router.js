// Addresses and views. An address is all there is to a view: what is filtered by is in its query,
// so a reload, the back button and a link in a chat all show the same.

let routes = [];
let outlet;
let current = new AbortController();

// Each route is [pattern, view]; a view gets {params, query, signal} and returns {title, node}.
export function start(table, element) {
  routes = table;
  outlet = element;
  document.addEventListener('click', follow);
  window.addEventListener('popstate', () => show(false));
}

export function go(path, { quietly = false } = {}) {
  if (path === location.pathname + location.search) return show(!quietly);
  history.pushState(null, '', path);
  return show(!quietly);
}

// Writes an address without showing anything anew.
export function rewrite(path) {
  history.replaceState(null, '', path);
}

function follow(event) {
  const link = event.target.closest?.('a[href^="/"]');
  const special = event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;
  if (!link || special || event.button !== 0 || event.defaultPrevented) return;
  if (link.target || link.hasAttribute('download') || link.pathname.startsWith('/v1/')) return;
  event.preventDefault();
  go(link.pathname + link.search);
}

export function show(moveFocus = true) {
  current.abort();
  current = new AbortController();
  const query = new URLSearchParams(location.search);
  for (const [pattern, view] of routes) {
    const found = pattern.exec(location.pathname);
    if (!found) continue;
    const shown = view({ params: found.groups ?? {}, query, signal: current.signal });
    document.title = `${shown.title} · Posthorn`;
    outlet.replaceChildren(shown.node);
    mark();
    if (moveFocus) arrive();
    return;
  }
  go('/');
}

function mark() {
  for (const link of document.querySelectorAll('#nav a')) {
    const here = link.pathname === '/'
      ? location.pathname === '/'
      : location.pathname.startsWith(link.pathname);
    if (here) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
}

// Whoever uses a keyboard or a screen reader begins at the top of what is new.
function arrive() {
  const heading = outlet.querySelector('h1');
  heading?.setAttribute('tabindex', '-1');
  (heading ?? outlet).focus({ preventScroll: true });
  window.scrollTo(0, 0);
}
