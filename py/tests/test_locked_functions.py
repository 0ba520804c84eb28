"""``Client.locked``: which functions it takes, and what stays of them."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import redlatch
from redlatch import Client


@pytest.fixture
def memory() -> Iterator[Client]:
    with Client("memory://") as client:
        yield client


def order(order_id: int) -> None: ...


async def coroutine(order_id: int) -> None: ...


def generator(order_id: int) -> Iterator[int]:
    yield order_id


async def async_generator(order_id: int) -> AsyncIterator[int]:
    yield order_id


def class_order(cls: type) -> None: ...


class AsyncCall:
    async def __call__(self, order_id: int) -> None: ...


class GeneratorCall:
    def __call__(self, order_id: int) -> Iterator[int]:
        yield order_id


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (coroutine, r"coroutine\(\) is a coroutine function"),
        (functools.partial(coroutine, 17), r"coroutine\(\) is a coroutine function"),
        (functools.partial(functools.partial(coroutine), 17), r"coroutine\(\) is a coroutine function"),
        (AsyncCall(), r"AsyncCall\(\) is a coroutine function"),
        (functools.partial(AsyncCall(), 17), r"AsyncCall\(\) is a coroutine function"),
        (AsyncCall().__call__, "is a coroutine function"),
        (generator, r"generator\(\) is a generator"),
        (functools.partial(generator, 17), r"generator\(\) is a generator"),
        (GeneratorCall(), r"GeneratorCall\(\) is a generator"),
        (async_generator, r"async_generator\(\) is a generator"),
        (AsyncCall, "the class AsyncCall cannot run under a lock"),
        (staticmethod(order), "put the decorator below @staticmethod"),
        (classmethod(class_order), "put the decorator below @classmethod"),
        (property(order), "a property cannot run under a lock"),
        (17, "a int cannot run under a lock"),
    ],
)
def test_what_has_not_done_its_work_when_it_returns_is_refused(memory: Client, function: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        memory.locked("order")(function)


def test_a_partial_and_a_callable_object_run_under_a_lock(memory: Client) -> None:
    class Pay:
        def __call__(self, order_id: int) -> str:
            return redlatch.current_lock().name

    assert memory.locked("order:{order_id}")(Pay())(3) == "order:3"
    assert memory.locked("order:{order_id}")(functools.partial(Pay(), order_id=4))() == "order:4"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: coroutine(17), "returned a coroutine"),
        (lambda: generator(17), "returned a generator"),
        (lambda: (number for number in [1]), "returned a generator"),
        (lambda: async_generator(17), "returned a generator"),
    ],
)
def test_a_plain_function_that_returned_a_coroutine_ran_it_without_the_lock(
    memory: Client, make: Callable[[], Any], says: str
) -> None:
    @memory.locked("order")
    def pay() -> Any:
        return make()

    with pytest.raises(TypeError, match=rf"pay\(\) {says}"):
        pay()
    assert not memory.lock("order").locked()


def test_a_future_as_a_result_is_refused(memory: Client) -> None:
    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(TypeError, match="returned a Future"):
            memory.locked("order")(lambda: loop.create_future())()
    finally:
        loop.close()


# The function stays itself


def test_the_function_keeps_its_name_text_signature_and_original(memory: Client) -> None:
    def pay(order_id: int, *, region: str = "eu") -> str:
        """Pays."""
        return region

    locked = memory.locked("order:{order_id}")(pay)
    assert (locked.__name__, locked.__doc__, locked.__module__) == ("pay", "Pays.", __name__)
    assert inspect.signature(locked) == inspect.signature(pay)
    assert inspect.getfullargspec(locked).args == ["order_id"]
    assert locked.__wrapped__ is pay  # type: ignore[attr-defined]


def test_a_function_without_a_known_signature_is_refused_with_a_reason(memory: Client) -> None:
    class Opaque:
        @property
        def __signature__(self) -> None:
            raise ValueError("unknown")

        def __call__(self) -> None: ...

    with pytest.raises(TypeError, match=r"Opaque\(\) does not tell its parameters"):
        memory.locked("order")(Opaque())
