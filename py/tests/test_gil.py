"""Renewal needs no Python thread to run."""

from __future__ import annotations

from harness import Server, run_program


def test_one_call_that_kept_the_gil_lost_the_lock(server: Server, prefix: str) -> None:
    # Fault 8.
    assert run_program("keeps_gil", server.url, prefix) == ["held without a loss"]
