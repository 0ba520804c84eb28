"""Names of locks from the arguments of a call: ``"order:{order_id}"``."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from string import Formatter
from typing import Any

from redlatch._errors import ConfigError

_FIELD = re.compile(r"(?P<root>[^.\[\]]*)(?P<steps>(?:\.[^.\[\]]+|\[[^\[\]]+\])*)")
_STEP = re.compile(r"\.([^.\[\]]+)|\[([^\[\]]+)\]")
_CONVERT: Mapping[str | None, Callable[[object], object]] = {
    None: lambda value: value,
    "s": str,
    "r": repr,
    "a": ascii,
}


class Template:
    """A lock's name with fields, as of ``str.format``, that are parameters of one function.

    Checked when it is made: a field is a parameter, then attributes and indexes of it, then a conversion and a format
    spec. Positional fields, names with a leading underscore as attributes, and fields inside a format spec are refused.
    """

    __slots__ = ("_function", "_parts", "text")

    def __init__(self, text: str, parameters: Collection[str], function: str) -> None:
        """``function`` is what errors call the function whose ``parameters`` these are. Raises ``ConfigError``."""
        if not isinstance(text, str):
            raise TypeError(f"the name template of {function} must be a str, not {type(text).__name__}")
        self.text = text
        self._function = function
        try:
            parsed = list(Formatter().parse(text))
        except ValueError as error:
            raise self._error(f"is malformed: {error}") from None
        self._parts: list[tuple[str, _Field | None]] = []
        for literal, name, spec, conversion in parsed:
            field = None if name is None else self._field(name, spec or "", conversion, parameters)
            self._parts.append((literal, field))

    def fill(self, arguments: Mapping[str, object]) -> str:
        """The name for these arguments, by parameter. Raises ``ConfigError`` when they do not fit the template, or when
        another process would write one of them otherwise: a set, or what is shown by its address.

        What an attribute of an argument raises, other than that it is missing, is passed on.
        """
        name = []
        for literal, field in self._parts:
            name.append(literal)
            if field is not None:
                try:
                    name.append(field.render(arguments))
                except (AttributeError, LookupError, TypeError, ValueError) as error:
                    raise self._error(f"cannot fill {{{field.name}}}: {type(error).__name__}: {error}") from error
        return "".join(name)

    def _field(self, name: str, spec: str, conversion: str | None, parameters: Collection[str]) -> _Field:
        match = _FIELD.fullmatch(name)
        root = "" if match is None else match["root"]
        if root.isdigit() or (not root and not name):
            example = next(iter(parameters), "order_id")
            raise self._error(f"has the positional field {{{name}}}: name a parameter, as in {{{example}}}")
        if match is None or not root:
            raise self._error(f"has the malformed field {{{name}}}: a parameter, then .attribute or [index]")
        if root not in parameters:
            known = ", ".join(parameters) or "none"
            raise self._error(f"names {{{root}}}, which is no parameter; its parameters: {known}")
        steps: list[str | int | _Attribute] = []
        for attribute, index in _STEP.findall(match["steps"]):
            if attribute.startswith("_"):
                raise self._error(f"reaches for {{{name}}}: attributes that begin with an underscore are refused")
            if attribute:
                steps.append(_Attribute(attribute))
            else:
                steps.append(int(index) if index.isdigit() else index)
        if conversion not in _CONVERT:
            raise self._error(f"has the unknown conversion !{conversion} in {{{name}}}: !s, !r or !a")
        if "{" in spec or "}" in spec:
            raise self._error(f"has a field inside the format spec of {{{name}}}, which is refused")
        return _Field(name, root, steps, spec, conversion)

    def _error(self, what: str) -> ConfigError:
        return ConfigError(f"the name template {self.text!r} of {self._function} {what}")


class _Attribute(str):
    """A step to an attribute; other steps are indexes."""

    __slots__ = ()


class _Field:
    __slots__ = ("_conversion", "_root", "_spec", "_steps", "name")

    def __init__(
        self, name: str, root: str, steps: list[str | int | _Attribute], spec: str, conversion: str | None
    ) -> None:
        self.name = name
        self._root = root
        self._steps = steps
        self._spec = spec
        self._conversion = conversion

    def render(self, arguments: Mapping[str, object]) -> str:
        value = arguments[self._root]
        for step in self._steps:
            value = getattr(value, step) if isinstance(step, _Attribute) else value[step]  # type: ignore[index]
        refusal = _refusal(value, self._conversion)
        text = "" if refusal else format(_CONVERT[self._conversion](value), self._spec)
        # Whatever the text of a str or bytes is, it is the same in every process.
        if refusal or (not isinstance(value, _PLAIN + _NESTING) and _ADDRESS.search(text)):
            raise TypeError(refusal or _by_address(value))
        return text


_PLAIN = (str, bytes)
_SETS = (set, frozenset)
_NESTING = (list, tuple, dict)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def _refusal(value: object, conversion: str | None) -> str | None:
    """Why the text of ``value`` would differ from process to process, so that two would lock different names.

    Looks into lists, tuples and dicts. What a class writes in a text of its own is its own affair.
    """
    kind: Any = type(value)
    if conversion is None and kind.__format__ is not object.__format__:
        return None
    if conversion in (None, "s") and kind.__str__ is not object.__str__:
        return None
    return _refusal_of_repr(value, set())


def _refusal_of_repr(value: object, seen: set[int]) -> str | None:
    kind: Any = type(value)
    if kind.__repr__ is object.__repr__:
        return _by_address(value)
    if isinstance(value, _SETS) and kind.__repr__ in (set.__repr__, frozenset.__repr__):
        return f"a {kind.__name__} has no order that all processes share: sort it into a tuple"
    if not isinstance(value, _NESTING):
        return _by_address(value) if not isinstance(value, _PLAIN) and _ADDRESS.search(repr(value)) else None
    shows_its_items = kind.__repr__ in (list.__repr__, tuple.__repr__, dict.__repr__) or hasattr(kind, "_fields")
    if not shows_its_items or id(value) in seen:
        return None
    seen.add(id(value))
    items: list[object] = [*value, *value.values()] if isinstance(value, dict) else [*value]
    for item in items:
        refusal = _refusal_of_repr(item, seen)
        if refusal is not None:
            return f"in a {kind.__name__}, {refusal}"
    return None


def _by_address(value: object) -> str:
    return (
        f"a {type(value).__name__} has no text but its address, or one that shows an address, which differs from "
        "process to process: name an attribute of it"
    )
