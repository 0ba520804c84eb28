"""Clients of the plain pattern on the same key."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator

import pytest
import redis
import redlatch
from harness import Server, eventually

COMPARE_AND_DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


@pytest.fixture
def plain(server: Server) -> Iterator[redis.Redis]:
    with redis.Redis(port=server.port) as connection:
        yield connection


def test_the_lock_of_redis_py_and_redlatch_held_one_lock_at_once(
    client: redlatch.Client, plain: redis.Redis, prefix: str
) -> None:
    ours = client.lock("a")
    theirs = plain.lock(f"{prefix}a", timeout=10, blocking=False)
    for _ in range(1000):
        assert ours.acquire(blocking=False)
        assert not theirs.acquire()
        ours.release()
        assert theirs.acquire()
        assert not ours.acquire(blocking=False)
        theirs.release()


def test_set_nx_px_and_redlatch_held_one_lock_at_once(client: redlatch.Client, plain: redis.Redis, prefix: str) -> None:
    ours, key, delete = client.lock("a"), f"{prefix}a", plain.register_script(COMPARE_AND_DELETE)
    for _ in range(1000):
        token = uuid.uuid4().hex
        assert ours.acquire(blocking=False)
        assert not plain.set(key, token, nx=True, px=10_000)
        assert delete([key], [token]) == 0
        ours.release()
        assert plain.set(key, token, nx=True, px=10_000)
        assert not ours.acquire(blocking=False)
        assert delete([key], [token]) == 1


def test_a_waiter_gets_the_lock_when_a_plain_client_lets_go(
    client: redlatch.Client, plain: redis.Redis, prefix: str
) -> None:
    theirs = plain.lock(f"{prefix}a", timeout=20)
    assert theirs.acquire()
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(client.lock("a").acquire(timeout=15)))
    thread.start()
    assert eventually(lambda: (info := client.inspect("a")) is not None and info.waiters == 1)
    theirs.release()
    thread.join(5)
    assert got == [True]


def test_a_plain_client_starved_beside_eight_busy_threads(
    client: redlatch.Client, plain: redis.Redis, prefix: str
) -> None:
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            with client.lock("a"):
                time.sleep(0.001)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        assert eventually(lambda: client.stats()["acquired"] > 50)
        end = time.monotonic() + 10
        token, got = uuid.uuid4().hex, False
        while not got and time.monotonic() < end:
            got = bool(plain.set(f"{prefix}a", token, nx=True, px=1000))
            time.sleep(0.02)
        assert got
        plain.register_script(COMPARE_AND_DELETE)([f"{prefix}a"], [token])
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
