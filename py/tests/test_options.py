"""Values that are refused, and what the error says."""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Any

import pytest
import redlatch
from harness import MakeClient, Server

NOT_SPANS: list[Any] = ["5", True, False, None, b"5", [5], 5j]
OUT_OF_BOUNDS: list[Any] = [
    0, -1, 0.0005, 0.0999, 2**63, 2**64, 10**400, -(2**63), 1e300, float("nan"), float("inf"), float("-inf"),
    timedelta(0), timedelta(seconds=-5), timedelta(days=2), timedelta.max,
]  # fmt: skip


@pytest.mark.parametrize("ttl", OUT_OF_BOUNDS + NOT_SPANS, ids=repr)
def test_a_ttl_that_is_none_made_a_key_without_ttl(
    client: redlatch.Client, server: Server, prefix: str, ttl: Any
) -> None:
    wanted = redlatch.ConfigError if ttl in OUT_OF_BOUNDS and not isinstance(ttl, bool) else (TypeError, ValueError)
    for make in (client.lock, client.lease, lambda name, ttl: client.adopt(name, "a@b:1", ttl=ttl)):
        with pytest.raises(wanted) as caught:
            make("a", ttl=ttl)
        for word in ("ttl", "100ms", "86400s"):
            assert word in str(caught.value), str(caught.value)
    assert server.keys(f"{prefix}*") == []


@pytest.mark.parametrize("ttl", [0.1, 1, 1.5, timedelta(seconds=2), 86_400, timedelta(days=1)], ids=repr)
def test_the_key_has_the_ttl_that_was_asked_for(
    client: redlatch.Client, server: Server, prefix: str, ttl: float | timedelta
) -> None:
    seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    with client.lock("a", ttl=ttl):
        left = server.call("PTTL", f"{prefix}a")
    assert 0 < left <= seconds * 1000
    assert left > seconds * 1000 - 1000


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_hold", 1), ("max_hold", "5"), ("max_hold", True),
        ("wait", -1), ("wait", "5"), ("wait", True), ("wait", float("nan")),
        ("on_lost", 5), ("auto_renew", "yes"),
    ],
)  # fmt: skip
def test_a_refused_option_of_a_lock_is_named(client: redlatch.Client, option: str, value: Any) -> None:
    with pytest.raises((redlatch.ConfigError, TypeError)) as caught:
        client.lock("a", ttl=10, **{option: value})
    assert option in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value", "bounds"),
    [
        ("pool_size", 0, ("1", "1024")), ("pool_size", 1025, ("1", "1024")), ("pool_size", -1, ("1", "1024")),
        ("pool_size", 2**70, ("1", "1024")), ("renewal_threads", 0, ("1", "64")), ("renewal_threads", 65, ("1", "64")),
        ("connect_timeout", 0, ("10ms", "60s")), ("io_timeout", float("nan"), ("10ms", "60s")),
        ("io_timeout", timedelta(minutes=2), ("10ms", "60s")), ("turn", 0.1, ("500ms", "10s")),
        ("unavailable_after", -1, ("100ms", "86400s")), ("fence_retention", 0.5, ("1s", "2592000s")),
        ("label", "", ("1", "64")), ("label", "a b", ("64",)), ("key_prefix", "x" * 257, ("256",)),
    ],
)  # fmt: skip
def test_a_refused_option_of_a_client_is_named_with_its_bounds(
    option: str, value: Any, bounds: tuple[str, ...]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(redlatch.ConfigError) as caught:
            redlatch.Client(f"redis://127.0.0.1:{listener.getsockname()[1]}", **{option: value})
        for word in (option, *bounds):
            assert word in str(caught.value), str(caught.value)
        # Nobody connected.
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize("option", ["pool_size", "renewal_threads", "io_timeout", "label", "key_prefix"])
@pytest.mark.parametrize("value", [b"5", [], True], ids=repr)
def test_an_option_of_another_type_is_named(option: str, value: Any) -> None:
    with pytest.raises((TypeError, redlatch.ConfigError), match=option):
        redlatch.Client("memory://", **{option: value})


def test_a_timeout_for_a_call_that_does_not_wait_says_what_to_write(client: redlatch.Client) -> None:
    for lock in (client.lock("a"), client.lease("a")):
        with pytest.raises(redlatch.ConfigError) as caught:
            lock.acquire(blocking=False, timeout=3)
        text = "timeout = 3s is refused: leave it out with blocking=False, which does not wait"
        assert str(caught.value) == text


def test_options_stand_behind_their_names(client: redlatch.Client) -> None:
    with pytest.raises(TypeError):
        client.lock("a", 5)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        redlatch.Client("memory://", "prefix:")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        client.lock("a", expire=5)  # type: ignore[call-arg]


@pytest.mark.parametrize("url", ["", "redis", "http://127.0.0.1", "redis://:secret-word@127.0.0.1:99999", 5, None])
def test_a_refused_url_was_shown_with_its_password(url: Any) -> None:
    with pytest.raises((redlatch.ConfigError, TypeError)) as caught:
        redlatch.Client(url)
    assert "url" in str(caught.value).lower()
    assert "secret-word" not in str(caught.value)


def test_max_hold_ended_no_lease(make_client: MakeClient, server: Server) -> None:
    # With the units of Python.
    client = make_client(server.url)
    lost: list[redlatch.LostInfo] = []
    lock = client.lock("a", ttl=0.3, max_hold=timedelta(seconds=0.6), on_lost=lost.append)
    lock.acquire()
    with pytest.raises(redlatch.LostError) as caught:
        while True:
            lock.check()
    assert caught.value.reason is redlatch.LostReason.MAX_HOLD
    with pytest.raises(redlatch.LostError):
        lock.release()
