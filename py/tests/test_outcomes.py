"""What a call or a block comes to, whatever handlers of the log and exceptions of the body do."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator

import pytest
import redlatch
from harness import MakeClient, Proxy, Server, eventually
from redlatch.testing import MemoryClient


class Broken(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise ValueError("a broken handler")


class BrokenFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        raise ValueError("a broken filter")


@pytest.fixture(params=["handler", "filter"])
def told(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A log that raises for every record; what is told of that."""
    unraised: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: unraised.append(str(unraisable.exc_value)))
    logger = logging.getLogger("redlatch")
    handler = Broken()
    if request.param == "filter":
        # Filters count where a record is made, handlers also for loggers below.
        handler = logging.Handler()  # type: ignore[assignment]
        handler.addFilter(BrokenFilter())
    logger.addHandler(handler)
    yield unraised
    logger.removeHandler(handler)


def test_a_handler_that_raises_replaced_the_outcome_of_a_call(told: list[str]) -> None:
    with MemoryClient() as client:
        lock = client.lock("a")
        lock.acquire()
        assert client.force_release("a")
        assert told and set(told) <= {"a broken handler", "a broken filter"}
        client.advance(15)
        with pytest.raises(redlatch.LostError):
            lock.release()
        lock.acquire()
        client.lose("a")
        with pytest.raises(redlatch.LostError):
            lock.check()
        with pytest.raises(redlatch.LostError):
            lock.release()


@pytest.mark.parametrize("kind", ["lock", "lease"])
def test_a_handler_that_raises_made_an_unconfirmed_release_fail(
    make_client: MakeClient, proxy: Proxy, told: list[str], kind: str
) -> None:
    client = make_client(proxy.url, io_timeout=0.3, connect_timeout=0.3)
    held = client.lock("a") if kind == "lock" else client.lease("a")
    held.acquire()
    proxy.black_hole()
    held.release()
    assert told and client.stats()["release_unconfirmed"] == 1
    proxy.restore()
    with pytest.raises(KeyError), held:
        proxy.black_hole()
        raise KeyError("of the body")
    assert client.stats()["release_unconfirmed"] == 2
    proxy.restore()


def test_a_handler_that_raises_ended_the_thread_of_the_callbacks(
    client: redlatch.Client, server: Server, prefix: str, told: list[str]
) -> None:
    fired: list[redlatch.LostInfo] = []
    # Each loss is logged by a background thread, before its callback.
    for number in range(3):
        fired.clear()
        client.lock(f"a{number}", ttl=0.3, on_lost=fired.append).acquire()
        server.call("DEL", f"{prefix}a{number}")
        assert eventually(lambda: fired)
    assert len(told) >= 3


class NoteRaises(Exception):
    def add_note(self, note: str) -> None:
        raise RuntimeError("takes no note")


class NotesAreText(Exception):
    def __init__(self) -> None:
        self.__notes__ = "text"  # type: ignore[assignment]


class NoteIsNone(Exception):
    add_note = None  # type: ignore[assignment]


class NothingCanBeSet(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        raise RuntimeError("sealed")


class NoteCannotBeRead(Exception):
    def __getattribute__(self, name: str) -> object:
        if name == "add_note":
            raise KeyError(name)
        return super().__getattribute__(name)


class ExitWithoutNotes(BaseException):
    def add_note(self, note: str) -> None:
        raise RuntimeError("takes no note")


@pytest.mark.parametrize("kind", ["lock", "lease"])
@pytest.mark.parametrize(
    "make", [NoteRaises, NotesAreText, NoteIsNone, NothingCanBeSet, NoteCannotBeRead, ExitWithoutNotes]
)
def test_an_exception_that_takes_no_note_was_replaced(make: Callable[[], BaseException], kind: str) -> None:
    error = make()
    with MemoryClient() as client:
        held = client.lock("a") if kind == "lock" else client.lease("a")
        with pytest.raises(type(error)) as caught:
            with held:
                client.lose("a")
                raise error
    assert caught.value is error
