"""As ``first_redlatch.py``, by redis-py's ``Lock``."""

from __future__ import annotations

import time

started = time.monotonic_ns()

import sys  # noqa: E402

import redis  # noqa: E402
import redis.lock  # noqa: E402

ready = time.monotonic_ns()
client = redis.Redis.from_url(sys.argv[1])
lock = redis.lock.Lock(client, "bench:first")
lock.acquire()
granted = time.monotonic_ns()
lock.release()
print(started, ready, granted, time.monotonic_ns())
