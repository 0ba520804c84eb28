"""Closes its client in the handler of a signal that interrupts a wait of that client. Arguments: URL, prefix."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType

import redlatch

LIMIT = 5.0

url, prefix = sys.argv[1:]
client, other = redlatch.Client(url, key_prefix=prefix, io_timeout=LIMIT), redlatch.Client(url, key_prefix=prefix)
took: list[float] = []


def close(number: int, frame: FrameType | None) -> None:
    begin = time.monotonic()
    client.close()
    took.append(time.monotonic() - begin)


def interrupt() -> None:
    while (info := other.inspect("a")) is None or info.waiters == 0:
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGUSR1)


signal.signal(signal.SIGUSR1, close)
holder = other.lease("a", ttl=60)
holder.acquire()
thread = threading.Thread(target=interrupt)
thread.start()
try:
    client.lock("a").acquire()
    raise AssertionError("acquired")
except redlatch.ClosedError:
    pass
thread.join()
# It would have waited for as long as a request may take.
assert len(took) == 1 and took[0] < LIMIT / 2, took
holder.release()
print("closed at once")
