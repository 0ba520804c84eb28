"""``Client.locked`` and ``current_lock``."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redlatch
from redlatch import AcquireTimeout, Client, ConfigError, NotHeldError


@pytest.fixture
def memory() -> Iterator[Client]:
    with Client("memory://") as client:
        yield client


def name_for(client: Client, template: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The name that a call locks, as the function sees it."""

    @functools.wraps(function)
    def tell(*_args: Any, **_kwargs: Any) -> str:
        return redlatch.current_lock().name

    name: str = client.locked(template)(tell)(*args, **kwargs)
    return name


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


# The name


def order(order_id: int, region: str = "eu", *rest: int, **more: object) -> None: ...


@pytest.mark.parametrize(
    ("template", "args", "kwargs", "name"),
    [
        ("fixed", (17,), {}, "fixed"),
        ("order:{order_id}", (17,), {}, "order:17"),
        ("order:{order_id}", (), {"order_id": 17}, "order:17"),
        ("{region}:{order_id}", (17,), {}, "eu:17"),
        ("{region}:{order_id}", (17, "us"), {}, "us:17"),
        ("{order_id:05d}", (17,), {}, "00017"),
        ("{region!r:>6}", (17,), {}, "  'eu'"),
        ("{order_id.value}", (SimpleNamespace(value=3),), {}, "3"),
        ("{order_id[0]}-{order_id[1].x}", ([7, SimpleNamespace(x=8)],), {}, "7-8"),
        ("{order_id[key]}", ({"key": "v"},), {}, "v"),
        ("{order_id[_key]}", ({"_key": "v"},), {}, "v"),
        ("{rest[1]}", (1, "x", 2, 3), {}, "3"),
        ("{more[day]}", (1,), {"day": "mon"}, "mon"),
        ("{{{order_id}}}", (17,), {}, "{17}"),
    ],
)
def test_names_are_made_of_the_bound_arguments(
    memory: Client, template: str, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> None:
    assert name_for(memory, template, order, *args, **kwargs) == name


def test_self_is_an_argument_of_a_method(memory: Client) -> None:
    class Account:
        def __init__(self, number: int) -> None:
            self.number = number

        @memory.locked("account:{self.number}:{kind}")
        def close(self, kind: str) -> str:
            """Closes it."""
            return redlatch.current_lock().name

        @classmethod
        @memory.locked("accounts:{kind}")
        def close_all(cls, kind: str) -> str:
            return redlatch.current_lock().name

        @staticmethod
        @memory.locked("static:{kind}")
        def audit(kind: str) -> str:
            return redlatch.current_lock().name

    assert Account(9).close("savings") == "account:9:savings"
    assert Account.close_all("savings") == "accounts:savings"
    assert Account.audit("savings") == "static:savings"
    assert Account.close.__doc__ == "Closes it."


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("order:{}", r"positional field \{\}: name a parameter, as in \{order_id\}"),
        ("order:{0}", r"positional field \{0\}"),
        ("order:{0.id}", r"positional field \{0\.id\}"),
        ("order:{order}", r"names \{order\}, which is no parameter; its parameters: order_id, region, rest, more"),
        ("order:{order_id", "malformed"),
        ("order:}", "malformed"),
        ("order:{order_id!}", "malformed"),
        ("order:{order_id!x}", r"unknown conversion !x in \{order_id\}: !s, !r or !a"),
        ("order:{order_id.__class__}", "underscore are refused"),
        ("order:{order_id.a._b}", "underscore are refused"),
        ("order:{order_id[0]._b}", "underscore are refused"),
        ("order:{order_id.}", r"malformed field \{order_id\.\}"),
        ("order:{order_id[}", "malformed"),
        ("order:{order_id[]}", r"malformed field \{order_id\[\]\}"),
        ("order:{order_id[0]x}", "malformed field"),
        ("order:{.order_id}", "malformed field"),
        ("order:{[0]}", "malformed field"),
        ("order:{order_id:{region}}", r"field inside the format spec of \{order_id\}"),
    ],
)
def test_a_template_that_does_not_fit_is_refused_when_the_function_is_decorated(
    memory: Client, template: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        memory.locked(template)(order)
    assert repr(template) in str(caught.value)
    assert "of order()" in str(caught.value)


def test_a_template_that_is_no_text_is_refused(memory: Client) -> None:
    with pytest.raises(TypeError, match="must be a str, not int"):
        memory.locked(17)(order)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("template", "argument", "says"),
    [
        ("order:{order_id.id}", 17, r"cannot fill \{order_id\.id\}: AttributeError"),
        ("order:{order_id[3]}", [1], r"cannot fill \{order_id\[3\]\}: IndexError"),
        ("order:{order_id[x]}", {}, r"cannot fill \{order_id\[x\]\}: KeyError"),
        ("order:{order_id[0]}", 17, r"cannot fill \{order_id\[0\]\}: TypeError"),
        ("order:{order_id:d}", "x", r"cannot fill \{order_id\}: ValueError"),
    ],
)
def test_an_argument_that_does_not_fit_is_an_error_that_names_template_field_and_function(
    memory: Client, template: str, argument: object, says: str
) -> None:
    ran = []

    @memory.locked(template)
    def pay(order_id: Any) -> None:
        ran.append(order_id)

    with pytest.raises(ConfigError, match=says) as caught:
        pay(argument)
    assert repr(template) in str(caught.value)
    assert "pay()" in str(caught.value)
    assert caught.value.__cause__ is not None
    assert ran == []


@pytest.mark.parametrize("template", ["order:{it}", "order:{it!s}", "order:{it!r}", "order:{it.inner}"])
def test_an_object_shown_by_its_address_made_every_process_lock_another_name(memory: Client, template: str) -> None:
    class Order:
        inner = object()

    @memory.locked(template)
    def pay(it: Order) -> None: ...

    with pytest.raises(ConfigError, match="no text but its address"):
        pay(Order())


def test_objects_with_a_text_of_their_own_make_names(memory: Client) -> None:
    class Shown:
        def __str__(self) -> str:
            return "s"

    class Repr:
        def __repr__(self) -> str:
            return "r"

    class Formatted:
        def __format__(self, spec: str) -> str:
            return "f" + spec

    def pay(it: object) -> None: ...

    assert name_for(memory, "{it}", pay, Shown()) == "s"
    assert name_for(memory, "{it}", pay, Repr()) == "r"
    assert name_for(memory, "{it:x}", pay, Formatted()) == "fx"
    with pytest.raises(ConfigError, match="no text but its address"):
        name_for(memory, "{it!r}", pay, Shown())


def test_what_a_property_raises_is_passed_on(memory: Client) -> None:
    class Row:
        @property
        def id(self) -> int:
            raise RuntimeError("database away")

    @memory.locked("row:{row.id}")
    def use(row: Row) -> None: ...

    with pytest.raises(RuntimeError, match="database away"):
        use(Row())


@pytest.mark.parametrize("name", ["", "x" * 1025])
def test_a_name_that_comes_out_empty_or_too_long_is_refused_by_the_call(memory: Client, name: str) -> None:
    @memory.locked("{name}")
    def use(name: str) -> None:
        pytest.fail("ran without a lock")

    with pytest.raises(ConfigError, match="1024"):
        use(name)


def test_arguments_that_the_function_does_not_take_are_a_type_error_that_names_it(memory: Client) -> None:
    @memory.locked("order:{order_id}")
    def pay(order_id: int) -> None: ...

    with pytest.raises(TypeError, match=r"pay\(\): missing a required argument: 'order_id'"):
        pay()  # type: ignore[call-arg]
    assert memory.inspect("order:") is None


def test_options_out_of_bounds_are_refused_when_the_decorator_is_made(memory: Client) -> None:
    with pytest.raises(ConfigError, match="ttl"):
        memory.locked("order", ttl=0)


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
    waiting = threading.Event()
    lease = memory.lease("order")
    lease.acquire()

    @memory.locked("order", wait=30, on_busy="skip")
    def pay() -> str:
        return "paid"

    results: list[str | None] = []

    def worker() -> None:
        waiting.set()
        results.append(pay())

    thread = threading.Thread(target=worker)
    thread.start()
    assert waiting.wait(10)
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


# What cannot run under a lock


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
