"""``on_lost`` callbacks that outlive the interpreter, fork, or move the time of their test."""

from __future__ import annotations

import threading
import time

import pytest
import redlatch
from harness import Server, eventually, run_program
from redlatch.testing import MemoryClient

# From 3.12 on, a fork of a process with threads is warned of by Python; where it is meant, the warning is turned off.
QUIET = ("-W", "ignore::DeprecationWarning")


@pytest.mark.parametrize("how", ["sleeps", "runs"])
def test_a_callback_that_outlived_the_interpreter_aborted_the_process(how: str) -> None:
    assert run_program("ends_before_its_callback", how) == ["ended"]


@pytest.mark.parametrize("how", ["returns", "locks"])
def test_a_child_that_was_forked_in_a_callback_went_on_with_the_callbacks_of_its_parent(
    server: Server, prefix: str, how: str
) -> None:
    assert run_program("forks_in_a_callback", server.url, prefix, how, options=QUIET) == ["the child ended"]


def test_a_callback_that_advanced_the_time_waited_for_itself() -> None:
    took: list[float] = []
    with MemoryClient() as client:
        other = client.lock("other", ttl=30)

        def lost(info: redlatch.LostInfo) -> None:
            begin = time.monotonic()
            client.advance(0.1)
            took.append(time.monotonic() - begin)

        other.acquire()
        client.lock("a", on_lost=lost).acquire()
        client.lose("a")
        assert eventually(lambda: took)
        other.check()
    # The wait for callbacks is given up after 2 s.
    assert took[0] < 1


def test_a_callback_that_advances_the_time_sees_other_leases_lapse() -> None:
    seen: list[redlatch.LostReason | None] = []
    done = threading.Event()
    with MemoryClient() as client:
        lapses = client.lease("lapses", ttl=5, auto_renew=False)

        def lost(info: redlatch.LostInfo) -> None:
            client.advance(6)
            seen.append(lapses.lost)
            done.set()

        lapses.acquire()
        client.lock("a", on_lost=lost).acquire()
        client.lose("a")
        assert done.wait(10)
        assert seen == [redlatch.LostReason.EXPIRED]
