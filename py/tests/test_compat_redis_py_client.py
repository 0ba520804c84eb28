"""``redlatch.compat.redis_py``: the client of a lock, from a URL or a ``redis.Redis``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redlatch
from harness import eventually, needs_framework
from redlatch import ConfigError, RedlatchError
from redlatch.compat import _redis_client
from redlatch.compat.redis_py import Lock, LockError

needs_framework("redis")
import redis  # noqa: E402


@pytest.fixture
def memory() -> Iterator[redlatch.Client]:
    with redlatch.Client("memory://", key_prefix="") as client:
        yield client


def test_locks_of_one_server_share_one_client(server: Any) -> None:
    one, two = Lock(server.url, "a"), Lock(server.url, "b")
    assert one._client is two._client
    pools = [redis.Redis(host="127.0.0.1", port=server.port) for _ in range(2)]
    assert Lock(pools[0], "a")._client is Lock(pools[1], "b")._client
    for pool in pools:
        pool.close()


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ({}, "redis://localhost:6379/0"),
        ({"host": "::1", "port": 7000, "db": 3}, "redis://[::1]:7000/3"),
        ({"password": "p@ss:w/?#%ö"}, "redis://:p%40ss%3Aw%2F%3F%23%25%C3%B6@localhost:6379/0"),
        ({"username": "me", "password": "x y"}, "redis://me:x%20y@localhost:6379/0"),
        ({"username": "me"}, "redis://me:@localhost:6379/0"),
        ({"unix_socket_path": "/run/a b.sock", "db": 2}, "unix:///run/a%20b.sock?db=2"),
        (
            {"unix_socket_path": "/r.sock", "username": "me", "password": "a&b=c"},
            "unix:///r.sock?db=0&user=me&pass=a%26b%3Dc",
        ),
        ({"ssl": True, "host": "h"}, "rediss://h:6379/0"),
    ],
)
def test_address_and_login_of_a_redis_client_are_used(options: dict[str, Any], url: str) -> None:
    client = redis.Redis(**options)
    assert _redis_client.endpoint_of(client).url == url
    client.close()


def test_tls_files_of_a_redis_client_are_used() -> None:
    client = redis.Redis(ssl=True, ssl_ca_certs="ca.pem", ssl_certfile="cert.pem", ssl_keyfile="key.pem")
    endpoint = _redis_client.endpoint_of(client)
    assert (endpoint.tls_ca, endpoint.tls_cert, endpoint.tls_key) == ("ca.pem", "cert.pem", "key.pem")
    client.close()


def test_a_password_does_not_show() -> None:
    client = redis.Redis(password="s3cret")
    endpoint = _redis_client.endpoint_of(client)
    lock = Lock(client, "order")
    assert "s3cret" not in repr(endpoint) + repr(lock) + repr(lock._client)
    client.close()


def test_a_server_with_a_password_and_a_unix_socket_is_reached(tmp_path: Path) -> None:
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("redis-server is not on PATH")
    path, password = tmp_path / "a b.sock", "p@ss:w/?#%ö&="
    command = [binary, "--port", "0", "--unixsocket", str(path), "--requirepass", password, "--save", ""]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        client = redis.Redis(unix_socket_path=str(path), password=password, db=3)
        assert eventually(path.exists, 30)
        with Lock(client, "order", timeout=10):
            assert client.get("order") is not None
        client.close()
    finally:
        process.terminate()
        process.wait(30)


class Fake(redis.connection.Connection):
    """As a fake server's: it does not connect to the host in its options."""


def test_a_client_whose_server_cannot_be_told_is_refused() -> None:
    fake = redis.Redis(connection_pool=redis.ConnectionPool(connection_class=Fake))
    with pytest.raises(ConfigError, match=r"Fake: their server cannot be told; give a URL"):
        Lock(fake, "order")
    from redis.sentinel import Sentinel

    make: Any = Sentinel
    sentinel = make([("127.0.0.1", 1)]).master_for("primary")
    with pytest.raises(ConfigError, match="SentinelManagedConnection: their server cannot be told"):
        Lock(sentinel, "order")


@pytest.mark.parametrize(
    "options",
    [
        {"credential_provider": redis.UsernamePasswordCredentialProvider("me", "x")},
        {"ssl": True, "ssl_cert_reqs": "none"},
        {"ssl": True, "ssl_ca_data": "PEM"},
        {"ssl": True, "ssl_ca_path": "/certs"},
        {"ssl": True, "ssl_password": "x"},
    ],
)
def test_options_that_cannot_be_followed_are_refused(options: dict[str, Any]) -> None:
    client = redis.Redis(**options)
    with pytest.raises(ConfigError, match=f"redis = a client with {list(options)[-1]}"):
        Lock(client, "order")
    client.close()


def test_what_is_no_client_is_a_type_error() -> None:
    import redis.asyncio

    for source in (None, 3, object()):
        with pytest.raises(TypeError, match=r"a URL, a redis\.Redis or a redlatch\.Client is needed"):
            Lock(source, "order")
    with pytest.raises(TypeError, match="a client for asyncio: this lock blocks"):
        Lock(redis.asyncio.Redis(), "order")


def test_it_works_where_redis_py_is_not_installed() -> None:
    code = (
        "import sys; sys.modules['redis'] = None\n"
        "from redlatch import RedlatchError\n"
        "from redlatch.compat.redis_py import Lock, LockError\n"
        "lock = Lock('memory://', 'order')\n"
        "with lock: assert lock.owned()\n"
        "try: lock.release()\n"
        "except RedlatchError as error: assert isinstance(error, LockError)\n"
        "else: raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
