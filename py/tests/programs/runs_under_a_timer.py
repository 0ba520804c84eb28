"""Every request under a timer whose signals come faster than answers. Arguments: port, prefix, "lock" or "lease"."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

import redlatch
from harness import Proxy

T = TypeVar("T")
port, prefix, requests = sys.argv[1:]
count = 0


def handle(number: int, frame: FrameType | None) -> None:
    global count
    count += 1


def interrupted(request: Callable[[], T]) -> T:
    """What the request returns. A signal came meanwhile, and the request took no longer than some of its kind do."""
    before, begin = count, time.monotonic()
    outcome = request()
    took = time.monotonic() - begin
    assert count > before and took < 3, (count - before, took)
    return outcome


logging.getLogger("redlatch").addHandler(logging.NullHandler())
signal.signal(signal.SIGALRM, handle)
proxy = Proxy(int(port))
client = redlatch.Client(proxy.url, key_prefix=prefix)
client.inspect("another")
proxy.delay(0.1)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
for _ in range(5):
    if requests == "lock":
        lock = client.lock("a", ttl=60)
        assert interrupted(lambda: lock.acquire(timeout=5))
        interrupted(lock.renew)
        assert interrupted(lock.locked)
        assert interrupted(lambda: client.inspect("a")) is not None
        interrupted(lock.release)
        assert interrupted(lambda: lock.acquire(blocking=False))
        assert interrupted(lambda: client.force_release("a"))
        assert not interrupted(lock.locked)
        with contextlib.suppress(redlatch.LostError):
            lock.release()
    else:
        lease = client.lease("a", ttl=60)
        assert interrupted(lambda: lease.acquire(timeout=5))
        interrupted(lease.renew)
        token = interrupted(lease.into_token)
        adopted = interrupted(lambda: client.adopt("a", token, ttl=60))
        interrupted(adopted.release)
signal.setitimer(signal.ITIMER_REAL, 0)
assert client.stats()["release_unconfirmed"] == 0, client.stats()
proxy.restore()
print("succeeded")
client.close()
