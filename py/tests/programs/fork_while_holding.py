"""Forks while it holds locks; the child does something with them. Arguments: URL, prefix, what the child does."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time

import redlatch

url, prefix, how = sys.argv[1:]
client = redlatch.Client(url, key_prefix=prefix)
lock, lease = client.lock("a", ttl=1), client.lease("b", ttl=1)
lock.acquire()
lease.acquire()


def refused(held: redlatch.Lock | redlatch.Lease) -> None:
    try:
        held.release()
    except redlatch.LostError as error:
        assert error.reason is redlatch.LostReason.FORKED
    except redlatch.NotHeldError:
        pass
    else:
        raise AssertionError(f"{held} was released")


def child() -> None:
    global lock, lease
    # Before anything that talks to the server could notice the fork.
    if how == "nested":
        assert not lock.acquire(blocking=False)
    assert lock.hold_count == 0
    assert client.stats()["acquired"] == 0
    assert not lock.held and not lease.held
    for held in (lock, lease):
        try:
            held.check()
        except (redlatch.LostError, redlatch.NotHeldError):
            pass
        else:
            raise AssertionError("the child has the lock of its parent")
    if how == "release":
        refused(lock)
        refused(lease)
    elif how in ("drop", "collect"):
        del lock, lease
        if how == "collect":
            gc.collect()
    elif how == "close":
        client.close()
        return
    elif how == "thread":
        threads = [threading.Thread(target=refused, args=(held,)) for held in (lock, lease)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    # Its own locks work, and what its parent has is busy.
    with client.lock("c") as own:
        assert own.token not in parents
        own.check()
    assert not client.lock("a").acquire(blocking=False)
    assert not client.lease("b").acquire(timeout=0.1)


def assert_held() -> None:
    lock.check()
    lease.check()
    assert {client.inspect(name).token for name in ("a", "b")} == parents  # type: ignore[union-attr]


parents = {lock.token, lease.token}
pid = os.fork()
if pid == 0:
    child()
    # Runs the handlers of interpreter exit as well.
    sys.exit(0)
end = time.monotonic() + 30
while (done := os.waitpid(pid, os.WNOHANG)) == (0, 0):
    assert_held()
    assert time.monotonic() < end, "the child hangs"
    time.sleep(0.01)
assert os.waitstatus_to_exitcode(done[1]) == 0
# Longer than the ttl: it is renewed all the same.
end = time.monotonic() + 1.5
while time.monotonic() < end:
    assert_held()
    time.sleep(0.01)
lock.release()
lease.release()
assert client.inspect("a") is None and client.inspect("b") is None
print("the parent still has it")
