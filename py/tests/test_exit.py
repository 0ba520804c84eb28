"""The end of the interpreter, and the threads that a client has until then."""

from __future__ import annotations

import time

import pytest
from harness import Server, eventually, run_program, start_program


@pytest.mark.parametrize(
    "state",
    ["nothing", "held", "waiting", "callback", "queued", "logging", "closed", "cycle", "thread", "error", "leased"],
)
def test_an_interpreter_that_ended_crashed_or_complained(server: Server, prefix: str, state: str) -> None:
    begin = time.monotonic()
    with start_program("exits", server.url, prefix, state, options=("-W", "error", "-X", "dev")) as program:
        program.expect("ends")
        code = program.finish(30)
        errors = [line for line in program.errors.splitlines() if "MeantError" not in line]
        if state == "error":
            errors = [line for line in errors if not line.startswith((" ", "Traceback"))]
    assert code == (1 if state == "error" else 0) and errors == []
    assert time.monotonic() - begin < 15


@pytest.mark.parametrize("state", ["held", "waiting", "leased"])
def test_an_interpreter_that_ended_waited_for_a_server_that_is_away(
    own_server: Server, prefix: str, state: str
) -> None:
    with start_program("exits", own_server.url, prefix, state, "pause", options=("-W", "error")) as program:
        program.expect("pause")
        own_server.pause()
        begin = time.monotonic()
        program.write("paused")
        program.expect("ends")
        assert program.finish(30) == 0
        assert time.monotonic() - begin < 10
        assert program.errors == ""
    own_server.resume()


def test_a_process_that_was_killed_kept_its_lock_for_longer_than_its_ttl(server: Server, prefix: str) -> None:
    with start_program("exits", server.url, prefix, "held", "pause") as program:
        program.expect("pause")
        assert server.call("EXISTS", f"{prefix}held") == 1
        program.kill()
    assert eventually(lambda: server.call("EXISTS", f"{prefix}held") == 0, 3)


def test_a_thousand_held_locks_had_a_thread_each(server: Server, prefix: str) -> None:
    assert run_program("thousand_locks", server.url, prefix) == ["at most 6 threads"]


def test_clients_that_came_and_went_left_something_behind(server: Server, prefix: str) -> None:
    connections = server.call("INFO", "clients")
    environment = {"MALLOC_ARENA_MAX": "1"}
    assert run_program("opens_and_closes", server.url, prefix, env=environment) == ["nothing is left"]
    assert eventually(lambda: connected(server.call("INFO", "clients")) <= connected(connections), 20)


def connected(info: object) -> int:
    """How many clients a server has, by its own account."""
    text = info.decode() if isinstance(info, bytes) else str(info)
    return int(text.split("connected_clients:")[1].split()[0])


def test_close_left_threads_running(server: Server, prefix: str) -> None:
    assert run_program("closes", server.url, prefix) == ["no thread is left"]
