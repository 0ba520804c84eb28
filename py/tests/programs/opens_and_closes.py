"""Opens, uses and ends 400 clients; counts threads, descriptors and memory. Arguments: URL, prefix."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import time

import redlatch

THREADS = 20


def use(client: redlatch.Client) -> None:
    """Starts all that a client has: who waits opens the inbox. No lock is short enough to be lost on a busy machine."""
    with client.lock("a"), client.lease("b"):
        # How this wait ends does not matter: among so many threads its first answer may come too late.
        with contextlib.suppress(redlatch.UnavailableError):
            assert not client.lease("b").acquire(timeout=0.02)


def closed(number: int) -> None:
    with redlatch.Client(url, key_prefix=f"{prefix}{number}:") as client:
        use(client)


class Cycle:
    """Keeps itself and its client alive until the collector comes."""

    def __init__(self, client: redlatch.Client) -> None:
        self.client = client
        self.me = self


def collected(number: int) -> None:
    use(Cycle(redlatch.Client(url, key_prefix=f"{prefix}{number}:")).client)


def come_and_go(clients: int) -> None:
    """So many clients, each second one by the collector."""

    def work(first: int) -> None:
        for number in range(first, clients, THREADS):
            (closed if number // THREADS % 2 else collected)(number)
        gc.collect()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()


def counts() -> tuple[int, int]:
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


def await_counts(then: tuple[int, int]) -> None:
    end = time.monotonic() + 10
    while any(now > before for now, before in zip(counts(), then, strict=True)):
        assert time.monotonic() < end, f"{counts()} after {then}"
        time.sleep(0.01)


def kilobytes() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


url, prefix = sys.argv[1:]
# What the process keeps for itself, as the thread for callbacks, is there by then.
closed(0)
gc.collect()
before = counts()
come_and_go(80)
await_counts(before)
memory, objects = kilobytes(), len(gc.get_objects())
come_and_go(320)
await_counts(before)
grown = kilobytes() - memory
# The heap settles only after some hundred clients; one of them that is not freed has more than this.
assert grown < 320 * 48, f"{memory} kB grew by {grown} kB"
grown = len(gc.get_objects()) - objects
assert grown < 320, f"{objects} objects became {grown} more"
print("nothing is left")
