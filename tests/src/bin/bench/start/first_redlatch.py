"""Tells when it started, had imported redlatch, was granted its first lock and had released it, on ``CLOCK_MONOTONIC``.

Argument: the server's URL. It is short, because Python compiles it anew at every start.
"""

from __future__ import annotations

import time

started = time.monotonic_ns()

# What else is loaded is part of what is measured.
import sys

import redlatch

ready = time.monotonic_ns()
client = redlatch.Client(sys.argv[1])
lock = client.lock("bench:first")
lock.acquire()
granted = time.monotonic_ns()
lock.release()
print(started, ready, granted, time.monotonic_ns())
