"""Counts requests in a key, each step under one lock of a client that all workers inherit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import redlatch
from harness import Connection

URL, PREFIX = os.environ["REDIS_URL"], os.environ["PREFIX"]
client = redlatch.Client(URL, key_prefix=PREFIX)
if os.environ["BEFORE"] == "used":
    with client.lock("a"):
        pass
if os.environ["BEFORE"] == "held":
    client.lock("of the master").acquire()


def application(environ: dict[str, object], respond: Callable[[str, list[tuple[str, str]]], object]) -> Iterable[bytes]:
    with client.lock("a", wait=15), Connection(int(URL.rsplit(":", 1)[1].split("/")[0])) as connection:
        key = f"{PREFIX}count"
        connection.call("SET", key, int(connection.call("GET", key) or 0) + 1)
    busy = client.lock("of the master")
    if os.environ["BEFORE"] == "held" and (busy.hold_count or busy.acquire(blocking=False)):
        raise AssertionError("a worker has the lock of its master")
    respond("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]
