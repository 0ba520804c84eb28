"""Acquires a lock, then imports greenlet. Arguments: URL, prefix."""

from __future__ import annotations

import sys

import redlatch

lock = redlatch.Client(sys.argv[1], key_prefix=sys.argv[2]).lock("a")
assert "greenlet" not in sys.modules
lock.acquire()
from greenlet import greenlet  # noqa: E402

assert lock.held and lock.hold_count == 1
greenlet(lambda: None).switch()
assert lock.acquire(blocking=False) and lock.hold_count == 2
lock.release()
lock.release()
print("still held")
