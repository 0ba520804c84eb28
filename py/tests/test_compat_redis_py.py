"""``redlatch.compat.redis_py``: what callers of redis-py's ``Lock`` rely on, and what they are told instead."""

from __future__ import annotations

import gc
import inspect
import logging
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redlatch
from redlatch import ConfigError, LostError, RedlatchError
from redlatch.compat import _redis_client, redis_py
from redlatch.compat.redis_py import Lock, LockError, LockNotOwnedError
from redlatch.testing import MemoryClient

pytest.importorskip("redis")
import redis
import redis.lock
from redis.exceptions import RedisError

METHODS = ("acquire", "release", "do_release", "extend", "reacquire", "locked", "owned", "__enter__", "__exit__")


@pytest.fixture
def memory() -> Iterator[redlatch.Client]:
    with redlatch.Client("memory://", key_prefix="") as client:
        yield client


@pytest.fixture
def theirs(server: Any) -> Iterator[Any]:
    """A redis-py client."""
    client = redis.Redis.from_url(server.url)
    yield client
    client.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"compat:{request.node.name}"


def in_thread(call: Callable[[], Any]) -> Any:
    """What ``call`` returns or raises in another thread."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(call())
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    return results[0]


# The shape


def test_arguments_and_their_defaults_are_redis_pys() -> None:
    def shape(function: Any) -> list[tuple[str, Any]]:
        return [(parameter.name, parameter.default) for parameter in inspect.signature(function).parameters.values()]

    assert shape(Lock) == shape(redis.lock.Lock)
    for method in METHODS:
        if method != "__exit__":
            assert shape(getattr(Lock, method)) == shape(getattr(redis.lock.Lock, method)), method


def test_attributes_are_redis_pys(memory: redlatch.Client) -> None:
    lock = Lock(memory, "order", timeout=10, sleep=0.3, blocking=False, blocking_timeout=2, thread_local=False)
    assert (lock.redis, lock.name, lock.timeout, lock.sleep) == (memory, "order", 10, 0.3)
    assert (lock.blocking, lock.blocking_timeout, lock.thread_local) == (False, 2, False)
    assert Lock(memory, b"order").name == "order"


def test_redis_pys_own_factory_makes_it(theirs: Any, name: str) -> None:
    lock = theirs.lock(name, timeout=10, blocking_timeout=1, lock_class=Lock)
    assert isinstance(lock, Lock)
    with lock:
        assert theirs.get(name) is not None, "not the key that redis-py would use"
        assert lock.owned()
    assert theirs.get(name) is None


# Against the real one


def test_each_excludes_the_other_on_one_key(theirs: Any, name: str) -> None:
    ours, real = Lock(theirs, name, timeout=10), redis.lock.Lock(theirs, name, timeout=10)
    with ours:
        assert real.acquire(blocking=False) is False
        assert real.locked()
        assert not real.owned()
    with real:
        assert ours.acquire(blocking=False) is False
        assert ours.locked()
        assert not ours.owned()
    assert not ours.locked()


def test_a_release_of_ours_touched_the_real_ones_key(theirs: Any, name: str) -> None:
    ours, real = Lock(theirs, name, timeout=10), redis.lock.Lock(theirs, name, timeout=10)
    ours.acquire()
    theirs.delete(name)
    real.acquire()
    with pytest.raises(LockNotOwnedError):
        ours.release()
    assert real.owned()
    real.release()


def test_do_release_takes_the_token_of_either(theirs: Any, name: str) -> None:
    ours, real = Lock(theirs, name, timeout=10), redis.lock.Lock(theirs, name, timeout=10)
    real.acquire()
    with pytest.raises(LockNotOwnedError):
        ours.do_release("another")
    ours.do_release(real.local.token)
    assert not ours.locked()
    ours.acquire()
    token = theirs.get(name)
    assert in_thread(lambda: ours.do_release(token)) is None
    assert not ours.locked()
    ours.acquire()
    ours.do_release(theirs.get(name))
    with pytest.raises(LockError, match="not owned"):
        ours.release()


# Time


def test_a_timeout_is_the_ttl_of_the_key_and_is_not_renewed(theirs: Any, name: str) -> None:
    lock = Lock(theirs, name, timeout=0.5)
    sent = time.monotonic()
    lock.acquire()
    assert theirs.pttl(name) in {-2, *range(501)}, "-1: a key without ttl"
    other = Lock(theirs, name, timeout=10)
    assert other.acquire(blocking_timeout=30)
    assert time.monotonic() - sent >= 0.45
    with pytest.raises(LockNotOwnedError) as caught:
        lock.release()
    assert isinstance(caught.value.__cause__, LostError)
    other.release()


@pytest.mark.parametrize("timeout", [None, 0])
def test_without_a_timeout_the_key_has_a_ttl_and_is_renewed(
    theirs: Any, name: str, timeout: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_py, "TTL", 2)
    lock = Lock(theirs, name, timeout=timeout)
    with lock:
        renewed = lock._client.stats()["renewed"]
        end = time.monotonic() + 30
        while lock._client.stats()["renewed"] < renewed + 4 and time.monotonic() < end:
            assert 0 < theirs.pttl(name) <= 2_000
            time.sleep(0.05)
        assert lock.owned()


def test_the_ttl_without_a_timeout_is_30_s(theirs: Any, name: str) -> None:
    with Lock(theirs, name):
        assert 25_000 < theirs.pttl(name) <= 30_000


@pytest.mark.parametrize("limit", [-1, -0.5, 0])
def test_a_blocking_timeout_of_minus_one_waited_for_ever(memory: redlatch.Client, limit: float) -> None:
    with memory.lease("order"):
        assert in_thread(lambda: Lock(memory, "order").acquire(blocking_timeout=limit)) is False
        assert in_thread(lambda: Lock(memory, "order", blocking_timeout=limit).acquire()) is False


def test_waiting_ends_at_the_blocking_timeout(memory: redlatch.Client) -> None:
    with memory.lease("order"):
        begun = time.monotonic()
        assert Lock(memory, "order").acquire(blocking_timeout=0.5) is False
        assert 0.5 <= time.monotonic() - begun < 5


def test_arguments_of_acquire_win_over_those_of_the_lock(memory: redlatch.Client) -> None:
    with memory.lease("order"):
        assert Lock(memory, "order").acquire(blocking=False) is False
        assert Lock(memory, "order", blocking=False).acquire() is False
        assert Lock(memory, "order", blocking=False).acquire(blocking=True, blocking_timeout=0.1) is False


@pytest.mark.parametrize("timeout", [0.05, 100_000, -3, float("nan")])
def test_a_timeout_out_of_bounds_is_refused_at_once(memory: redlatch.Client, timeout: float) -> None:
    with pytest.raises(ConfigError, match="ttl"):
        Lock(memory, "order", timeout=timeout)


# Who holds it


def test_a_second_acquire_of_the_same_object_nested(memory: redlatch.Client) -> None:
    lock = Lock(memory, "order", timeout=10)
    lock.acquire()
    assert lock.acquire(blocking=False) is False
    lock.release()
    assert not lock.locked()


def test_each_thread_has_a_hold_of_its_own(memory: redlatch.Client) -> None:
    lock = Lock(memory, "order", timeout=10)
    lock.acquire()
    error = in_thread(lock.release)
    assert isinstance(error, LockError) and not isinstance(error, LockNotOwnedError)
    assert in_thread(lock.owned) is False
    assert lock.owned()
    lock.release()


def test_without_thread_local_another_thread_releases(memory: redlatch.Client) -> None:
    lock = Lock(memory, "order", timeout=10, thread_local=False)
    lock.acquire()
    assert in_thread(lock.owned) is True
    assert in_thread(lock.release) is None
    assert not lock.locked()


def test_owned_asks_the_server(theirs: Any, name: str) -> None:
    lock = Lock(theirs, name, timeout=10)
    assert not lock.owned()
    lock.acquire()
    assert lock.owned()
    theirs.delete(name)
    assert not lock.owned()
    theirs.set(name, "another")
    assert not lock.owned()
    theirs.delete(name)


def held_for_the_background(client: redlatch.Client) -> int:
    stats = client.stats()
    return int(stats["background_now"]) + int(stats["background_released"])


def test_a_lock_that_was_forgotten_was_released_before_its_timeout(theirs: Any, name: str) -> None:
    # As those use it who want something done once an hour, by whichever process comes first.
    client = Lock(theirs, name)._client
    before = held_for_the_background(client)
    assert Lock(theirs, name, timeout=60).acquire(blocking=False)
    in_thread(lambda: Lock(theirs, f"{name}:thread", timeout=60).acquire(blocking=False))
    gc.collect()
    assert held_for_the_background(client) == before
    assert theirs.pttl(name) > 50_000
    assert theirs.pttl(f"{name}:thread") > 50_000


def test_a_lock_that_was_not_released_when_its_process_ended_lost_its_timeout(
    server: Any, theirs: Any, name: str
) -> None:
    code = (
        "import sys\nfrom redlatch.compat.redis_py import Lock\n"
        "kept = Lock(sys.argv[1], sys.argv[2], timeout=60)\nassert kept.acquire()\n"
        "assert Lock(sys.argv[1], sys.argv[2] + ':forgotten', timeout=60).acquire()\n"
    )
    for _ in range(5):
        subprocess.run([sys.executable, "-c", code, server.url, name], timeout=60, check=True)
        assert theirs.delete(name, f"{name}:forgotten") == 2


FORKING = """
import os, sys
from redlatch.compat.redis_py import Lock, LockNotOwnedError

lock = Lock(sys.argv[1], sys.argv[2], timeout=60)
lock.acquire()
child = os.fork()
if child == 0:
    assert not lock.owned()
    assert not Lock(sys.argv[1], sys.argv[2]).acquire(blocking=False)
    try:
        lock.release()
    except LockNotOwnedError:
        os._exit(0)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert lock.owned()
lock.release()
"""


def test_a_forked_child_released_the_lock_of_its_parent(server: Any, theirs: Any, name: str) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, server.url, name]
    subprocess.run(command, timeout=60, check=True)
    assert theirs.get(name) is None


def test_the_end_of_a_forgotten_lock_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with MemoryClient(key_prefix="") as client:
        assert Lock(client, "once-an-hour", timeout=3600).acquire()
        client.advance(3601)
        end = time.monotonic() + 10
        while "once-an-hour" not in caplog.text and time.monotonic() < end:
            time.sleep(0.02)
        records = [record for record in caplog.records if "once-an-hour" in record.getMessage()]
        assert [record.levelname for record in records] == ["WARNING"]


def test_locks_that_were_forgotten_piled_up_after_their_timeout() -> None:
    with MemoryClient(key_prefix="") as client:
        for round_ in range(10):
            for number in range(100):
                assert Lock(client, f"once:{round_}:{number}", timeout=1).acquire(blocking=False)
            client.advance(2)
        assert len(redis_py._kept._leases) < 500


# Errors


def test_errors_are_caught_by_either_name(memory: redlatch.Client) -> None:
    lock = Lock(memory, "order", timeout=10)
    for kind in (LockError, RedlatchError, RedisError, redis.exceptions.LockError, ValueError):
        with pytest.raises(kind, match="Cannot release"):
            lock.release()
    assert issubclass(LockNotOwnedError, (redis.exceptions.LockNotOwnedError))
    assert issubclass(LockNotOwnedError, LockError)
    with pytest.raises(LockError) as caught:
        lock.release()
    assert (caught.value.name, caught.value.lock_name) == ("order", "order")


def test_a_lost_lock_is_not_owned_any_more_and_says_why() -> None:
    with MemoryClient(key_prefix="") as client:
        lock = Lock(client, "order")
        for call in (lock.release, lambda: Lock.release(lock)):
            lock.acquire()
            client.lose("order")
            with pytest.raises(redis.exceptions.LockNotOwnedError) as caught:
                call()
            assert isinstance(caught.value.__cause__, LostError)
        with pytest.raises(LockError, match="Cannot release"):
            lock.release()


def test_a_with_block_that_gets_no_lock_raises(memory: redlatch.Client) -> None:
    says = "Unable to acquire lock within the time"
    with memory.lease("order"), pytest.raises(redis.exceptions.LockError, match=says):
        with Lock(memory, "order", blocking_timeout=0.1):
            pytest.fail("two holders")


def test_a_lock_that_was_lost_in_a_with_block_raises_at_its_end_or_only_logs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def messages() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name.startswith("redlatch.compat")]

    with MemoryClient(key_prefix="") as client:
        with pytest.raises(LockNotOwnedError), Lock(client, "order"):
            client.lose("order")
        assert messages() == []
        with caplog.at_level(logging.WARNING, "redlatch"), Lock(client, "order", raise_on_release_error=False):
            client.lose("order")
        (message,) = messages()
        assert "'order' was not held any more" in message


def test_the_loss_of_the_lock_hid_the_error_of_the_body() -> None:
    with MemoryClient(key_prefix="") as client, pytest.raises(KeyError, match="mine"), Lock(client, "order"):
        client.lose("order")
        raise KeyError("mine")


def test_a_server_that_is_away_is_a_connection_error_of_redis_py() -> None:
    with redlatch.Client("redis://127.0.0.1:1/0", connect_timeout=0.1, io_timeout=0.1) as client:
        lock = Lock(client, "order")
        for kind in (redis.exceptions.ConnectionError, redlatch.UnavailableError, ConnectionError):
            with pytest.raises(kind):
                lock.acquire(blocking=False)
        with pytest.raises(redis.exceptions.ConnectionError):
            lock.locked()


# What cannot be kept


def test_a_token_of_the_caller_is_refused(memory: redlatch.Client) -> None:
    lock = Lock(memory, "order")
    with pytest.raises(ConfigError, match="token"):
        lock.acquire(token="mine")
    assert not lock.locked()


def test_reacquire_and_extend_to_the_timeout_reset_the_ttl(theirs: Any, name: str) -> None:
    lock = Lock(theirs, name, timeout=60)
    lock.acquire()
    for renew in (lock.reacquire, lambda: lock.extend(60, replace_ttl=True)):
        theirs.pexpire(name, 5_000)
        assert renew() is True
        assert theirs.pttl(name) > 50_000
    lock.release()


@pytest.mark.parametrize(("time_", "replace"), [(60, False), (5, False), (5, True), (61, True)])
def test_any_other_extension_is_refused_and_changes_nothing(
    theirs: Any, name: str, time_: float, replace: bool
) -> None:
    lock = Lock(theirs, name, timeout=60)
    with lock:
        theirs.pexpire(name, 5_000)
        with pytest.raises(ConfigError, match=r"extend\(.*reacquire\(\)"):
            lock.extend(time_, replace)
        assert theirs.pttl(name) <= 5_000


@pytest.mark.parametrize("method", ["extend", "reacquire"])
def test_extending_what_is_not_held_or_has_no_timeout_is_redis_pys_error(memory: redlatch.Client, method: str) -> None:
    arguments = (10, True) if method == "extend" else ()
    lock = Lock(memory, "order", timeout=10)
    with pytest.raises(LockError, match=f"Cannot {method} an unlocked lock"):
        getattr(lock, method)(*arguments)
    lock = Lock(memory, "order")
    with lock, pytest.raises(LockError, match=f"Cannot {method} a lock with no timeout"):
        getattr(lock, method)(*arguments)


def test_extending_a_lost_lock_is_not_owned() -> None:
    with MemoryClient(key_prefix="") as client:
        lock = Lock(client, "order", timeout=10)
        lock.acquire()
        client.lose("order")
        with pytest.raises(LockNotOwnedError):
            lock.reacquire()


# The client


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
        end = time.monotonic() + 30
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.05)
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
