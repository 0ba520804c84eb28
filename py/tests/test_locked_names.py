"""``Client.locked``: the name, from a template and the arguments of the call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redlatch
from redlatch import Client, ConfigError


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


def test_a_decorator_without_its_template_says_how_to_write_it(memory: Client) -> None:
    with pytest.raises(TypeError) as caught:

        @memory.locked  # type: ignore[call-overload, arg-type, unused-ignore]
        def pay(order_id: int) -> None: ...

    assert str(caught.value) == 'locked() takes a template of the name: @client.locked("order:{order_id}")'


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
