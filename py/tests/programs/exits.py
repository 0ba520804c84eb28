"""Ends while a lock is in some state. Arguments: URL, prefix, state, and "pause" to wait for a line before the end."""

from __future__ import annotations

import logging
import sys
import threading
import time

import redlatch


class MeantError(Exception):
    pass


url, prefix, state = sys.argv[1:4]
client = redlatch.Client(url, key_prefix=prefix)
logging.getLogger("redlatch").addHandler(logging.NullHandler())
logging.getLogger("redlatch").propagate = False
started = threading.Event()


def lose(name: str) -> None:
    lock = client.lock(name, ttl=0.3, on_lost=called)
    lock.acquire()
    client.force_release(name)


def called(info: redlatch.LostInfo) -> None:
    started.set()
    if state == "callback":
        time.sleep(60)
    time.sleep(0.001)


def hold_for_ever() -> None:
    with client.lock("of a thread", ttl=1):
        started.set()
        time.sleep(60)


if state == "held":
    for name in ("held", "other"):
        client.lock(name, ttl=1, on_lost=called).acquire()
elif state == "leased":
    lease = client.lease("a", ttl=1, on_lost=called)
    lease.acquire()
elif state == "waiting":
    holder = client.lease("a", ttl=1)
    holder.acquire()
    for _ in range(3):
        threading.Thread(target=client.lock("a").acquire, daemon=True).start()
    while (info := client.inspect("a")) is None or info.waiters != 3:
        time.sleep(0.005)
elif state == "callback":
    lose("a")
    assert started.wait(10)
elif state == "queued":
    for number in range(50):
        lose(f"a{number}")
elif state == "logging":
    logging.getLogger("redlatch").setLevel(1)
    for number in range(50):
        lose(f"a{number}")
elif state == "closed":
    client.lock("a").acquire()
    client.close()
elif state == "cycle":
    cycle: list[object] = [client.lock("a", ttl=1, on_lost=called)]
    cycle[0].acquire()  # type: ignore[attr-defined]
    cycle.append(cycle)
    del cycle
elif state == "thread":
    threading.Thread(target=hold_for_ever, daemon=True).start()
    assert started.wait(10)
if sys.argv[4:] == ["pause"]:
    print("pause")
    sys.stdin.readline()
print("ends")
if state == "error":
    with client.lock("a"):
        raise MeantError
