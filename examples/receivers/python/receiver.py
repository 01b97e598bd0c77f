"""A receiver of webhooks: verify, take each id once, answer, and only then work.

    pip install -r requirements.txt
    WEBHOOK_SECRET=whsec_… PORT=9000 python receiver.py
"""

import contextlib
import os
import sqlite3
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks.webhooks import Webhook

INBOX = os.environ.get("INBOX", "inbox.sqlite")
MAX_BODY = 1 << 20
TABLE = """create table if not exists inbox (
    number integer primary key, id text unique not null, body blob not null,
    done integer not null default 0)"""
arrived = threading.Event()


# begin: verify
webhook = Webhook(os.environ["WEBHOOK_SECRET"])


def is_genuine(headers, body):
    """Whether a request is the sender's, unchanged, and at most five minutes old."""
    try:
        # The bytes as they came: parsed and written anew they would not be what was signed.
        webhook.verify(body, headers, json_parse=False)
        return True
    except Exception:
        # Whatever it stumbles over in a stranger's request, the request is not believed.
        return False
# end: verify


@contextlib.contextmanager
def inbox():
    """The table, in one transaction."""
    connection = sqlite3.connect(INBOX, timeout=5)
    try:
        with connection:
            connection.execute(TABLE)
            yield connection
    finally:
        connection.close()


# begin: once
def store(event_id, body):
    """Keeps the event for the worker; false where it was here before."""
    with inbox() as table:
        row = (event_id, body)
        added = table.execute("insert or ignore into inbox (id, body) values (?, ?)", row)
        return added.rowcount == 1
# end: once


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10

    def do_POST(self):
        length = self.headers.get("content-length", "")
        if not length.isdigit():
            return self.answer(411)
        if int(length) > MAX_BODY:
            return self.answer(413)
        body = self.rfile.read(int(length))
        headers = {name.lower(): value for name, value in self.headers.items()}
        if not is_genuine(headers, body):
            return self.answer(401)
        try:
            is_new = store(headers["webhook-id"], body)
        except sqlite3.Error:
            # Not stored, so it has to come again.
            return self.answer(503)
        # It is stored, so it can be answered; the worker has its own time.
        print("new" if is_new else "again", headers["webhook-id"], flush=True)
        arrived.set()
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        # What was not read would be taken for the next request.
        self.close_connection = status in (411, 413)
        self.end_headers()

    def log_message(self, *_):
        pass


def work(event_id, body):
    """What the event is for. It may be begun again after a crash, so what must not happen twice
    belongs into the transaction that marks it as done."""
    print("done", event_id, flush=True)


def worker():
    while True:
        arrived.clear()
        with inbox() as table:
            query = "select id, body from inbox where not done order by number limit 1"
            row = table.execute(query).fetchone()
            if row:
                work(*row)
                table.execute("update inbox set done = 1 where id = ?", row[:1])
        if not row:
            arrived.wait(timeout=60)


if __name__ == "__main__":
    threading.Thread(target=worker, daemon=True).start()
    address = ("127.0.0.1", int(os.environ.get("PORT", "9000")))
    with ThreadingHTTPServer(address, Receiver) as server:
        print(f"listening on {address[0]}:{address[1]}", flush=True)
        server.serve_forever()
