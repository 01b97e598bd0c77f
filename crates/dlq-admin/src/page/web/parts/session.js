// Who is signed in, and what that key may do. The service decides; this only spares a click.

import { api } from './api.js';

let state = { caller: null, ingest: false };

export const session = {
  get caller() { return state.caller; },
  get hasIngest() { return state.ingest; },

  async load() {
    state = await api.get('/session');
    return state.caller;
  },

  // Whether the browser kept the cookie is only known when it is asked for it.
  async signIn(key) {
    await api.post('/session', { key });
    if (!(await this.load())) {
      throw new Error('The browser did not keep the cookie: open this page by https.');
    }
  },

  async signOut() {
    await api.remove('/session');
    state = { ...state, caller: null };
  },

  forget() {
    state = { ...state, caller: null };
  },

  may(scope) {
    return state.caller?.scopes.includes(scope) ?? false;
  },

  // Why a button is off; null where it is on.
  why(scope) {
    if (!this.may(scope)) return `Your key has no scope “${scope}”.`;
    return null;
  },

  // The same for what belongs to the public API.
  whyIngest() {
    if (!state.ingest) return 'This service is not told where ingest is (POSTHORN_INGEST_URL).';
    return this.why('endpoints');
  },
};
