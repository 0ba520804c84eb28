"""``redlatch.compat.redis_py``: what callers of redis-py's ``Lock`` rely on, and what they are told instead."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redlatch
from harness import in_thread, needs_framework
from redlatch import ConfigError, LostError, RedlatchError
from redlatch.compat import redis_py
from redlatch.compat.redis_py import Lock, LockError, LockNotOwnedError
from redlatch.testing import MemoryClient

needs_framework("redis")
import redis  # noqa: E402
import redis.lock  # noqa: E402
from redis.exceptions import RedisError  # noqa: E402

METHODS = ("acquire", "release", "do_release", "extend", "reacquire", "locked", "owned", "__enter__", "__exit__")


@pytest.fixture
def memory() -> Iterator[redlatch.Client]:
    with redlatch.Client("memory://", key_prefix="") as client:
        yield client


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"compat:{request.node.name}"


# The shape


def test_arguments_and_their_defaults_are_redis_pys() -> None:
    def shape(function: Any) -> list[tuple[str, Any]]:
        return [(parameter.name, parameter.default) for parameter in inspect.signature(function).parameters.values()]

    assert shape(Lock) == shape(redis.lock.Lock)
    for method in METHODS:
        if method != "__exit__":
            assert shape(getattr(Lock, method)) == shape(getattr(redis.lock.Lock, method)), method


def test_attributes_are_redis_pys(memory: redlatch.Client) -> None:
    lock = Lock(memory, "order", timeout=10, sleep=0.3, blocking=False, blocking_timeout=2, thread_local=False)
    assert (lock.redis, lock.name, lock.timeout, lock.sleep) == (memory, "order", 10, 0.3)
    assert (lock.blocking, lock.blocking_timeout, lock.thread_local) == (False, 2, False)
    assert Lock(memory, b"order").name == "order"


def test_redis_pys_own_factory_makes_it(theirs: Any, name: str) -> None:
    lock = theirs.lock(name, timeout=10, blocking_timeout=1, lock_class=Lock)
    assert isinstance(lock, Lock)
    with lock:
        assert theirs.get(name) is not None, "not the key that redis-py would use"
        assert lock.owned()
    assert theirs.get(name) is None


# Against the real one


def test_each_excludes_the_other_on_one_key(theirs: Any, name: str) -> None:
    ours, real = Lock(theirs, name, timeout=10), redis.lock.Lock(theirs, name, timeout=10)
    with ours:
        assert real.acquire(blocking=False) is False
        assert real.locked()
        assert not real.owned()
    with real:
        assert ours.acquire(blocking=False) is False
        assert ours.locked()
        assert not ours.owned()
    assert not ours.locked()


def test_a_release_of_ours_touched_the_real_ones_key(theirs: Any, name: str) -> None:
    ours, real = Lock(theirs, name, timeout=10), redis.lock.Lock(theirs, name, timeout=10)
    ours.acquire()
    theirs.delete(name)
    real.acquire()
    with pytest.raises(LockNotOwnedError):
        ours.release()
    assert real.owned()
    real.release()


def test_do_release_takes_the_token_of_either(theirs: Any, name: str) -> None:
    ours, real = Lock(theirs, name, timeout=10), redis.lock.Lock(theirs, name, timeout=10)
    real.acquire()
    with pytest.raises(LockNotOwnedError):
        ours.do_release("another")
    ours.do_release(real.local.token)
    assert not ours.locked()
    ours.acquire()
    token = theirs.get(name)
    assert in_thread(lambda: ours.do_release(token)) is None
    assert not ours.locked()
    ours.acquire()
    ours.do_release(theirs.get(name))
    with pytest.raises(LockError, match="not owned"):
        ours.release()


# Time


def test_a_timeout_is_the_ttl_of_the_key_and_is_not_renewed(theirs: Any, name: str) -> None:
    lock = Lock(theirs, name, timeout=0.5)
    sent = time.monotonic()
    lock.acquire()
    assert theirs.pttl(name) in {-2, *range(501)}, "-1: a key without ttl"
    other = Lock(theirs, name, timeout=10)
    assert other.acquire(blocking_timeout=30)
    assert time.monotonic() - sent >= 0.45
    with pytest.raises(LockNotOwnedError) as caught:
        lock.release()
    assert isinstance(caught.value.__cause__, LostError)
    other.release()


@pytest.mark.parametrize("timeout", [None, 0])
def test_without_a_timeout_the_key_has_a_ttl_and_is_renewed(
    theirs: Any, name: str, timeout: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_py, "TTL", 2)
    lock = Lock(theirs, name, timeout=timeout)
    with lock:
        renewed = lock._client.stats()["renewed"]
        end = time.monotonic() + 30
        while lock._client.stats()["renewed"] < renewed + 4 and time.monotonic() < end:
            assert 0 < theirs.pttl(name) <= 2_000
            time.sleep(0.05)
        assert lock.owned()


def test_the_ttl_without_a_timeout_is_30_s(theirs: Any, name: str) -> None:
    with Lock(theirs, name):
        assert 25_000 < theirs.pttl(name) <= 30_000


@pytest.mark.parametrize("limit", [-1, -0.5, 0])
def test_a_blocking_timeout_of_minus_one_waited_for_ever(memory: redlatch.Client, limit: float) -> None:
    with memory.lease("order"):
        assert in_thread(lambda: Lock(memory, "order").acquire(blocking_timeout=limit)) is False
        assert in_thread(lambda: Lock(memory, "order", blocking_timeout=limit).acquire()) is False


def test_waiting_ends_at_the_blocking_timeout(memory: redlatch.Client) -> None:
    with memory.lease("order"):
        begun = time.monotonic()
        assert Lock(memory, "order").acquire(blocking_timeout=0.5) is False
        assert 0.5 <= time.monotonic() - begun < 5


def test_arguments_of_acquire_win_over_those_of_the_lock(memory: redlatch.Client) -> None:
    with memory.lease("order"):
        assert Lock(memory, "order").acquire(blocking=False) is False
        assert Lock(memory, "order", blocking=False).acquire() is False
        assert Lock(memory, "order", blocking=False).acquire(blocking=True, blocking_timeout=0.1) is False


@pytest.mark.parametrize("timeout", [0.05, 100_000, -3, float("nan")])
def test_a_timeout_out_of_bounds_is_refused_at_once(memory: redlatch.Client, timeout: float) -> None:
    with pytest.raises(ConfigError, match=r"^timeout = .*100ms to 86400s"):
        Lock(memory, "order", timeout=timeout)


def test_a_timeout_of_another_type_is_named(memory: redlatch.Client) -> None:
    with pytest.raises(TypeError, match="^timeout must be seconds"):
        Lock(memory, "order", timeout="10")  # type: ignore[arg-type]


# Who holds it


def test_a_second_acquire_of_the_same_object_nested(memory: redlatch.Client) -> None:
    lock = Lock(memory, "order", timeout=10)
    lock.acquire()
    assert lock.acquire(blocking=False) is False
    lock.release()
    assert not lock.locked()


def test_each_thread_has_a_hold_of_its_own(memory: redlatch.Client) -> None:
    lock = Lock(memory, "order", timeout=10)
    lock.acquire()
    error = in_thread(lock.release)
    assert isinstance(error, LockError) and not isinstance(error, LockNotOwnedError)
    assert in_thread(lock.owned) is False
    assert lock.owned()
    lock.release()


def test_without_thread_local_another_thread_releases(memory: redlatch.Client) -> None:
    lock = Lock(memory, "order", timeout=10, thread_local=False)
    lock.acquire()
    assert in_thread(lock.owned) is True
    assert in_thread(lock.release) is None
    assert not lock.locked()


def test_owned_asks_the_server(theirs: Any, name: str) -> None:
    lock = Lock(theirs, name, timeout=10)
    assert not lock.owned()
    lock.acquire()
    assert lock.owned()
    theirs.delete(name)
    assert not lock.owned()
    theirs.set(name, "another")
    assert not lock.owned()
    theirs.delete(name)


# Errors


def test_errors_are_caught_by_either_name(memory: redlatch.Client) -> None:
    lock = Lock(memory, "order", timeout=10)
    for kind in (LockError, RedlatchError, RedisError, redis.exceptions.LockError, ValueError):
        with pytest.raises(kind, match="Cannot release"):
            lock.release()
    assert issubclass(LockNotOwnedError, (redis.exceptions.LockNotOwnedError))
    assert issubclass(LockNotOwnedError, LockError)
    with pytest.raises(LockError) as caught:
        lock.release()
    assert (caught.value.name, caught.value.lock_name) == ("order", "order")


def test_a_lost_lock_is_not_owned_any_more_and_says_why() -> None:
    with MemoryClient(key_prefix="") as client:
        lock = Lock(client, "order")
        for call in (lock.release, lambda: Lock.release(lock)):
            lock.acquire()
            client.lose("order")
            with pytest.raises(redis.exceptions.LockNotOwnedError) as caught:
                call()
            assert isinstance(caught.value.__cause__, LostError)
        with pytest.raises(LockError, match="Cannot release"):
            lock.release()


def test_a_with_block_that_gets_no_lock_raises(memory: redlatch.Client) -> None:
    says = "Unable to acquire lock within the time"
    with memory.lease("order"), pytest.raises(redis.exceptions.LockError, match=says):
        with Lock(memory, "order", blocking_timeout=0.1):
            pytest.fail("two holders")


def test_a_lock_that_was_lost_in_a_with_block_raises_at_its_end_or_only_logs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def messages() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name.startswith("redlatch.compat")]

    with MemoryClient(key_prefix="") as client:
        with pytest.raises(LockNotOwnedError), Lock(client, "order"):
            client.lose("order")
        assert messages() == []
        with caplog.at_level(logging.WARNING, "redlatch"), Lock(client, "order", raise_on_release_error=False):
            client.lose("order")
        (message,) = messages()
        assert "'order' was not held any more" in message


def test_the_loss_of_the_lock_hid_the_error_of_the_body() -> None:
    with MemoryClient(key_prefix="") as client, pytest.raises(KeyError, match="mine"), Lock(client, "order"):
        client.lose("order")
        raise KeyError("mine")


def test_a_server_that_is_away_is_a_connection_error_of_redis_py() -> None:
    with redlatch.Client("redis://127.0.0.1:1/0", connect_timeout=0.1, io_timeout=0.1) as client:
        lock = Lock(client, "order")
        for kind in (redis.exceptions.ConnectionError, redlatch.UnavailableError, ConnectionError):
            with pytest.raises(kind):
                lock.acquire(blocking=False)
        with pytest.raises(redis.exceptions.ConnectionError):
            lock.locked()


# What cannot be kept


def test_a_token_of_the_caller_is_refused(memory: redlatch.Client) -> None:
    lock = Lock(memory, "order")
    with pytest.raises(ConfigError, match="token"):
        lock.acquire(token="mine")
    assert not lock.locked()


def test_reacquire_and_extend_to_the_timeout_reset_the_ttl(theirs: Any, name: str) -> None:
    lock = Lock(theirs, name, timeout=60)
    lock.acquire()
    for renew in (lock.reacquire, lambda: lock.extend(60, replace_ttl=True)):
        theirs.pexpire(name, 5_000)
        assert renew() is True
        assert theirs.pttl(name) > 50_000
    lock.release()


@pytest.mark.parametrize(("time_", "replace"), [(60, False), (5, False), (5, True), (61, True)])
def test_any_other_extension_is_refused_and_changes_nothing(
    theirs: Any, name: str, time_: float, replace: bool
) -> None:
    lock = Lock(theirs, name, timeout=60)
    with lock:
        theirs.pexpire(name, 5_000)
        with pytest.raises(ConfigError, match=r"extend\(.*reacquire\(\)"):
            lock.extend(time_, replace)
        assert theirs.pttl(name) <= 5_000


@pytest.mark.parametrize("method", ["extend", "reacquire"])
def test_extending_what_is_not_held_or_has_no_timeout_is_redis_pys_error(memory: redlatch.Client, method: str) -> None:
    arguments = (10, True) if method == "extend" else ()
    lock = Lock(memory, "order", timeout=10)
    with pytest.raises(LockError, match=f"Cannot {method} an unlocked lock"):
        getattr(lock, method)(*arguments)
    lock = Lock(memory, "order")
    with lock, pytest.raises(LockError, match=f"Cannot {method} a lock with no timeout"):
        getattr(lock, method)(*arguments)


def test_extending_a_lost_lock_is_not_owned() -> None:
    with MemoryClient(key_prefix="") as client:
        lock = Lock(client, "order", timeout=10)
        lock.acquire()
        client.lose("order")
        with pytest.raises(LockNotOwnedError):
            lock.reacquire()
