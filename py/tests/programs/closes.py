"""Uses and closes clients, some by their last reference; counts threads and descriptors. Arguments: URL, prefix."""

from __future__ import annotations

import gc
import os
import sys
import time

import redlatch


def use(client: redlatch.Client) -> None:
    with client.lock("a", ttl=0.3, on_lost=print), client.lease("b"):
        assert not client.lease("a").acquire(timeout=0.05)


def counts() -> tuple[int, int]:
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


url, prefix = sys.argv[1:]
client = redlatch.Client(url, key_prefix=prefix)
use(client)
client.close()
# What the process keeps for itself, as the thread for callbacks, is there by now.
before = counts()
for _ in range(10):
    with redlatch.Client(url, key_prefix=prefix) as client:
        use(client)
    use(redlatch.Client(url, key_prefix=prefix))
    gc.collect()
end = time.monotonic() + 5
while any(now > then for now, then in zip(counts(), before, strict=True)):
    assert time.monotonic() < end, f"{counts()} after {before}"
    time.sleep(0.01)
print("no thread is left")
