// Calls of this service, by the session's cookie. The header is what another page cannot send.

export class Failure extends Error {
  constructor(status, problem) {
    super(problem.detail ?? 'the service does not answer');
    this.status = status;
    this.field = problem.field;
    this.kind = (problem.type ?? '').split(':').pop();
  }
}

const signedOut = new Set();

// Calls `listener` when an answer says that nobody is signed in.
export function onSignedOut(listener) {
  signedOut.add(listener);
}

async function call(method, path, body, signal) {
  const headers = { 'X-Posthorn-Request': '1', Accept: 'application/json' };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(path, {
      method, headers, signal, credentials: 'same-origin', redirect: 'error',
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Failure(0, {});
  }
  const text = await response.text();
  const answer = parse(text);
  if (response.ok) return answer;
  const failure = new Failure(response.status, answer ?? {});
  if (response.status === 401 && path !== '/session') signedOut.forEach((listener) => listener());
  throw failure;
}

function parse(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

export const api = {
  get: (path, signal) => call('GET', path, undefined, signal),
  post: (path, body = {}, signal) => call('POST', path, body, signal),
  remove: (path, signal) => call('DELETE', path, undefined, signal),
};

// A path with a query of what is not empty.
export function withQuery(path, values) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== '') query.set(name, value);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}
