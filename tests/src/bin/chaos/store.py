"""The resource that the locks of the chaos run protect: an SQLite table that refuses lower fences.

Arguments: the path of the socket to serve, and that of the database. It serves until standard input ends.

| line | answer |
|---|---|
| ``begin KEY FENCE`` | ``ok VERSION`` of the row, which has the fence from now on; ``refused FENCE`` where it has a higher one |
| ``write KEY FENCE VERSION`` | ``ok VERSION`` of the written row; ``refused FENCE`` where the row has another fence |
| ``dump`` | every line that asked for something, in the order in which they were served, then ``end`` |

The version says how often the row was written. A writer names the one that it read when it began, and nothing here
compares it: two writers that began with the same one are for the checker to find. A line of ``dump`` is ``VERB KEY FENCE
VERSION ACCEPTED``, where the version is that of the answer to ``begin`` and that of the request to ``write``.
"""

from __future__ import annotations

import os
import socketserver
import sqlite3
import sys
import threading

SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
CREATE TABLE row (key INTEGER PRIMARY KEY, fence INTEGER NOT NULL, version INTEGER NOT NULL);
CREATE TABLE served (
    number INTEGER PRIMARY KEY, verb TEXT NOT NULL, key INTEGER NOT NULL, fence INTEGER NOT NULL,
    version INTEGER NOT NULL, accepted INTEGER NOT NULL
);
"""


class Store:
    def __init__(self, path: str) -> None:
        self.turn = threading.Lock()
        self.database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.database.executescript(SCHEMA)

    def serve(self, verb: str, *numbers: int) -> str:
        if verb == "begin":
            return self.begin(*numbers)
        return self.write(*numbers) if verb == "write" else self.dump()

    def begin(self, key: int, fence: int) -> str:
        with self.turn, self.database:
            self.database.execute("BEGIN")
            self.database.execute("INSERT OR IGNORE INTO row VALUES (?, 0, 0)", (key,))
            changed = self.database.execute("UPDATE row SET fence = ? WHERE key = ? AND fence <= ?", (fence, key, fence))
            return self.answer("begin", key, fence, None, changed.rowcount == 1)

    def write(self, key: int, fence: int, version: int) -> str:
        with self.turn, self.database:
            self.database.execute("BEGIN")
            changed = self.database.execute(
                "UPDATE row SET version = version + 1 WHERE key = ? AND fence = ?", (key, fence)
            )
            return self.answer("write", key, fence, version, changed.rowcount == 1)

    def answer(self, verb: str, key: int, fence: int, named: int | None, accepted: bool) -> str:
        has, version = self.database.execute("SELECT fence, version FROM row WHERE key = ?", (key,)).fetchone()
        served = (verb, key, fence, version if named is None else named, accepted)
        self.database.execute("INSERT INTO served (verb, key, fence, version, accepted) VALUES (?, ?, ?, ?, ?)", served)
        return f"ok {version}" if accepted else f"refused {has}"

    def dump(self) -> str:
        with self.turn:
            rows = self.database.execute("SELECT verb, key, fence, version, accepted FROM served ORDER BY number")
            return "\n".join([" ".join(map(str, row)) for row in rows] + ["end"])


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


class Handler(socketserver.StreamRequestHandler):
    store: Store

    def handle(self) -> None:
        try:
            for line in self.rfile:
                verb, *numbers = line.decode().split()
                self.wfile.write((self.store.serve(verb, *map(int, numbers)) + "\n").encode())
        except ConnectionError:
            # A worker was killed.
            pass


def main() -> None:
    path, database = sys.argv[1:]
    Handler.store = Store(database)
    with Server(path, Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print("ready", flush=True)
        sys.stdin.read()
        os._exit(0)


if __name__ == "__main__":
    main()
