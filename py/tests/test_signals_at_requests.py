"""Signals that come while a request is on its way: whose handler raises, whose handler returns, again and again."""

from __future__ import annotations

import signal

import pytest
import redlatch
from harness import Proxy, Server, eventually, needs_framework, run_program, start_program


@pytest.mark.parametrize("how", ["asyncio", "gevent"])
def test_a_grant_was_given_back_under_another_holder(
    server: Server, proxy: Proxy, prefix: str, other: redlatch.Client, how: str
) -> None:
    if how == "gevent":
        needs_framework("gevent")
    server.call("SET", f"{prefix}a", "someone", "PX", 60_000)
    with start_program("interrupted_at_its_grant", proxy.url, prefix, how) as program:
        program.expect("waiting")
        assert eventually(lambda: (info := other.inspect("a")) is not None and info.waiters == 1)
        proxy.delay(1)
        server.call("DEL", f"{prefix}a")
        # Granted by the server, and not yet known to the program: that takes a second.
        assert eventually(lambda: server.call("EXISTS", f"{prefix}a") == 1)
        program.signal(signal.SIGUSR1)
        program.expect("interrupted")
        proxy.restore()
        assert eventually(lambda: server.call("EXISTS", f"{prefix}a") == 0)


@pytest.mark.parametrize("connection", ["fresh", "used"])
@pytest.mark.parametrize(
    "request_of",
    [
        "locked", "lease.locked", "inspect", "force_release", "acquire", "lease.acquire", "renew", "lease.renew",
        "release", "lease.release", "into_token", "adopt",
    ],
)  # fmt: skip
def test_one_signal_whose_handler_returns_failed_a_request(
    server: Server, prefix: str, request_of: str, connection: str
) -> None:
    assert run_program("signalled_once", server.port, prefix, request_of, connection) == ["handled once, succeeded"]


@pytest.mark.parametrize("requests", ["lock", "lease"])
def test_a_timer_whose_period_is_shorter_than_an_answer_starved_requests(
    server: Server, prefix: str, requests: str
) -> None:
    assert run_program("runs_under_a_timer", server.port, prefix, requests) == ["succeeded"]


def test_close_waited_for_the_wait_that_its_signal_had_interrupted(server: Server, prefix: str) -> None:
    assert run_program("closes_in_a_handler", server.url, prefix) == ["closed at once"]
