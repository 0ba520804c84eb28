"""Kills greenlets that wait for a lock, and one that has it. Arguments: URL, prefix."""

from gevent import monkey

monkey.patch_all()

import sys  # noqa: E402
import time  # noqa: E402

import gevent  # noqa: E402
import redlatch  # noqa: E402

client = redlatch.Client(sys.argv[1], key_prefix=sys.argv[2])


def hold() -> None:
    with client.lock("a", ttl=60):
        gevent.sleep(60)


def state() -> tuple[bool, int]:
    info = client.inspect("a")
    return info is not None, info.waiters if info else 0


def becomes(wanted: tuple[bool, int]) -> None:
    end = time.monotonic() + 5
    while state() != wanted:
        assert time.monotonic() < end, (state(), wanted)
        gevent.sleep(0.01)


greenlets = [gevent.spawn(hold)]
becomes((True, 0))
greenlets += [gevent.spawn(hold) for _ in range(5)]
becomes((True, 5))
gevent.killall(greenlets[1:], timeout=5)
becomes((True, 0))
gevent.killall(greenlets, timeout=5)
becomes((False, 0))
with gevent.Timeout(5), client.lock("a"):
    pass
print("no place, no lock")
