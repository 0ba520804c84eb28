"""Holds a lock of 2 s while one C call keeps the interpreter for 4.8 s. Arguments: URL, prefix."""

from __future__ import annotations

import ctypes
import sys
import threading
import time

import redlatch

lost: list[redlatch.LostInfo] = []
ticks: list[float] = []


def tick() -> None:
    while True:
        ticks.append(time.monotonic())
        time.sleep(0.01)


client = redlatch.Client(sys.argv[1], key_prefix=sys.argv[2])
lock = client.lock("a", ttl=2, on_lost=lost.append)
threading.Thread(target=tick, daemon=True).start()
with lock:
    fence, token = lock.fence, lock.token
    begin = time.monotonic()
    # PyDLL, unlike CDLL, does not let go of the interpreter.
    ctypes.PyDLL(None).usleep(4_800_000)
    end = time.monotonic()
    assert end - begin >= 4.8
    assert not [at for at in ticks if begin + 0.2 < at < end - 0.2], "the call let other threads run"
    assert lock.held and lock.lost is None and lock.remaining > 1
    lock.check()
    info = client.inspect("a")
    assert info is not None and info.token == token and info.fence == fence
assert not lost
print("held without a loss")
