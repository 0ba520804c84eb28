"""Fixtures: servers, clients with a prefix of their own, a proxy."""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redlatch
from harness import MakeClient, Proxy, Server, installed_kinds, needs_framework

_number = itertools.count()


def pytest_configure() -> None:
    # The tree is not on the path: what is tested is what users install.
    origin = Path(redlatch.__file__)
    assert origin.is_relative_to(sysconfig.get_path("platlib")), f"redlatch comes from {origin}, not from the wheel"
    # What a shell runs in the background ignores SIGINT, and the programs of the tests would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server that all tests of a process share; tests that stop a server take ``own_server``."""
    if not installed_kinds():
        pytest.skip("no server is installed")
    server = Server(installed_kinds()[0])
    yield server
    server.stop()


@pytest.fixture(scope="session", params=range(3), ids=("redis-7.0", "valkey-9.1", "redis-6.2"))
def each_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Each kind of server in turn."""
    name = ("redis-7.0", "valkey-9.1", "redis-6.2")[request.param]
    kinds = [kind for kind in installed_kinds() if kind.name == name]
    if not kinds:
        pytest.skip(f"{name} is not installed")
    server = Server(kinds[0])
    yield server
    server.stop()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server for one test, which may stop it."""
    if not installed_kinds():
        pytest.skip("no server is installed")
    server = Server(installed_kinds()[0])
    yield server
    server.stop()


@pytest.fixture
def theirs(server: Server) -> Iterator[Any]:
    """A client of redis-py."""
    needs_framework("redis")
    client = importlib.import_module("redis").Redis.from_url(server.url)
    yield client
    client.close()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    proxy = Proxy(server.port)
    yield proxy
    proxy.stop()


@pytest.fixture
def prefix() -> str:
    """A ``key_prefix`` that no other test uses."""
    return f"t{os.getpid()}-{next(_number)}:"


@pytest.fixture
def make_client(prefix: str) -> Iterator[MakeClient]:
    """Makes clients with the test's prefix, and closes them at its end."""
    clients: list[redlatch.Client] = []

    def make(url: str, **options: Any) -> redlatch.Client:
        clients.append(redlatch.Client(url, **{"key_prefix": prefix, **options}))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(server: Server, make_client: MakeClient) -> redlatch.Client:
    return make_client(server.url)


@pytest.fixture
def other(server: Server, make_client: MakeClient) -> redlatch.Client:
    """Another client of the same locks, as another process would have it."""
    return make_client(server.url)
