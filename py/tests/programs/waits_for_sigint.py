"""For each line it reads: waits for a lock until SIGINT comes, and prints when it did.

Arguments: URL, prefix, how to wait.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import redlatch

client = redlatch.Client(sys.argv[1], key_prefix=sys.argv[2], io_timeout=5, unavailable_after=60)
lock, lease = client.lock("a"), client.lease("a")


def enter() -> None:
    with lock:
        pass


waits: dict[str, Callable[[], object]] = {
    "acquire": lock.acquire,
    "with": enter,
    "timeout": lambda: lock.acquire(timeout=60),
    "lease": lease.acquire,
}
# Connections are open before anything goes wrong.
with client.lock("another"):
    pass
print("connected")
for _ in sys.stdin:
    try:
        print("waiting")
        waits[sys.argv[3]]()
        raise AssertionError("acquired")
    except KeyboardInterrupt:
        print(time.monotonic())
    assert lock.hold_count == 0 and not lease.held
