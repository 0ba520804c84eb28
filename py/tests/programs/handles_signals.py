"""Waits for a lock and counts signals meanwhile. Arguments: URL, prefix."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import redlatch

count = 0


def handle(number: int, frame: FrameType | None) -> None:
    global count
    count += 1
    print("handled", count)


signal.signal(signal.SIGUSR1, handle)
client = redlatch.Client(sys.argv[1], key_prefix=sys.argv[2])
print("waiting")
with client.lock("a"):
    print("acquired")
