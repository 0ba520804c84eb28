"""Functions that run under a lock: what ``Client.locked`` returns."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Generic, Literal, ParamSpec, Protocol, TypeAlias, TypeVar

from redlatch._errors import AcquireTimeout, ConfigError, NotHeldError
from redlatch._native import Lock
from redlatch._template import Template

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

OnBusy: TypeAlias = Literal["raise", "skip"] | Callable[..., object]
"""What a call does when someone else has the lock: see ``Client.locked``."""

Busy: TypeAlias = Callable[[AcquireTimeout, tuple[Any, ...], dict[str, Any]], object]
"""Called with the time-out, and the arguments of the call."""

_running: ContextVar[Lock | None] = ContextVar("redlatch.current_lock", default=None)


class RaiseWhenBusy(Protocol):
    """Decorator of ``on_busy="raise"``."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]:
        """The function, under its lock."""


class SkipWhenBusy(Protocol):
    """Decorator of ``on_busy="skip"``."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R | None]:
        """The function, under its lock; ``None`` when it was skipped."""


class CallWhenBusy(Protocol, Generic[T_co]):
    """Decorator of ``on_busy=`` a callable."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R | T_co]:
        """The function, under its lock; what ``on_busy`` returns when it is busy."""


def current_lock() -> Lock:
    """The lock of the innermost function decorated by ``Client.locked`` that runs here.

    To ``check()``, or to read its ``fence``. Raises ``NotHeldError`` outside of one. Asks no server.
    """
    lock = _running.get()
    if lock is None:
        raise NotHeldError("current_lock() is called outside of a function decorated by Client.locked")
    return lock


def runs_locked(
    function: Callable[..., Any],
    template: str,
    make_lock: Callable[[str], Lock],
    busy: Busy | None,
) -> Callable[..., Any]:
    """``function`` under the lock that ``make_lock`` makes for the name of each call.

    ``busy`` is called when the lock is not acquired in time, and its result returned; ``None`` lets the error pass.
    Raises ``TypeError`` for a function whose work is not done when it returns, and ``ConfigError`` for a template that
    does not fit it.
    """
    shown = _check_function(function)
    signature = _signature(function, shown)
    names = Template(template, list(signature.parameters), shown)

    def name_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{shown}: {error}") from None
        bound.apply_defaults()
        return names.fill(bound.arguments)

    @functools.wraps(function)
    def under_lock(*args: Any, **kwargs: Any) -> Any:
        lock = make_lock(name_of(args, kwargs))
        entered = False
        try:
            with lock:
                # Only what `with` raises before this line says busy: the body may time out for a lock of its own.
                entered = True
                reset = _running.set(lock)
                try:
                    result = function(*args, **kwargs)
                    _check_result(result, shown)
                    return result
                finally:
                    _running.reset(reset)
        except AcquireTimeout as error:
            if entered or busy is None:
                raise
            # Without its traceback, which would keep this frame and the arguments alive.
            timeout = error.with_traceback(None)
        return busy(timeout, args, kwargs)

    # For those who read the arguments without following __wrapped__, as Celery does.
    under_lock.__signature__ = signature  # type: ignore[attr-defined]
    return under_lock


def busy_callable(on_busy: object) -> Busy | None:
    """What ``runs_locked`` calls for this ``on_busy``. Raises ``ConfigError``."""
    if callable(on_busy):
        return lambda _timeout, args, kwargs: on_busy(*args, **kwargs)
    if on_busy == "raise":
        return None
    if on_busy == "skip":
        return skip
    raise ConfigError(f'on_busy = {on_busy!r}: "raise", "skip" or a callable')


def skip(_timeout: AcquireTimeout, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
    """The ``Busy`` that leaves the function out."""
    return None


def _check_function(function: Callable[..., Any]) -> str:
    """What errors call the function. Refuses what has not done its work when it returns."""
    if isinstance(function, (staticmethod, classmethod)):
        kind = type(function).__name__
        raise TypeError(f"a {kind} object cannot run under a lock: put the decorator below @{kind}")
    if inspect.isclass(function):
        raise TypeError(f"the class {function.__qualname__} cannot run under a lock: decorate a function or a method")
    if not callable(function):
        raise TypeError(f"a {type(function).__name__} cannot run under a lock: decorate a function or a method")
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    shown = getattr(inner, "__qualname__", type(inner).__qualname__) + "()"
    for code in (inner, type(inner).__call__):
        if inspect.iscoroutinefunction(code):
            raise TypeError(f"{shown} is a coroutine function: it would run after the lock was released")
        if inspect.isasyncgenfunction(code) or inspect.isgeneratorfunction(code):
            raise TypeError(f"{shown} is a generator: its body would run after the lock was released")
    return shown


def _check_result(result: object, shown: str) -> None:
    """Refuses a result that stands for work still to be done, which only the call shows."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(f"{shown} returned a {type(result).__name__}: it would run after the lock was released")
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError(f"{shown} returned a generator: its body would run after the lock was released")


def _signature(function: Callable[..., Any], shown: str) -> inspect.Signature:
    try:
        if sys.version_info >= (3, 14):
            import annotationlib

            # Annotations are not needed, and may name what exists for type checkers only.
            return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
        return inspect.signature(function)
    except ValueError as error:
        raise TypeError(f"{shown} does not tell its parameters, so its arguments make no name") from error
