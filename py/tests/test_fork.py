"""Forked children hold nothing of their parents' locks."""

from __future__ import annotations

import sys

import pytest
from harness import Server, run_program

# From 3.12 on, a fork of a process with threads is warned of by Python; where it is meant, the warning is turned off.
QUIET = ("-W", "ignore::DeprecationWarning")


@pytest.mark.parametrize("how", ["release", "drop", "exit", "close", "collect", "thread", "nested"])
def test_a_child_took_the_lock_of_its_parent_along(server: Server, prefix: str, how: str) -> None:
    assert run_program("fork_while_holding", server.url, prefix, how, options=QUIET) == ["the parent still has it"]


@pytest.mark.timeout(300)
def test_forks_of_a_busy_process_hung_or_lost_its_leases(server: Server, prefix: str) -> None:
    lines = run_program("fork_under_load", server.url, prefix, 1000, options=QUIET, within=280)
    assert lines == ["1000 children acquired"]


def test_a_client_in_use_is_shared_with_forked_children(server: Server, prefix: str) -> None:
    assert run_program("fork_in_use", server.url, prefix, options=QUIET) == ["400"]


def test_a_client_started_threads_before_its_first_lock(server: Server, prefix: str) -> None:
    # With errors for warnings: Python 3.12 warns of a fork while another thread runs.
    assert run_program("fork_before_the_first_lock", server.url, prefix, options=("-W", "error")) == ["one thread"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_shares_a_lock(server: Server, prefix: str, method: str) -> None:
    options = QUIET if sys.version_info >= (3, 12) and method == "fork" else ()
    assert run_program("multiprocesses", server.url, prefix, method, options=options) == ["100"]
