"""A gevent.Greenlet that ends while it holds, and is still referred to. Arguments: URL, prefix."""

from __future__ import annotations

import logging
import sys
import time

import gevent
import redlatch

logging.getLogger("redlatch").addHandler(logging.NullHandler())
client = redlatch.Client(sys.argv[1], key_prefix=sys.argv[2])


def leak() -> None:
    assert client.lock("a", ttl=60).acquire(blocking=False)


greenlet = gevent.spawn(leak)
greenlet.join()
end = time.monotonic() + 5
while client.inspect("a") is not None:
    assert time.monotonic() < end, "still locked"
    gevent.sleep(0.01)
assert greenlet.dead
print("free while it is referred to")
