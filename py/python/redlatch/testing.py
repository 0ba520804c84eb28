"""Locks in the tests of an application: a store inside the process, and a clock that the test moves.

    def test_a_lost_order_is_not_paid(redlatch_client):  # a MemoryClient, by the pytest plugin that this module is
        shop = Shop(redlatch_client)
        redlatch_client.lose("order:17")
        ...

Without pytest, make a ``MemoryClient``. "Someone else has it" is a lease, which no other lock of the client re-enters:

    with client.lease("order:17"):
        assert shop.pay(17) == "busy"

Time stands still, so a call that waits does so until another thread advances the clock. ``passing`` is such a thread:

    def test_an_order_that_stays_busy_is_reported(redlatch_client):
        shop = Shop(redlatch_client)
        with redlatch_client.lease("order:17"), redlatch_client.passing(speed=100):
            assert shop.pay(17) == "busy"  # after its 5 s of waiting, which take 50 ms
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from redlatch import _native
from redlatch._client import Client
from redlatch._errors import ConfigError, NotHeldError
from redlatch._native import ManualClock
from redlatch._types import Seconds

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["MemoryClient"]


class MemoryClient(Client):
    """A ``Client`` on ``memory://``, whose time moves only by ``advance``.

    Options are those of ``Client``. Each has a store of its own.
    """

    __slots__ = ("_clock",)

    def __init__(self, **options: Any) -> None:
        """Raises ``ConfigError`` as ``Client``."""
        self._clock = ManualClock()
        super().__init__("memory://", **options)

    def _open(self, url: str, **options: Any) -> _native.NativeClient:
        return _native.NativeClient(url, manual_clock=self._clock, **options)

    def __enter__(self) -> Self:
        return self

    def advance(self, seconds: Seconds) -> None:
        """Moves the time, at once: what has automatic renewal is renewed on the way, other leases lapse by their ttl.

        Blocks while the background works; a step in which a callback blocks ends after 2 s.
        """
        self._clock.advance(seconds)

    @contextmanager
    def passing(self, speed: float = 1.0) -> Iterator[None]:
        """Lets the time pass while the block runs, so that calls in it may wait: ``speed`` seconds a second.

        A thread advances the clock every 5 ms by what has passed, and ends with the block. Raises ``ConfigError`` for a
        ``speed`` outside of 0.001 to 100,000.
        """
        if not (isinstance(speed, (int, float)) and 0.001 <= speed <= 100_000):
            raise ConfigError(f"speed = {speed!r} is refused: from 0.001 to 100000 seconds a second")
        over = threading.Event()

        def pass_time() -> None:
            last = time.monotonic()
            while not over.wait(0.005):
                now = time.monotonic()
                self._clock.advance((now - last) * speed)
                last = now

        thread = threading.Thread(target=pass_time, name="redlatch-passing", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def lose(self, name: str) -> None:
        """Takes the lock ``name`` away from its holder, who knows at once that it is lost, as ``taken``.

        ``on_lost`` runs on a thread of its own: ``advance(0.01)`` afterwards returns when it has run.
        Raises ``NotHeldError`` when nobody has it.
        """
        if not self._native.lose(name):
            raise NotHeldError(f"nobody has the lock {name!r}, so it cannot be lost", name=name)


try:
    import pytest
except ImportError:
    pass
else:

    @pytest.fixture
    def redlatch_client() -> Iterator[MemoryClient]:
        """A ``MemoryClient``: locks inside this process, with ``advance(seconds)``, ``passing()``, ``lose(name)``."""
        with MemoryClient() as client:
            yield client
