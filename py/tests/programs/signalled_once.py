"""One request, and one signal while its answer is on its way. Arguments: port, prefix, request, "fresh" or "used"."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

import redlatch
from harness import Proxy

port, prefix, request, connection = sys.argv[1:]
proxy = Proxy(int(port))
main = threading.get_ident()
asking = False
handled: list[bool] = []


def handle(number: int, frame: FrameType | None) -> None:
    handled.append(asking)


def interrupt() -> None:
    # The request has been answered by the server. Time for its thread to begin to read, and to read on afterwards.
    time.sleep(0.05)
    signal.pthread_kill(main, signal.SIGUSR1)
    time.sleep(0.05)


logging.getLogger("redlatch").addHandler(logging.NullHandler())
signal.signal(signal.SIGUSR1, handle)
# The lock is acquired through another client where the one that asks shall have no connection yet.
setting_up = redlatch.Client(f"redis://127.0.0.1:{port}/0", key_prefix=prefix)
client = redlatch.Client(proxy.url, key_prefix=prefix, renewal_threads=1)
lock, lease = client.lock("a", ttl=60), client.lease("b", ttl=60)
holds: dict[str, redlatch.Lock | redlatch.Lease] = {
    "renew": lock, "release": lock, "lease.renew": lease, "lease.release": lease, "into_token": lease,
}  # fmt: skip
token = ""
if request == "adopt":
    handed = setting_up.lease("b", ttl=60)
    handed.acquire()
    token = handed.into_token()
if request == "force_release":
    setting_up.lock("a", ttl=60).acquire()
if connection == "used":
    client.inspect("another")
if request in holds:
    holds[request].acquire()
    if connection == "fresh":
        proxy.cut()
requests: dict[str, Callable[[], object]] = {
    "locked": lock.locked,
    "lease.locked": lease.locked,
    "inspect": lambda: client.inspect("a"),
    "force_release": lambda: client.force_release("a"),
    "acquire": lambda: lock.acquire(blocking=False),
    "lease.acquire": lambda: lease.acquire(blocking=False),
    "renew": lock.renew,
    "release": lock.release,
    "lease.renew": lease.renew,
    "lease.release": lease.release,
    "into_token": lease.into_token,
    "adopt": lambda: client.adopt("b", token, ttl=60),
}
expected = {
    "locked": False, "lease.locked": False, "inspect": None, "acquire": True,
    "lease.acquire": True, "renew": None, "release": None, "lease.renew": None, "lease.release": None,
}  # fmt: skip
proxy.hold_next_reply(interrupt)
asking = True
outcome = requests[request]()
asking = False
if request == "into_token":
    setting_up.adopt("b", str(outcome), ttl=60).release()
elif request == "force_release":
    assert outcome is True
    assert not setting_up.lock("a").locked()
elif request == "adopt":
    assert isinstance(outcome, redlatch.Lease) and outcome.held
    outcome.release()
else:
    assert outcome == expected[request], outcome
if request.endswith("release"):
    # Confirmed, and not left to the background.
    assert client.stats()["release_unconfirmed"] == 0
    assert not setting_up.lock("a" if request == "release" else "b").locked()
assert handled == [True], handled
print("handled once, succeeded")
for each in (client, setting_up):
    each.close()
