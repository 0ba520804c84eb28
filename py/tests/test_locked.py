"""``Client.locked`` and ``current_lock``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redlatch
from harness import eventually
from redlatch import AcquireTimeout, Client, ConfigError, NotHeldError


@pytest.fixture
def memory() -> Iterator[Client]:
    with Client("memory://") as client:
        yield client


def test_the_lock_is_held_while_the_function_runs_and_free_afterwards(memory: Client) -> None:
    @memory.locked("order:{order_id}", ttl=5)
    def pay(order_id: int) -> bool:
        return memory.lock(f"order:{order_id}").held

    assert pay(17) is True
    assert not memory.lock("order:17").locked()


def test_the_lock_is_released_when_the_function_raises(memory: Client) -> None:
    @memory.locked("order")
    def fail() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    assert not memory.lock("order").locked()


# Busy


def test_a_busy_lock_raises_by_default(memory: Client) -> None:
    @memory.locked("order", wait=0)
    def pay() -> None:
        pytest.fail("ran without the lock")

    with memory.lease("order"), pytest.raises(AcquireTimeout) as caught:
        pay()
    assert caught.value.name == "order"


def test_a_busy_lock_is_skipped_without_waiting(memory: Client) -> None:
    @memory.locked("order", on_busy="skip")
    def pay() -> str:
        return "paid"

    with memory.lease("order"):
        assert pay() is None
    assert pay() == "paid"


def test_a_lock_that_gets_free_within_wait_is_not_busy(memory: Client) -> None:
    lease = memory.lease("order")
    lease.acquire()

    @memory.locked("order", wait=30, on_busy="skip")
    def pay() -> str:
        return "paid"

    results: list[str | None] = []

    thread = threading.Thread(target=lambda: results.append(pay()))
    thread.start()
    assert eventually(lambda: memory.stats()["waiting_now"] == 1)
    lease.release()
    thread.join(10)
    assert results == ["paid"]


def test_a_callable_gets_the_arguments_and_runs_without_the_lock(memory: Client) -> None:
    def refuse(order_id: int, *, note: str = "") -> str:
        with pytest.raises(NotHeldError):
            redlatch.current_lock()
        return f"{order_id} is busy{note}"

    @memory.locked("order:{order_id}", on_busy=refuse)
    def pay(order_id: int, *, note: str = "") -> str:
        return "paid"

    with memory.lease("order:17"):
        assert pay(17, note="!") == "17 is busy!"
    assert pay(17) == "paid"


def test_what_a_busy_callable_raises_has_no_acquire_timeout_as_its_context(memory: Client) -> None:
    def refuse() -> None:
        raise LookupError("mine")

    @memory.locked("order", on_busy=refuse)
    def pay() -> None: ...

    with memory.lease("order"), pytest.raises(LookupError) as caught:
        pay()
    assert caught.value.__context__ is None


@pytest.mark.parametrize("on_busy", ["skip", "raise", lambda: "busy"])
def test_a_body_that_timed_out_for_a_lock_of_its_own_was_taken_for_busy(memory: Client, on_busy: Any) -> None:
    def pay() -> None:
        with memory.lock("inner", wait=0):
            pytest.fail("two holders")

    with memory.lease("inner"), pytest.raises(AcquireTimeout) as caught:
        memory.locked("outer", on_busy=on_busy)(pay)()
    assert caught.value.name == "inner"
    assert not memory.lock("outer").locked()


def test_an_argument_that_timed_out_for_a_lock_of_its_own_was_taken_for_busy(memory: Client) -> None:
    class Row:
        @property
        def id(self) -> int:
            with memory.lock("rows", wait=0):
                return 1

    @memory.locked("row:{row.id}", on_busy="skip")
    def use(row: Row) -> None: ...

    with memory.lease("rows"), pytest.raises(AcquireTimeout, match="rows"):
        use(Row())


@pytest.mark.parametrize("on_busy", ["wait", None, 3])
def test_an_unknown_on_busy_is_refused(memory: Client, on_busy: Any) -> None:
    with pytest.raises(ConfigError, match=r'on_busy = .*: "raise", "skip" or a callable'):
        memory.locked("order", on_busy=on_busy)


# The lock inside


def test_the_current_lock_is_the_innermost_and_the_outer_one_comes_back(memory: Client) -> None:
    @memory.locked("inner")
    def inner() -> str:
        redlatch.current_lock().check()
        return redlatch.current_lock().name

    @memory.locked("outer")
    def outer() -> tuple[str, str]:
        redlatch.current_lock().check()
        assert redlatch.current_lock().fence > 0
        return inner(), redlatch.current_lock().name

    assert outer() == ("inner", "outer")
    with pytest.raises(NotHeldError, match=r"outside of a function decorated by Client\.locked"):
        redlatch.current_lock()


def test_a_function_that_calls_itself_nests(memory: Client) -> None:
    @memory.locked("tree")
    def walk(depth: int) -> int:
        return redlatch.current_lock().hold_count if depth == 0 else walk(depth - 1)

    assert walk(4) == 5
    assert not memory.lock("tree").locked()


def test_another_thread_has_no_current_lock(memory: Client) -> None:
    errors: list[BaseException] = []

    def elsewhere() -> None:
        try:
            redlatch.current_lock()
        except NotHeldError as error:
            errors.append(error)

    @memory.locked("order")
    def pay() -> None:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join(10)

    pay()
    assert len(errors) == 1
