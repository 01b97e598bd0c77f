// The page: who is signed in, where they are, and what is shown there.

import { onSignedOut } from './parts/api.js';
import { h, replace } from './parts/dom.js';
import { keepTimesTrue } from './parts/format.js';
import { attempt, failed } from './parts/notice.js';
import { go, show, start } from './parts/router.js';
import { session } from './parts/session.js';
import { endpoint } from './views/endpoint.js';
import { endpoints } from './views/endpoints.js';
import { events } from './views/events.js';
import { jobs } from './views/jobs.js';
import { letter } from './views/letter.js';
import { letters } from './views/letters.js';
import { overview } from './views/overview.js';
import { signIn } from './views/sign-in.js';

const LINKS = [
  ['/', 'Overview'],
  ['/endpoints', 'Endpoints'],
  ['/dead-letters', 'Dead letters'],
  ['/jobs', 'Jobs'],
  ['/events', 'Event look-up'],
];

// Whoever is not signed in is asked to, at the address that they came for. A key without any of
// the scopes that a view needs is told so, and the service is not asked what it would refuse.
const guarded = (view, scopes = ['operate']) => (context) => {
  if (!session.caller) return signIn(context, arrived);
  return scopes.some((scope) => session.may(scope)) ? view(context) : refused(scopes);
};

function refused([scope]) {
  const endpoints = session.may('endpoints') && h('p', null, 'It may see the ', h('a', { href: '/endpoints' }, 'endpoints'), '.');
  return {
    title: 'Not permitted',
    node: h('section', { class: 'panel' }, h('h1', null, 'Your key may not see this'), h('p', null, session.why(scope)), endpoints),
  };
}

const ROUTES = [
  [/^\/$/, guarded(overview)],
  [/^\/sign-in$/, (context) => signIn(context, arrived)],
  [/^\/endpoints$/, guarded(endpoints, ['operate', 'endpoints'])],
  [/^\/endpoints\/(?<id>ep_[0-9a-f]+)$/, guarded(endpoint, ['operate', 'endpoints'])],
  [/^\/dead-letters$/, guarded(letters)],
  [/^\/dead-letters\/(?<id>dl_[0-9a-z]+)$/, guarded(letter)],
  [/^\/jobs$/, guarded(jobs)],
  [/^\/events$/, guarded(events)],
];

function frame() {
  const nav = document.getElementById('nav');
  const who = document.getElementById('who');
  const caller = session.caller;
  nav.hidden = who.hidden = !caller;
  if (!caller) return;
  replace(nav, h('ul', null, LINKS.map(([path, name]) => h('li', null, h('a', { href: path }, name)))));
  const what = caller.tenant ? `${caller.name}, tenant ${caller.tenant}` : caller.name;
  replace(who, h('span', { title: `Scopes: ${caller.scopes.join(', ')}` }, what),
    h('button', { type: 'button', onclick: (event) => attempt(event.currentTarget, leave) }, 'Sign out'));
}

function arrived() {
  frame();
  if (location.pathname === '/sign-in') go('/');
  else show();
}

async function leave() {
  await session.signOut();
  frame();
  go('/sign-in');
}

onSignedOut(() => {
  session.forget();
  frame();
  show();
});

async function begin() {
  const outlet = document.getElementById('view');
  try {
    await session.load();
  } catch (error) {
    replace(outlet, failed(error));
    setTimeout(begin, 3000);
    return;
  }
  keepTimesTrue();
  frame();
  start(ROUTES, outlet);
  show(false);
}

begin();
