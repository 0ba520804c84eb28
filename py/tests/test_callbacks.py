"""``on_lost``: where it runs, what it may do, and what it keeps alive."""

from __future__ import annotations

import gc
import logging
import threading
import time
import weakref

import pytest
import redlatch
from harness import Server, eventually


class Owner:
    """Refers to its lock, which refers to it by the callback."""

    def __init__(self, client: redlatch.Client, fired: list[redlatch.LostInfo]) -> None:
        self.fired = fired
        self.lock = client.lock("a", ttl=0.3, on_lost=self.lost)
        self.lease = client.lease("b", ttl=0.3, on_lost=self.lost)

    def lost(self, info: redlatch.LostInfo) -> None:
        self.fired.append(info)


def test_a_callback_is_told_what_was_lost(client: redlatch.Client, server: Server, prefix: str) -> None:
    told: list[tuple[redlatch.LostInfo, int]] = []
    lock = client.lock("a", ttl=0.3, on_lost=lambda info: told.append((info, threading.get_ident())))
    lock.acquire()
    token, fence = lock.token, lock.fence
    server.call("DEL", f"{prefix}a")
    assert eventually(lambda: told)
    info, thread = told[0]
    assert (info.name, info.token, info.fence, info.reason) == ("a", token, fence, redlatch.LostReason.TAKEN)
    assert thread not in {each.ident for each in threading.enumerate() if each.name == "MainThread"}
    with pytest.raises(redlatch.LostError):
        lock.release()
    assert len(told) == 1


def test_a_callback_may_use_its_client(client: redlatch.Client, server: Server, prefix: str) -> None:
    done: list[object] = []

    def lost(info: redlatch.LostInfo) -> None:
        with client.lock("inside") as inner:
            done.append((client.inspect(info.name), inner.hold_count))
        client.close()
        done.append("closed")

    client.lock("a", ttl=0.3, on_lost=lost).acquire()
    server.call("DEL", f"{prefix}a")
    assert eventually(lambda: len(done) == 2)
    assert done == [(None, 1), "closed"]


def test_an_exception_of_a_callback_ended_the_thread(
    client: redlatch.Client, server: Server, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    after: list[redlatch.LostInfo] = []

    def fail(info: redlatch.LostInfo) -> None:
        raise ZeroDivisionError("of the callback")

    bad, good = client.lock("bad", ttl=0.3, on_lost=fail), client.lock("good", ttl=0.3, on_lost=after.append)
    with caplog.at_level(logging.WARNING, "redlatch"):
        bad.acquire()
        server.call("DEL", f"{prefix}bad")
        assert eventually(lambda: "of the callback" in caplog.text)
    assert "bad" in caplog.text
    good.acquire()
    server.call("DEL", f"{prefix}good")
    assert eventually(lambda: after)


def test_a_callback_that_exits_ended_the_thread(
    client: redlatch.Client, server: Server, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    after: list[redlatch.LostInfo] = []

    def leave(info: redlatch.LostInfo) -> None:
        raise SystemExit(3)

    client.lock("bad", ttl=0.3, on_lost=leave).acquire()
    client.lock("good", ttl=0.3, on_lost=after.append).acquire()
    with caplog.at_level(logging.WARNING, "redlatch"):
        server.call("DEL", f"{prefix}bad")
        assert eventually(lambda: client.stats()["lost"]["taken"] == 1)
        server.call("DEL", f"{prefix}good")
        assert eventually(lambda: after)


def test_a_slow_callback_delayed_renewal(client: redlatch.Client, server: Server, prefix: str) -> None:
    going, go = threading.Event(), threading.Event()

    def lost(info: redlatch.LostInfo) -> None:
        going.set()
        go.wait(20)

    with client.lock("other", ttl=0.4) as other:
        client.lock("a", ttl=0.3, on_lost=lost).acquire()
        server.call("DEL", f"{prefix}a")
        assert going.wait(5)
        end = time.monotonic() + 1.2
        while time.monotonic() < end:
            other.check()
            time.sleep(0.01)
        go.set()


def test_a_release_calls_nobody(client: redlatch.Client) -> None:
    fired: list[redlatch.LostInfo] = []
    for _ in range(3):
        with client.lock("a", ttl=0.2, on_lost=fired.append):
            pass
    time.sleep(0.4)  # Longer than the ttl: what would be lost is lost by now.
    assert fired == []


def test_a_callback_that_refers_to_its_lock_was_never_collected(client: redlatch.Client) -> None:
    fired: list[redlatch.LostInfo] = []
    owner = Owner(client, fired)
    with owner.lock, owner.lease:
        pass
    gone = weakref.ref(owner)
    del owner
    assert eventually(lambda: (gc.collect(), gone() is None)[1])


def test_a_callback_of_a_held_lock_was_collected_with_its_owner(
    client: redlatch.Client, server: Server, prefix: str
) -> None:
    fired: list[redlatch.LostInfo] = []
    owner = Owner(client, fired)
    owner.lock.acquire()
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    server.call("DEL", f"{prefix}a")
    assert eventually(lambda: fired)
    with pytest.raises(redlatch.LostError):
        client.lock("a").release()
    assert eventually(lambda: (gc.collect(), gone() is None)[1])


def test_a_client_was_never_collected(server: Server, prefix: str) -> None:
    client = redlatch.Client(server.url, key_prefix=prefix)
    lock = client.lock("a")
    with lock:
        pass
    gone = weakref.ref(client)
    del client, lock
    gc.collect()
    assert gone() is None
