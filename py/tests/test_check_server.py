"""``check_server``: what is found becomes values of Python, and nothing else."""

from __future__ import annotations

import dataclasses
import socket
import threading
import time

import pytest
import redlatch
from harness import MakeClient, Server
from redlatch import Finding, Severity
from redlatch.testing import MemoryClient


def test_what_is_found_on_a_server_becomes_findings(own_server: Server, make_client: MakeClient) -> None:
    client = make_client(own_server.url)
    own_server.call("CONFIG", "SET", "maxmemory", "200mb")
    own_server.call("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
    found = client.check_server()
    told = [(it.severity, it.kind) for it in found if it.kind != "round_trip"]
    assert told == [(Severity.PROBLEM, "eviction"), (Severity.WARNING, "no_persistence")]
    assert len(found) == 3, "and how long a request takes"
    assert {it.server for it in found} == {own_server.url}
    assert "volatile-ttl" in found[0].message
    own_server.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert not [it for it in client.check_server() if it.severity is Severity.PROBLEM]


def test_a_finding_is_a_value_that_shows_as_one_line() -> None:
    finding = Finding(Severity.WARNING, "clock", "redis://h:1/0", "its clock is wrong")
    assert str(finding) == "warning clock at redis://h:1/0: its clock is wrong"
    assert finding.severity == "warning" and f"{finding.severity}" == "warning"
    assert finding == dataclasses.replace(finding) and hash(finding) == hash(dataclasses.replace(finding))
    with pytest.raises(dataclasses.FrozenInstanceError):
        finding.kind = "other"  # type: ignore[misc]


def test_a_warning_counted_as_worse_than_a_problem() -> None:
    assert max(Severity.INFO, Severity.PROBLEM, Severity.WARNING) is Severity.PROBLEM
    assert sorted(Severity) == [Severity.INFO, Severity.WARNING, Severity.PROBLEM]
    assert Severity.WARNING >= "warning" > Severity.INFO and not Severity.WARNING > "warning"
    assert Severity.PROBLEM > "warning" and Severity.INFO < Severity.WARNING <= Severity.PROBLEM
    with pytest.raises(ValueError, match="'dreadful' is not a valid Severity"):
        assert Severity.INFO < "dreadful"


def test_a_client_for_tests_answers_too() -> None:
    with MemoryClient() as client:
        (finding,) = client.check_server()
        assert (finding.severity, finding.kind, finding.server) == (Severity.INFO, "memory", "memory://")


def test_nobody_to_ask_is_an_exception_about_no_lock(make_client: MakeClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as refused:
        port = refused.getsockname()[1]
    client = make_client(f"redis://127.0.0.1:{port}", connect_timeout=0.5, io_timeout=0.5)
    with pytest.raises(redlatch.UnavailableError, match="cannot check the server") as raised:
        client.check_server()
    assert raised.value.name is None
    client.close()
    with pytest.raises(redlatch.ClosedError, match="the client is closed"):
        client.check_server()


def test_a_wrong_password_is_told_as_such(own_server: Server, make_client: MakeClient) -> None:
    own_server.call("ACL", "SETUSER", "it", "on", ">right", "+@all", "~*", "&*")
    url = own_server.url.replace("://", "://it:wrong@")
    with pytest.raises(redlatch.AuthenticationError) as raised:
        make_client(url).check_server()
    assert "wrong@" not in str(raised.value)


def test_a_check_that_waits_keeps_no_other_thread_from_running(make_client: MakeClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = make_client(f"redis://127.0.0.1:{silent.getsockname()[1]}", connect_timeout=1, io_timeout=1)
        raised: list[BaseException] = []

        def check() -> None:
            try:
                client.check_server()
            except redlatch.UnavailableError as error:
                raised.append(error)

        thread = threading.Thread(target=check)
        thread.start()
        ticks = 0
        while thread.is_alive():
            ticks += 1
            time.sleep(0.01)
        thread.join()
        assert raised and ticks > 10, "it waits for a second, without the GIL"
