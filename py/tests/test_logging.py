"""What redlatch says by ``logging``."""

from __future__ import annotations

import logging
import sys
import threading

import pytest
import redlatch
from harness import MakeClient, Server, eventually, run_program


def _lose(client: redlatch.Client, server: Server, prefix: str, name: str = "a") -> None:
    lock = client.lock(name, ttl=0.3)
    lock.acquire()
    server.call("DEL", f"{prefix}{name}")
    assert eventually(lambda: lock.lost)
    with pytest.raises(redlatch.LostError):
        lock.release()


def test_a_loss_is_an_error_below_the_logger_redlatch(
    client: redlatch.Client, server: Server, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        _lose(client, server, prefix, "the-lock")
        assert eventually(lambda: caplog.records)
    records = [record for record in caplog.records if record.name.split(".")[0] == "redlatch"]
    assert records == caplog.records
    lost = [record for record in records if record.levelno == logging.ERROR]
    assert len(lost) == 1, caplog.text
    text = lost[0].getMessage()
    assert "the-lock" in text and "taken" in text
    # Background threads found it, not the caller.
    assert lost[0].thread != threading.main_thread().ident


def _settle(client: redlatch.Client, server: Server, prefix: str) -> None:
    """Returns when what has been said so far has been logged: callbacks stand in the same queue."""
    fired: list[redlatch.LostInfo] = []
    client.lock("last", ttl=0.3, on_lost=fired.append).acquire()
    server.call("DEL", f"{prefix}last")
    assert eventually(lambda: fired)
    with pytest.raises(redlatch.LostError):
        client.lock("last").release()


def test_a_level_of_the_logger_is_obeyed(
    client: redlatch.Client, server: Server, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL, "redlatch"):
        _lose(client, server, prefix, "first")
        _settle(client, server, prefix)
    with caplog.at_level(logging.ERROR, "redlatch"):
        _lose(client, server, prefix, "second")
        assert eventually(lambda: "second" in caplog.text)
        # One that is below the level.
        client.lock("third").acquire()
        assert client.force_release("third")
        _settle(client, server, prefix)
    assert "first" not in caplog.text and "third" not in caplog.text


def test_a_level_that_is_set_later_counts(
    client: redlatch.Client, server: Server, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    for number, level in enumerate((logging.CRITICAL, logging.WARNING, logging.CRITICAL, logging.INFO)):
        with caplog.at_level(level, "redlatch"):
            # By this thread, which keeps it: a lease that is collected would be released.
            client.lock(f"forced-{number}").acquire()
            assert client.force_release(f"forced-{number}")
            _settle(client, server, prefix)
    assert [number for number in range(4) if f"forced-{number}" in caplog.text] == [1, 3]


def test_a_handler_that_fails_did_harm(
    client: redlatch.Client, server: Server, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda failure: reported.append(failure.exc_value))

    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ZeroDivisionError("of the handler")

    handler = Failing()
    logging.getLogger("redlatch").addHandler(handler)
    try:
        _lose(client, server, prefix)
        with client.lock("b", ttl=0.3):
            _lose(client, server, prefix)
        assert eventually(lambda: len(reported) >= 2)
        assert all(isinstance(failure, ZeroDivisionError) for failure in reported)
    finally:
        logging.getLogger("redlatch").removeHandler(handler)


def test_a_handler_that_fails_made_calls_fail(
    own_server: Server, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Records of a call are written at its end, by the thread that called.
    client = make_client(own_server.url, io_timeout=0.3)
    reported: list[BaseException | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda failure: reported.append(failure.exc_value))
    caller = threading.get_ident()
    failed: list[str] = []

    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if threading.get_ident() == caller:
                failed.append(record.getMessage())
                raise ZeroDivisionError("of the handler")

    handler = Failing()
    logging.getLogger("redlatch").addHandler(handler)
    try:
        lock = client.lock("a", ttl=20)
        lock.acquire()
        own_server.pause()
        # Not confirmed: a warning.
        lock.release()
        assert lock.hold_count == 0 and len(failed) == 1
        own_server.resume()
        assert eventually(lambda: not lock.locked())
        with client.lock("b", ttl=20):
            own_server.pause()
        assert len(failed) == 2
        own_server.resume()
        assert eventually(lambda: not client.lock("b").locked())
        client.lock("c").acquire()
        # Another warning.
        assert client.force_release("c") and len(failed) == 3
        assert len(reported) >= 3 and all(isinstance(failure, ZeroDivisionError) for failure in reported)
    finally:
        own_server.resume()
        logging.getLogger("redlatch").removeHandler(handler)


def test_a_handler_that_uses_redlatch_did_not_end(client: redlatch.Client, server: Server, prefix: str) -> None:
    seen: list[str] = []

    class Locking(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            with client.lock("of the handler"):
                seen.append(record.getMessage())

    handler = Locking()
    logging.getLogger("redlatch").addHandler(handler)
    try:
        _lose(client, server, prefix)
        assert eventually(lambda: seen)
    finally:
        logging.getLogger("redlatch").removeHandler(handler)


def test_tokens_were_logged(
    client: redlatch.Client, server: Server, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    tokens: list[str] = []
    with caplog.at_level(1):
        for name in ("a", "b"):
            lock = client.lock(name, ttl=0.3)
            lock.acquire()
            tokens.append(lock.token.split("@")[0])
            server.call("DEL", f"{prefix}{name}")
            assert eventually(lambda: lock.lost)  # noqa: B023
            with pytest.raises(redlatch.LostError):
                lock.release()
        assert eventually(lambda: caplog.records)
    assert not [token for token in tokens if token in caplog.text]


def test_logging_was_first_imported_by_a_background_thread() -> None:
    # While the main thread forks, that runs the fork hooks of logging by half: "cannot release un-acquired lock" in the
    # parent, and a child in which the module is never finished.
    assert run_program("imports") == ["logging", "threading"]
