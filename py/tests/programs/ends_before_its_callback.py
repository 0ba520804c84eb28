"""Ends while a callback runs that comes to its end, or to its next step, in the middle of it. Arguments: how."""

from __future__ import annotations

import logging
import sys
import threading
import time

import redlatch
from redlatch.testing import MemoryClient

(how,) = sys.argv[1:]
started, steps = threading.Event(), 0


def called(info: redlatch.LostInfo) -> None:
    global steps
    started.set()
    if how == "sleeps":
        # Past the 2 s that the end of the interpreter waits for it, into the time of the destructor below.
        time.sleep(2.5)
        return
    sleep = time.sleep
    while True:
        sleep(0.0002)
        steps += 1


class Slow:
    """Ends with the interpreter, which then lets other threads run for a second."""

    def __init__(self) -> None:
        self._sleep, self._print = time.sleep, print

    def __del__(self) -> None:
        self._sleep(1)
        self._print("ended", flush=True)


logging.getLogger("redlatch").addHandler(logging.NullHandler())
# Referred to by a module that is not cleared before the threads of the process are told to end.
sys.modules["slow"] = Slow()  # type: ignore[assignment]
client = MemoryClient()
lock = client.lock("a", on_lost=called)
lock.acquire()
client.lose("a")
assert started.wait(10)
