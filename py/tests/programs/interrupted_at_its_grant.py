"""Waits for a lock, and is interrupted when its request has been granted but not answered. Arguments: URL, prefix, how.

The signal is kept from the main thread, so that it interrupts no request: its handler runs when the answer is there.
"""

from __future__ import annotations

import sys

HOW = sys.argv[3]
if HOW == "gevent":
    from gevent import monkey

    monkey.patch_all()

import asyncio  # noqa: E402
import signal  # noqa: E402
from collections.abc import Callable  # noqa: E402
from types import FrameType  # noqa: E402
from typing import Any  # noqa: E402

import redlatch  # noqa: E402

client = redlatch.Client(sys.argv[1], key_prefix=sys.argv[2], io_timeout=10)
lock, another = client.lock("a", ttl=60), client.lock("another")


class StopError(Exception):
    pass


def idle(sleep: Callable[[float], None]) -> None:
    while True:
        sleep(0.05)


def interrupt(number: int, frame: FrameType | None) -> None:
    if HOW == "asyncio":

        async def cleanup() -> int:
            return another.hold_count

        # Another holder than the one that is being granted the lock.
        asyncio.run(cleanup())
    raise StopError


def wait() -> None:
    print("waiting")
    try:
        lock.acquire()
        raise AssertionError("acquired")
    except StopError:
        assert lock.hold_count == 0
        print("interrupted")


def get_original(module: str, name: str) -> Any:
    if HOW == "gevent":
        return monkey.get_original(module, name)
    return getattr(__import__(module), name)


get_original("_thread", "start_new_thread")(idle, (get_original("time", "sleep"),))
signal.signal(signal.SIGUSR1, interrupt)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
if HOW == "gevent":
    import gevent

    def look() -> None:
        while True:
            lock.hold_count  # noqa: B018
            gevent.sleep(0.001)

    def wait_and_stay() -> None:
        wait()
        # A greenlet that ended would be released for that.
        gevent.sleep(60)

    greenlets = [gevent.spawn(look), gevent.spawn(wait_and_stay)]
    gevent.sleep(60)
else:
    wait()
    sys.stdin.readline()
