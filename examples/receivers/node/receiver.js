// A receiver of webhooks: verify, take each id once, answer, and only then work.
//
//   npm ci
//   WEBHOOK_SECRET=whsec_… PORT=9000 node receiver.js

import { randomUUID } from 'node:crypto';
import { access, link, mkdir, open, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import http from 'node:http';
import path from 'node:path';
import { Webhook } from 'standardwebhooks';

const INBOX = process.env.INBOX ?? 'inbox';
const MAX_BODY = 1 << 20;
const IS_NAME = /^[A-Za-z0-9_-]{1,200}$/;

// begin: verify
const webhook = new Webhook(process.env.WEBHOOK_SECRET);

/** Whether a request is the sender's, unchanged, and at most five minutes old. */
function isGenuine(headers, body) {
  try {
    // The bytes as they came: parsed and written anew they would not be what was signed.
    webhook.verify(body, headers, { jsonParse: false });
    return true;
  } catch {
    // Whatever it stumbles over in a stranger's request, the request is not believed.
    return false;
  }
}
// end: verify

// begin: once
/** Keeps the event for the worker; false where it was here before. With a database this is a row
 * whose id is unique; with files it is a link, which is there whole or not at all. */
async function store(id, body) {
  const temporary = path.join(INBOX, `.${randomUUID()}`);
  const file = await open(temporary, 'wx');
  try {
    await file.writeFile(body);
    await file.sync();
    await link(temporary, path.join(INBOX, id));
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  } finally {
    await file.close();
    await rm(temporary);
  }
}
// end: once

/** The whole body, or null where it is too long. */
async function read(request) {
  const chunks = [];
  let length = 0;
  for await (const chunk of request) {
    length += chunk.length;
    if (length > MAX_BODY) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function receive(request) {
  if (request.method !== 'POST') return 405;
  const body = await read(request);
  if (body === null) return 413;
  if (!isGenuine(request.headers, body)) return 401;
  const id = request.headers['webhook-id'];
  if (!IS_NAME.test(id)) return 400;
  // What is stored can be answered; the worker has its own time.
  const isNew = await store(id, body);
  console.log(isNew ? 'new' : 'again', id);
  wake();
  return 204;
}

/** What the event is for. It may be begun again after a crash, so what must not happen twice
 * belongs into one transaction with the mark that it is done. */
async function work(id, body) {
  console.log('done', id);
}

const exists = (file) => access(file).then(() => true, () => false);

/** Works on everything that is not marked as done. */
async function drain() {
  for (const id of (await readdir(INBOX)).filter((name) => IS_NAME.test(name))) {
    const file = path.join(INBOX, id);
    if (await exists(`${file}.done`)) continue;
    await work(id, await readFile(file));
    await writeFile(`${file}.done`, '');
  }
}

let draining = Promise.resolve();
function wake() {
  draining = draining.then(drain).catch((error) => console.error(error));
}

await mkdir(INBOX, { recursive: true });
wake();
const server = http.createServer((request, response) => {
  // A store that fails is answered with 503, and the event comes again.
  receive(request).catch(() => 503).then((status) => response.writeHead(status).end());
});
const port = Number(process.env.PORT ?? 9000);
server.listen(port, '127.0.0.1', () => console.log(`listening on 127.0.0.1:${port}`));
