"""Templates that nobody thought of: understood as ``str.format`` does, or refused with ``ConfigError``."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
from redlatch import ConfigError
from redlatch._template import Template

PIECES = [
    "order:", "{", "}", "{{", "}}", "{a}", "{b}", "{a", "a}", "a", "b", "0", "1", ".", "[", "]", "[0]", "[k]", ".x",
    ".y", "._x", ".__class__", "!r", "!s", "!a", "!z", "!", ":", ":>8", ":08.3f", ":{b}", ":%Y", "{a.x}", "{b[0]}",
    "{c[k]}", "{}", "{0}", "{c}", "{c[k].x}", " ", "\n", "é", "\U0001f512", "\x00", "\ud800", ":redlatch:",
]  # fmt: skip
"""What templates are made of: a piece or two behind one another are what people get wrong."""


class Order:
    """Has no text of its own."""

    x = "seven"
    y = 7
    _x = "hidden"


ARGUMENTS = {
    "a": Order(),
    "b": ["first", 2.5, "third"],
    "c": {"k": SimpleNamespace(x=17), "0": "text", "a": "b"},
}


def templates(seed: int, count: int) -> list[str]:
    choose = random.Random(seed)
    return ["".join(choose.choices(PIECES, k=choose.randint(1, 9))) for _ in range(count)]


@pytest.mark.parametrize("seed", range(4))
def test_a_template_that_nobody_thought_of_named_a_lock_otherwise_than_format_does(seed: int) -> None:
    filled = 0
    for text in templates(seed, 5_000):
        try:
            template = Template(text, list(ARGUMENTS), "work()")
        except ConfigError as error:
            assert repr(text) in str(error) and "work()" in str(error), text
            continue
        try:
            name = template.fill(ARGUMENTS)
        except ConfigError as error:
            assert repr(text) in str(error) and "cannot fill" in str(error), text
            continue
        assert name == text.format(**ARGUMENTS), text
        assert "hidden" not in name and " at 0x" not in name, text
        filled += 1
    assert filled > 500


def test_what_is_accepted_is_filled_alike_each_time() -> None:
    for text in templates(99, 2_000):
        try:
            template = Template(text, list(ARGUMENTS), "work()")
            names = {template.fill(ARGUMENTS), Template(text, list(ARGUMENTS), "work()").fill(ARGUMENTS)}
        except ConfigError:
            continue
        assert len(names) == 1, text


def test_text_that_is_no_field_stays_as_it_is() -> None:
    choose = random.Random(7)
    for _ in range(2_000):
        plain = "".join(choose.choices([piece for piece in PIECES if "{" not in piece and "}" not in piece], k=6))
        escaped = plain.replace("a", "{{").replace("b", "}}")
        expected = plain.replace("a", "{").replace("b", "}")
        assert Template(escaped, [], "work()").fill({}) == expected
