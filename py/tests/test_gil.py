"""Renewal needs no Python thread to run."""

from __future__ import annotations

import threading
import time

import redlatch
from harness import Server, run_program


def test_one_call_that_kept_the_gil_lost_the_lock(server: Server, prefix: str) -> None:
    assert run_program("keeps_gil", server.url, prefix) == ["held without a loss"]


def test_a_thread_that_waits_kept_the_interpreter(client: redlatch.Client, other: redlatch.Client) -> None:
    holder = other.lease("a")
    holder.acquire()
    outcomes: list[bool] = []
    waiting = threading.Thread(target=lambda: outcomes.append(client.lock("a").acquire(timeout=1)))
    begin = time.monotonic()
    waiting.start()
    ticks = 0
    while waiting.is_alive():
        time.sleep(0.01)
        ticks += 1
    assert outcomes == [False] and time.monotonic() - begin >= 1
    # One in ten would do: it would be one or two if the wait kept the interpreter.
    assert ticks > 10
    holder.release()
