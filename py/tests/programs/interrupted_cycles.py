"""Interrupts `with` cycles at random moments, each by one signal. Arguments: URL, prefix, number of cycles.

Prints how many signals came while the body ran, and how many came elsewhere.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from types import FrameType

import redlatch


def interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


signal.signal(signal.SIGALRM, interrupt)
client = redlatch.Client(sys.argv[1], key_prefix=sys.argv[2])
lock = client.lock("a", ttl=60)
counts = [0, 0]
with lock:
    pass
for number in range(int(sys.argv[3])):
    place = 1
    # Some at once, some while others have the lock, some in the body.
    delay = random.uniform(0.000_01, random.choice((0.001, 0.008, 0.04)))
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        with lock:
            place = 0
            time.sleep(0.001)
        place = 1
        # Every cycle gets its signal, and gets it here at the latest: none is left over for the next one.
        # In steps: a signal that comes just before a sleep begins is noticed when it ends.
        for _ in range(1000):
            time.sleep(0.01)
        raise AssertionError("no signal came")
    except KeyboardInterrupt:
        counts[place] += 1
    assert lock.hold_count == 0 and lock.lost is None, number
print(*counts)
