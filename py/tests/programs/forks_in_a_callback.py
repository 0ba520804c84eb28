"""Forks in a callback; the child returns from it, or uses locks in it. Arguments: URL, prefix, "returns" or "locks"."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time

import redlatch

url, prefix, how = sys.argv[1:]
client = redlatch.Client(url, key_prefix=prefix)
children: list[int] = []
lost: list[str] = []
queued, all_lost = threading.Event(), threading.Event()


def called(info: redlatch.LostInfo) -> None:
    if children == [0]:
        print(f"the child was told of {info.name}", flush=True)
    lost.append(info.name)
    if len(lost) == 3:
        all_lost.set()
    if children:
        return
    # The others stand in the queue by then, which the child gets a copy of.
    assert queued.wait(10)
    children.append(os.fork())
    if children == [0] and how == "locks":
        try:
            with client.lock("of the child") as lock:
                lock.check()
            assert not client.lock("other", ttl=60).acquire(blocking=False)
            os._exit(17)
        except BaseException as error:
            print(f"child: {error!r}", flush=True)
            os._exit(1)


logging.getLogger("redlatch").addHandler(logging.NullHandler())
other = client.lock("other", ttl=60)
other.acquire()
locks = [client.lock(f"a{number}", ttl=0.3, on_lost=called) for number in range(3)]
for lock in locks:
    lock.acquire()
for lock in locks:
    client.force_release(lock.name)
end = time.monotonic() + 10
while client.stats()["lost"]["taken"] < 3:
    assert time.monotonic() < end, client.stats()
    time.sleep(0.01)
# Their callbacks are queued right after they were counted.
time.sleep(0.1)
queued.set()
assert all_lost.wait(10) and sorted(lost) == ["a0", "a1", "a2"], lost
end = time.monotonic() + 10
while (status := os.waitpid(children[0], os.WNOHANG))[0] == 0:
    assert time.monotonic() < end, "the child did not end"
    time.sleep(0.01)
code = os.waitstatus_to_exitcode(status[1])
assert code == (17 if how == "locks" else 0), code
other.check()
print("the child ended")
