"""Signals while the main thread acquires, holds and releases. Each program is interrupted for real."""

from __future__ import annotations

import dis
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redlatch
from harness import Program, Proxy, Server, eventually, run_program, start_program


def _clean(server: Server, prefix: str) -> bool:
    left = [key for key in server.keys(f"*{prefix}*") if key.rsplit(":", 1)[-1] in ("queue", "waiters", "turn")]
    return not left and server.call("EXISTS", f"{prefix}a") == 0


@pytest.fixture
def contender(server: Server, prefix: str) -> Iterator[Program]:
    """A process that takes the lock again and again; its last line is its longest wait."""
    with start_program("contender", server.url, prefix) as program:
        program.expect("running")
        yield program


@pytest.mark.timeout(300)
def test_with_cycles_that_were_interrupted_left_the_lock_or_a_waiter(
    server: Server, prefix: str, contender: Program
) -> None:
    # The ttl of 60 s hides nothing: a lock that stays would be seen by everyone for a minute.
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(run_program, "interrupted_cycles", server.url, prefix, 1000, within=280) for _ in range(3)]
        counts = [list(map(int, run.result()[-1].split())) for run in runs]
    # The moments were spread over the whole cycle, or this would show little.
    assert all(sum(count) == 1000 and min(count) > 100 for count in counts), counts
    contender.write("stop")
    assert float(contender.read()) < 5
    assert eventually(lambda: _clean(server, prefix)), server.keys(f"*{prefix}*")


@pytest.mark.parametrize("how", ["acquire", "with", "timeout", "lease"])
def test_a_waiting_main_thread_was_deaf_to_sigint(
    client: redlatch.Client, server: Server, prefix: str, how: str
) -> None:
    holder = client.lease("a")
    holder.acquire()
    with start_program("waits_for_sigint", server.url, prefix, how) as program:
        program.expect("connected")
        for _ in range(5):
            program.write("wait")
            program.expect("waiting")
            assert eventually(lambda: (info := client.inspect("a")) is not None and info.waiters == 1)
            sent = time.monotonic()
            program.signal(signal.SIGINT)
            assert float(program.read()) - sent < 0.2
            assert eventually(lambda: (info := client.inspect("a")) is not None and info.waiters == 0)
    holder.release()


def test_a_black_hole_made_the_main_thread_deaf_to_sigint(server: Server, proxy: Proxy, prefix: str) -> None:
    with start_program("waits_for_sigint", proxy.url, prefix, "acquire") as program:
        program.expect("connected")
        proxy.black_hole()
        for _ in range(5):
            program.write("wait")
            program.expect("waiting")
            time.sleep(0.1)  # Any moment of the wait will do.
            sent = time.monotonic()
            program.signal(signal.SIGINT)
            assert float(program.read()) - sent < 0.2
        proxy.restore()
        # What was given up is undone, also the requests that arrive now.
        assert eventually(lambda: _clean(server, prefix), 15), server.keys(f"*{prefix}*")


def test_a_lock_that_was_granted_at_the_moment_of_the_signal_stayed_locked(server: Server, prefix: str) -> None:
    lines = run_program("granted_at_the_signal", server.url, prefix, 200, within=100)
    assert lines[-1] == "200 times free"


def test_a_handler_that_does_not_raise_ended_the_wait(client: redlatch.Client, server: Server, prefix: str) -> None:
    holder = client.lease("a")
    holder.acquire()
    with start_program("handles_signals", server.url, prefix) as program:
        program.expect("waiting")
        for number in range(1, 6):
            program.signal(signal.SIGUSR1)
            program.expect(f"handled {number}")
        holder.release()
        program.expect("acquired")
        assert program.finish() == 0


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the entry is a call there, after which signals are handled")
def test_the_entry_of_a_with_block_became_a_call() -> None:
    # Up to 3.13 one instruction enters: no signal is handled between it and the first instruction of the block.
    def enter(lock: redlatch.Lock) -> None:
        with lock:
            enter(lock)

    steps = [each.opname for each in dis.get_instructions(enter)]
    entry = steps.index("BEFORE_WITH" if "BEFORE_WITH" in steps else "SETUP_WITH")
    assert steps[entry + 1] == "POP_TOP" and not [step for step in steps[:entry] if "CALL" in step]
