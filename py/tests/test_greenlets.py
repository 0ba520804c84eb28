"""Greenlets share a thread, and never a lock; under gevent they wait without stopping the others."""

from __future__ import annotations

import gc
import logging

import pytest
import redlatch
from harness import Server, eventually, needs_framework, run_program

needs_framework("greenlet")
from greenlet import greenlet  # noqa: E402


def test_a_greenlet_entered_the_lock_of_another_greenlet(client: redlatch.Client) -> None:
    lock = client.lock("a")
    main = greenlet.getcurrent()

    def first() -> None:
        assert lock.acquire(blocking=False) and lock.acquire(blocking=False)
        main.switch()
        assert lock.hold_count == 2
        lock.release()
        lock.release()

    refused: list[int] = []

    def attempt(number: int) -> None:
        assert lock.hold_count == 0 and not lock.held
        assert not lock.acquire(blocking=False)
        for call in (lock.release, lock.check):
            with pytest.raises(redlatch.NotHeldError):
                call()
        refused.append(number)
        main.switch()
        refused.append(number)

    holder = greenlet(first)
    holder.switch()
    assert lock.hold_count == 0
    others = [greenlet(attempt) for _ in range(49)]
    for number, other in enumerate(others):
        other.switch(number)
    assert refused == list(range(49))
    for other in others:
        other.switch()
    holder.switch()
    assert holder.dead and len(refused) == 98
    assert lock.acquire(blocking=False)
    lock.release()


def test_the_main_greenlet_is_the_thread(client: redlatch.Client) -> None:
    # Whether the module greenlet is imported before or after the lock was acquired.
    lock = client.lock("a")
    with lock:
        assert lock.hold_count == 1
        greenlet(lambda: None).switch()
        assert lock.hold_count == 1


def test_greenlet_was_imported_while_a_lock_was_held(server: Server, prefix: str) -> None:
    assert run_program("imports_greenlet_late", server.url, prefix) == ["still held"]


@pytest.mark.parametrize("how", ["finished", "collected"])
def test_a_greenlet_that_ended_while_holding_kept_the_lock(
    client: redlatch.Client, server: Server, prefix: str, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    main = greenlet.getcurrent()

    def leak() -> None:
        client.lock("leaked", ttl=30).acquire()
        if how == "collected":
            main.switch()

    with caplog.at_level(logging.WARNING, "redlatch"):
        each = greenlet(leak)
        each.switch()
        assert how == "finished" or server.call("EXISTS", f"{prefix}leaked") == 1
        del each
        gc.collect()
        assert eventually(lambda: server.call("EXISTS", f"{prefix}leaked") == 0)
        assert eventually(lambda: any("leaked" in record.getMessage() for record in caplog.records))


def test_a_greenlet_at_the_address_of_an_ended_one_had_its_lock(
    client: redlatch.Client, caplog: pytest.LogCaptureFixture
) -> None:
    lock = client.lock("a", ttl=30)
    addresses: list[int] = []

    def leak() -> None:
        addresses.append(id(greenlet.getcurrent()))
        assert lock.hold_count == 0 and not lock.held
        with pytest.raises(redlatch.NotHeldError):
            lock.release()
        lock.acquire(blocking=False)

    with caplog.at_level(logging.CRITICAL, "redlatch"):
        for _ in range(1000):
            greenlet(leak).switch()
    assert len(set(addresses)) < 500


@pytest.mark.parametrize("pool", ["one process", "two processes"])
def test_waiting_greenlets_stopped_the_hub(server: Server, prefix: str, pool: str) -> None:
    needs_framework("gevent")
    lines = run_program("gevent_waits", server.url, prefix, pool)
    assert lines == ["the hub ran", "fifty greenlets took turns"]


def test_greenlets_that_were_killed_while_waiting_left_a_place(server: Server, prefix: str) -> None:
    needs_framework("gevent")
    assert run_program("gevent_kills", server.url, prefix) == ["no place, no lock"]


def test_a_greenlet_that_was_granted_at_the_moment_of_a_signal_kept_the_lock(own_server: Server, prefix: str) -> None:
    needs_framework("gevent")
    lines = run_program("gevent_signals_at_the_grant", own_server.url, prefix, own_server.pid)
    assert lines == ["interrupted at its grant"]
