"""Lets a lock go and sends SIGINT at the same moment, again and again. Arguments: URL, prefix, number of times."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time

import redlatch

url, prefix, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
ours, theirs = redlatch.Client(url, key_prefix=prefix), redlatch.Client(url, key_prefix=prefix)
lock, holder = ours.lock("a", ttl=60), theirs.lease("a", ttl=60)
waiting, ready = threading.Semaphore(0), threading.Semaphore(0)


def let_go() -> None:
    for _ in range(times):
        # Nobody is left who has it: a lock that stayed with the main thread would be there for a minute.
        assert holder.acquire(timeout=5), "still locked"
        ready.release()
        waiting.acquire()
        while (info := theirs.inspect("a")) is None or info.waiters == 0:
            time.sleep(0.001)
        # Around the time that a hand-over takes, on either side of it.
        lead = random.uniform(-0.002, 0.002)
        if lead > 0:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(abs(lead))
        holder.release()
        if lead <= 0:
            os.kill(os.getpid(), signal.SIGINT)


thread = threading.Thread(target=let_go, daemon=True)
thread.start()
for _ in range(times):
    ready.acquire()
    try:
        waiting.release()
        with lock:
            # In steps: a signal that comes just before a sleep begins is noticed when it ends.
            for _ in range(1000):
                time.sleep(0.01)
        raise AssertionError("no signal came")
    except KeyboardInterrupt:
        pass
    assert lock.hold_count == 0
thread.join()
end = time.monotonic() + 2
while ours.lock("a").locked():
    assert time.monotonic() < end, "still locked"
    time.sleep(0.01)
print(times, "times free")
