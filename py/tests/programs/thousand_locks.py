"""Counts the threads of a client that holds a thousand locks. Arguments: URL, prefix."""

from __future__ import annotations

import os
import sys
import threading
import time

import redlatch

client = redlatch.Client(sys.argv[1], key_prefix=sys.argv[2], renewal_threads=2)
before = len(os.listdir("/proc/self/task"))
leases = [client.lease(f"a{number}", ttl=3, on_lost=print) for number in range(1000)]
for lease in leases:
    assert lease.acquire()
# One waits as well: the thread that listens for all waiters runs.


def wait() -> None:
    with client.lock("a0"):
        pass


waiter = threading.Thread(target=wait)
waiter.start()
end = time.monotonic() + 4
most = 0
while time.monotonic() < end:
    most = max(most, len(os.listdir("/proc/self/task")) - before)
    time.sleep(0.05)
for lease in leases:
    lease.check()
assert most - 1 <= 2 + 4, f"{most} threads, one of them the waiter's own"
for lease in leases:
    lease.release()
waiter.join()
print("at most 6 threads")
