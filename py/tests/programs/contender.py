"""Takes a lock again and again until it reads a line, then prints its longest wait. Arguments: URL, prefix."""

from __future__ import annotations

import random
import sys
import threading
import time

import redlatch

client = redlatch.Client(sys.argv[1], key_prefix=sys.argv[2])
lock = client.lock("a", ttl=60)
stop = threading.Event()


def read() -> None:
    sys.stdin.readline()
    stop.set()


threading.Thread(target=read, daemon=True).start()
longest = 0.0
print("running")
while not stop.is_set():
    begin = time.monotonic()
    with lock:
        longest = max(longest, time.monotonic() - begin)
        time.sleep(random.uniform(0, 0.004))
    time.sleep(random.uniform(0, 0.004))
print(longest)
