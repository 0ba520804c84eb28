"""As ``first_redlatch.py``, by redis-py's ``Lock``."""

from __future__ import annotations

import time

started = time.monotonic_ns()

# What else is loaded is part of what is measured.
import sys

import redis
import redis.lock

ready = time.monotonic_ns()
client = redis.Redis.from_url(sys.argv[1])
lock = redis.lock.Lock(client, "bench:first")
lock.acquire()
granted = time.monotonic_ns()
lock.release()
print(started, ready, granted, time.monotonic_ns())
