"""What ``docs/python-migration.md`` claims of redis-py and python-redis-lock, besides the stand-in's own tests."""

from __future__ import annotations

import gc
import importlib
import inspect
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redlatch
from harness import eventually, needs_framework
from redlatch import LostError, LostReason

needs_framework("redis")
import redis  # noqa: E402

DOCUMENT = Path(__file__).parents[2] / "docs" / "python-migration.md"


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"migration:{request.node.name}"


@pytest.fixture
def theirs(server: Any) -> Iterator[Any]:
    """A redis-py client of a database of these tests, where ``reset_all`` disturbs nobody."""
    with redis.Redis(port=server.port, db=7) as client:
        yield client


@pytest.fixture
def ours(server: Any) -> Iterator[redlatch.Client]:
    """A client with the default prefix."""
    with redlatch.Client(f"redis://127.0.0.1:{server.port}/7") as client:
        yield client


@pytest.fixture
def old() -> Any:
    """The module of python-redis-lock."""
    needs_framework("redis_lock")
    return importlib.import_module("redis_lock")


def section(title: str) -> str:
    text = DOCUMENT.read_text(encoding="utf-8")
    return re.split(r"^## ", text.split(f"## {title}", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def first_cells(text: str) -> str:
    return "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("|"))


def own(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "exc_type")]


def test_every_argument_and_method_of_redis_pys_lock_has_a_row() -> None:
    from redis.lock import Lock

    rows = first_cells(section("redis-py's `Lock`").split("### To `client.lock`")[1])
    public = [name for name in vars(Lock) if not name.startswith("_") and inspect.isfunction(getattr(Lock, name))]
    internal = {"register_scripts", "do_acquire", "do_extend", "do_reacquire"}
    for word in {*own(Lock), *own(Lock.acquire), *public} - internal:
        assert re.search(rf"`{word}[=(`]", rows), f"{word} has no row"
    stand_in = first_cells(section("redis-py's `Lock`").split("### To `client.lock`")[0])
    for word in internal:
        assert f"`{word}`" in stand_in


def test_every_argument_method_and_error_of_python_redis_lock_has_a_row(old: Any) -> None:
    rows = first_cells(section("python-redis-lock"))
    public = [name for name in vars(old.Lock) if not name.startswith("_") and callable(getattr(old.Lock, name))]
    errors = [name for name, value in vars(old).items() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(errors) > 4
    for word in {*own(old.Lock), *public, *errors, "reset_all"} - {"register_scripts"}:
        assert re.search(rf"`{word}[=(`]", rows), f"{word} has no row"
    assert "`acquire(blocking, timeout)`" in rows and own(old.Lock.acquire) == ["blocking", "timeout"]


def test_redis_pys_lock_and_a_client_without_prefix_share_a_key(server: Any, theirs: Any, name: str) -> None:
    with redlatch.Client(f"redis://127.0.0.1:{server.port}/7", key_prefix="") as client:
        with client.lock(name):
            assert theirs.lock(name, timeout=10).acquire(blocking=False) is False
        with theirs.lock(name, timeout=10):
            assert client.lock(name).acquire(blocking=False) is False


def test_a_key_that_a_dead_holder_left_without_ttl_shows_and_can_be_removed(
    server: Any, theirs: Any, name: str
) -> None:
    with redlatch.Client(f"redis://127.0.0.1:{server.port}/7", key_prefix="") as client:
        assert theirs.lock(name).acquire()
        assert client.lock(name).acquire(timeout=0.2) is False
        found = client.inspect(name)
        assert found is not None
        assert found.ttl_left is None
        assert client.force_release(name) is True
        assert client.lock(name).acquire(blocking=False) is True


def test_python_redis_lock_and_redlatch_share_a_key(old: Any, theirs: Any, ours: redlatch.Client, name: str) -> None:
    with ours.lock(name):
        assert old.Lock(theirs, name, expire=10).acquire(blocking=False) is False
    with old.Lock(theirs, name, expire=10):
        assert ours.lock(name).acquire(blocking=False) is False
    with ours.lock(name, wait=0):
        pass


def test_a_waiter_of_python_redis_lock_is_not_woken_by_redlatch(
    old: Any, theirs: Any, ours: redlatch.Client, name: str
) -> None:
    waits = 4
    results: list[tuple[bool, float]] = []
    lock = old.Lock(theirs, name, expire=10)

    def wait() -> None:
        begun = time.monotonic()
        results.append((lock.acquire(timeout=waits), time.monotonic() - begun))

    thread = threading.Thread(target=wait)
    with ours.lock(name):
        thread.start()
        assert eventually(lambda: theirs.info("clients")["blocked_clients"] > 0, 10)
    thread.join(30)
    ((acquired, took),) = results
    assert acquired is True
    assert took >= 0.9 * waits
    lock.release()


def test_a_waiter_of_redlatch_finds_a_release_of_python_redis_lock(
    old: Any, theirs: Any, ours: redlatch.Client, name: str
) -> None:
    results: list[bool] = []
    lock = old.Lock(theirs, name, expire=60)
    lock.acquire()
    thread = threading.Thread(target=lambda: results.append(ours.lock(name).acquire(timeout=30)))
    thread.start()
    assert eventually(lambda: ours.stats()["waiting_now"] == 1, 10)
    lock.release()
    thread.join(30)
    assert results == [True]


def test_reset_all_takes_locks_of_redlatch_and_their_holders_find_out(
    old: Any, theirs: Any, ours: redlatch.Client, name: str
) -> None:
    lock = ours.lock(name)
    lock.acquire()
    old.reset_all(theirs)
    assert theirs.get(f"lock:{name}") is None
    with pytest.raises(LostError) as caught:
        lock.renew()
    assert caught.value.reason is LostReason.TAKEN
    with pytest.raises(LostError):
        lock.release()


def test_what_is_forgotten_is_released(theirs: Any, ours: redlatch.Client, name: str) -> None:
    assert ours.lease(f"{name}:lease", ttl=60, auto_renew=False).acquire(blocking=False)
    thread = threading.Thread(target=ours.lock(f"{name}:thread", ttl=60, auto_renew=False).acquire)
    thread.start()
    thread.join(30)
    gc.collect()
    assert eventually(lambda: not theirs.exists(f"lock:{name}:lease", f"lock:{name}:thread"), 30)


def test_a_wait_may_be_longer_than_the_ttl_and_a_negative_one_is_refused(ours: redlatch.Client, name: str) -> None:
    assert ours.lock(name, ttl=0.5).acquire(timeout=60) is True
    with pytest.raises(redlatch.ConfigError, match="timeout"):
        ours.lock(name).acquire(timeout=-2)
    with pytest.raises(redlatch.ConfigError, match="timeout"):
        ours.lock(name).acquire(blocking=False, timeout=3)
