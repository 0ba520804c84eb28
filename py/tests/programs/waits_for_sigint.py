"""Waits for a lock until SIGINT comes, and prints when it did; again for each line it reads.

Arguments: URL, prefix, how to wait.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import redlatch

client = redlatch.Client(sys.argv[1], key_prefix=sys.argv[2], io_timeout=5, unavailable_after=60)
lock, lease = client.lock("a"), client.lease("a")
# Before anything goes wrong, connections are open.
assert client.lock("another").acquire()


def enter() -> None:
    with lock:
        pass


waits: dict[str, Callable[[], object]] = {
    "acquire": lock.acquire,
    "with": enter,
    "timeout": lambda: lock.acquire(timeout=60),
    "lease": lease.acquire,
}
while True:
    try:
        print("waiting")
        waits[sys.argv[3]]()
        raise AssertionError("acquired")
    except KeyboardInterrupt:
        print(time.monotonic())
    assert lock.hold_count == 0 and not lease.held
    if not sys.stdin.readline():
        break
