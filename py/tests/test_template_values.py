"""Names from arguments whose text differs between processes, which would then lock different names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pytest
from redlatch import ConfigError, current_lock
from redlatch.testing import MemoryClient


class Plain:
    """Has no text of its own."""


class Wraps:
    """Its text shows another object's address."""

    def __init__(self, inner: object) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return f"Wraps({self.inner!r})"


class Place(NamedTuple):
    shelves: object


class Sorted(frozenset[str]):
    """A set that has an order."""

    def __repr__(self) -> str:
        return "+".join(sorted(self))


class Unread:
    """Not a value to be written out: only its attribute is."""

    number = 17

    def __repr__(self) -> str:
        raise AssertionError("nobody asked for its text")


def named(value: object, field: str = "{value}") -> str:
    """The name of the lock under which a function with this argument runs."""
    with MemoryClient() as client:

        @client.locked(f"it:{field}", wait=0)
        def work(value: object) -> str:
            return current_lock().name

        return work(value)


LOOP: list[object] = [1]
LOOP.append(LOOP)


def test_two_processes_wrote_a_set_differently() -> None:
    # What the refusal is for. Whatever the seeds were, these two differ.
    code = "print({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'})"
    texts = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, text=True, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(texts) > 1


@pytest.mark.parametrize("field", ["{value}", "{value!s}", "{value!r}", "{value!a}"])
@pytest.mark.parametrize(
    "value",
    [
        {"a", "b"}, {17}, set(), frozenset({"a"}), [{"a"}], ({"a"},), {"k": frozenset({"a"})}, {frozenset({"a"}): 1},
        Place({"a"}), [[("k", {"a"})]],
    ],
)  # fmt: skip
def test_a_set_named_a_lock(value: object, field: str) -> None:
    with pytest.raises(ConfigError, match=r"a (frozen)?set has no order that all processes share"):
        named(value, field)


@pytest.mark.parametrize("field", ["{value}", "{value!s}", "{value!r}", "{value!a}"])
@pytest.mark.parametrize(
    "make",
    [
        Plain, lambda: [Plain()], lambda: (1, Plain()), lambda: {"k": Plain()}, lambda: {Plain(): 1},
        lambda: Place(Plain()), lambda: Wraps(Plain()), lambda: [Wraps(Plain())], lambda: test_a_set_named_a_lock,
        lambda: (each for each in "ab"), lambda: [].append, lambda: {"k": Plain()}.values(),
    ],
)  # fmt: skip
def test_an_address_inside_a_value_named_a_lock(make: Callable[[], Any], field: str) -> None:
    with pytest.raises(ConfigError, match="shows an address, which differs from process to process"):
        named(make(), field)


@pytest.mark.parametrize(
    "value",
    [
        "it is at 0x7f00", ["it is at 0x7f00"], b"it is at 0x7f00", 17, None, [1, "a"], (1, ("a",)), {"k": [1]}, 1.5,
        Wraps(17), Place(17), PurePosixPath("/a"), Sorted({"b", "a"}), [Sorted({"b", "a"})], LOOP, int,
    ],
)  # fmt: skip
def test_a_value_that_is_the_same_everywhere_was_refused(value: object) -> None:
    assert named(value) == f"it:{value}"


def test_a_set_is_named_by_what_does_not_depend_on_its_order() -> None:
    assert named(Unread(), "{value.number}") == "it:17"
