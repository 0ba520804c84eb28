"""A lock behaves as ``threading.RLock`` does, as far as the two can be compared."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import redlatch
from harness import MakeClient, Monitor, Server, eventually


def _nested(lock: Any) -> list[Any]:
    lock.acquire()
    results = [lock.acquire(), lock.acquire(False), lock.acquire(blocking=False), lock.acquire(True, 0.5)]
    for _ in range(5):
        lock.release()
    return results


def _released_too_often(lock: Any) -> None:
    lock.acquire()
    lock.release()
    lock.release()


def _released_by_another_thread(lock: Any) -> list[type[BaseException]]:
    lock.acquire()
    errors: list[type[BaseException]] = []

    def release() -> None:
        try:
            lock.release()
        except RuntimeError:
            errors.append(RuntimeError)

    thread = threading.Thread(target=release)
    thread.start()
    thread.join()
    lock.release()
    return errors


def _busy(lock: Any) -> list[bool]:
    lock.acquire()
    results: list[bool] = []

    def acquire() -> None:
        results.extend((lock.acquire(False), lock.acquire(True, 0.05), lock.acquire(timeout=0)))

    thread = threading.Thread(target=acquire)
    thread.start()
    thread.join()
    lock.release()
    return results


def _with_block_that_raises(lock: Any) -> None:
    with lock:
        raise KeyError("of the body")


CALLS: dict[str, Callable[[Any], Any]] = {
    "acquire()": lambda lock: (lock.acquire(), lock.release()),
    "acquire(True, -1)": lambda lock: (lock.acquire(True, -1), lock.release()),
    "acquire(True, 0)": lambda lock: (lock.acquire(True, 0), lock.release()),
    "acquire(1)": lambda lock: (lock.acquire(1), lock.release()),
    "acquire(0)": lambda lock: (lock.acquire(0), lock.release()),
    "acquire(False, -1)": lambda lock: (lock.acquire(False, -1), lock.release()),
    "acquire(blocking=True, timeout=0.5)": lambda lock: (lock.acquire(blocking=True, timeout=0.5), lock.release()),
    "acquire(False, 1)": lambda lock: lock.acquire(False, 1),
    "acquire(False, 0)": lambda lock: lock.acquire(False, 0),
    "acquire(timeout=-2)": lambda lock: lock.acquire(timeout=-2),
    "acquire(timeout=-0.5)": lambda lock: lock.acquire(timeout=-0.5),
    "acquire(timeout='1')": lambda lock: lock.acquire(timeout="1"),
    "acquire(timeout=None)": lambda lock: lock.acquire(timeout=None),
    "acquire(timeout=nan)": lambda lock: lock.acquire(timeout=float("nan")),
    "acquire(nonsense=1)": lambda lock: lock.acquire(nonsense=1),
    "release()": lambda lock: lock.release(),
    "release(1)": lambda lock: lock.release(1),
    "nested": _nested,
    "released too often": _released_too_often,
    "released by another thread": _released_by_another_thread,
    "busy": _busy,
    "with block that raises": _with_block_that_raises,
}


def _outcome(call: Callable[[Any], Any], lock: Any) -> Any:
    try:
        return call(lock)
    except Exception as error:
        bases = (RuntimeError, ValueError, TypeError, OverflowError, KeyError)
        return next(base for base in bases if isinstance(error, base))


@pytest.mark.parametrize("name", CALLS)
def test_a_call_ends_as_with_threading_rlock(client: redlatch.Client, server: Server, prefix: str, name: str) -> None:
    assert _outcome(CALLS[name], client.lock("a")) == _outcome(CALLS[name], threading.RLock())
    assert server.keys(f"{prefix}*") == []


@pytest.mark.parametrize(
    ("args", "kwargs", "here", "there"),
    [
        ((2,), {}, TypeError, True),
        ((), {"timeout": True}, TypeError, True),
        ((), {"timeout": float("inf")}, redlatch.ConfigError, OverflowError),
        ((), {"timeout": 1e300}, True, OverflowError),
    ],
)
def test_a_call_that_ends_otherwise_than_with_threading_rlock(
    client: redlatch.Client, args: Any, kwargs: Any, here: Any, there: Any
) -> None:
    for lock, wanted in ((client.lock("a"), here), (threading.RLock(), there)):
        if wanted is True:
            assert lock.acquire(*args, **kwargs) is True
            lock.release()
        else:
            with pytest.raises(wanted):
                lock.acquire(*args, **kwargs)


def test_with_returns_the_lock_and_releases_it(client: redlatch.Client, server: Server, prefix: str) -> None:
    lock = client.lock("a")
    with lock as held:
        assert held is lock
        assert server.call("GET", f"{prefix}a") == held.token
    assert server.call("EXISTS", f"{prefix}a") == 0


def test_two_clients_exclude_each_other_on_every_server(each_server: Server, make_client: MakeClient) -> None:
    one, two = make_client(each_server.url), make_client(each_server.url)
    first, second = one.lock("a"), two.lock("a")
    assert first.acquire()
    fence = first.fence
    assert not second.acquire(blocking=False)
    assert not second.acquire(timeout=0.1)
    assert first.locked() and second.locked()
    first.release()
    assert second.acquire(timeout=5)
    assert second.fence > fence
    second.release()
    assert not first.locked()


def test_objects_of_one_name_are_one_lock(client: redlatch.Client) -> None:
    one, two = client.lock("a"), client.lock("a")
    with one, two:
        assert one.hold_count == two.hold_count == 2
        assert one.token == two.token and one.fence == two.fence
    assert one.hold_count == two.hold_count == 0


def test_a_nested_acquire_asked_the_server(client: redlatch.Client, server: Server, prefix: str) -> None:
    lock = client.lock("a")
    lock.acquire()
    with Monitor(server.port) as monitor:
        for _ in range(100):
            assert lock.acquire()
        for _ in range(100):
            lock.release()
        assert lock.hold_count == 1
    assert [line for line in monitor.lines if prefix in line] == []
    lock.release()


def test_what_a_lock_says_of_itself(client: redlatch.Client) -> None:
    lock = client.lock("a", ttl=5)
    assert (lock.name, lock.hold_count, lock.held, lock.remaining, lock.lost) == ("a", 0, False, 0.0, None)
    for read in (lambda: lock.fence, lambda: lock.token, lock.check, lock.renew, lock.release):
        with pytest.raises(redlatch.NotHeldError):
            read()
    with lock:
        assert lock.held and lock.hold_count == 1 and lock.lost is None
        assert 4 < lock.remaining < 5
        assert lock.fence > 0 and "@" in lock.token
        lock.check()


def test_a_wait_lasts_as_long_as_asked(client: redlatch.Client, other: redlatch.Client) -> None:
    holder = other.lease("b")
    holder.acquire()
    for timeout in (0.3, timedelta(milliseconds=300)):
        begin = time.monotonic()
        assert not client.lock("b").acquire(timeout=timeout)
        assert 0.3 <= time.monotonic() - begin < 0.5
    holder.release()


def test_with_waits_as_long_as_the_lock_says(client: redlatch.Client, other: redlatch.Client) -> None:
    with other.lock("a"):
        with pytest.raises(redlatch.AcquireTimeout) as caught:
            client.lock("a", wait=0.1).__enter__()
        assert caught.value.name == "a"
    with client.lock("a", wait=0.1):
        pass


def test_a_waiter_gets_the_lock_at_its_release(client: redlatch.Client, other: redlatch.Client) -> None:
    holder = other.lock("a")
    holder.acquire()
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(client.lock("a").acquire(timeout=20)))
    thread.start()
    assert eventually(lambda: (info := other.inspect("a")) is not None and info.waiters == 1)
    holder.release()
    thread.join(5)
    assert got == [True]


def test_a_cancelled_wait_raises_and_leaves_no_place(client: redlatch.Client, other: redlatch.Client) -> None:
    cancel = redlatch.CancelToken()
    assert not cancel.cancelled
    with other.lock("a"):

        def call_off() -> None:
            # It stands in the queue.
            eventually(lambda: (info := other.inspect("a")) is not None and info.waiters == 1)
            cancel.cancel()

        thread = threading.Thread(target=call_off)
        thread.start()
        with pytest.raises(redlatch.CancelledError):
            client.lock("a").acquire(cancel=cancel)
        thread.join()
        assert cancel.cancelled
        assert eventually(lambda: (info := other.inspect("a")) is not None and info.waiters == 0)
    with pytest.raises(redlatch.CancelledError):
        client.lock("a").acquire(cancel=cancel)
