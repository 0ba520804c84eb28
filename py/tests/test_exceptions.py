"""What errors and values carry, how they travel, and what they do not show."""

from __future__ import annotations

import copy
import pickle
import socket
import threading

import pytest
import redlatch
from harness import MakeClient, Server, eventually
from harness.servers import free_port

CLASSES = [getattr(redlatch, name) for name in redlatch.__all__ if name.endswith(("Error", "AcquireTimeout"))]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_lost_its_name_on_the_way_to_another_process(kind: type[redlatch.RedlatchError]) -> None:
    for copied in (pickle.loads(pickle.dumps(kind("text", name="a"))), copy.copy(kind("text", name="a"))):
        assert type(copied) is kind and str(copied) == "text" and copied.name == "a"
        assert isinstance(copied, redlatch.RedlatchError)


def test_a_lost_error_travels_with_its_reason(client: redlatch.Client, server: Server, prefix: str) -> None:
    lock = client.lock("a", ttl=0.3)
    lock.acquire()
    fence = lock.fence
    server.call("DEL", f"{prefix}a")
    assert eventually(lambda: lock.lost is not None)
    assert lock.lost is redlatch.LostReason.TAKEN
    assert str(lock.lost) == lock.lost.value == "taken"
    with pytest.raises(redlatch.LostError) as caught:
        lock.release()
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.name, error.reason, error.fence) == ("a", redlatch.LostReason.TAKEN, fence)
    assert lock.lost is None and lock.hold_count == 0


def test_errors_are_what_python_programs_catch() -> None:
    assert issubclass(redlatch.ConfigError, ValueError)
    assert issubclass(redlatch.NotHeldError, RuntimeError)
    assert issubclass(redlatch.AcquireTimeout, TimeoutError)
    assert issubclass(redlatch.UnavailableError, ConnectionError)


def test_an_unreachable_server_was_a_busy_lock(make_client: MakeClient) -> None:
    client = make_client(f"redis://127.0.0.1:{free_port()}", unavailable_after=0.3)
    for call in (
        lambda: client.lock("a").acquire(blocking=False),
        lambda: client.lock("a").acquire(timeout=0.2),
        lambda: client.lock("a").acquire(),
        lambda: client.lock("a", wait=0.2).__enter__(),
        lambda: client.lock("a").locked(),
        lambda: client.inspect("a"),
    ):
        with pytest.raises(redlatch.UnavailableError) as caught:
            call()
        assert caught.value.name == "a"


def test_a_server_that_never_answers_is_unavailable_in_time(make_client: MakeClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = make_client(f"redis://127.0.0.1:{silent.getsockname()[1]}", io_timeout=0.2)
        with pytest.raises(redlatch.UnavailableError):
            client.lock("a").acquire(timeout=0.5)


def test_each_refusal_has_its_own_error(own_server: Server, make_client: MakeClient) -> None:
    port = own_server.port
    own_server.call("SET", "plain:fine", "x")
    own_server.call("RPUSH", "list", "x")
    with pytest.raises(redlatch.KeyTypeError) as caught:
        make_client(own_server.url, key_prefix="").lock("list").acquire()
    assert caught.value.name == "list"
    own_server.call("ACL", "SETUSER", "app", "on", ">secret-word", "~other:*", "+@all")
    with pytest.raises(redlatch.PermissionDeniedError) as denied:
        make_client(f"redis://app:secret-word@127.0.0.1:{port}").lock("a").acquire()
    with pytest.raises(redlatch.AuthenticationError) as refused:
        make_client(f"redis://app:secret-wrong@127.0.0.1:{port}").lock("a").acquire()
    for error in (denied.value, refused.value):
        assert "secret" not in f"{error} {error!r}" and error.name == "a"


def test_repr_showed_a_token_or_a_password(make_client: MakeClient, own_server: Server) -> None:
    own_server.call("ACL", "SETUSER", "app", "on", ">secret-word", "~*", "&*", "+@all")
    client = make_client(f"redis://app:secret-word@127.0.0.1:{own_server.port}/0", label="reports")
    lock, lease = client.lock("a"), client.lease("b")
    with lock, lease:
        info = client.inspect("a")
        assert info is not None
        lost = redlatch.LostInfo("a", lock.token, lock.fence, redlatch.LostReason.TAKEN)
        secrets = ["secret-word", *(token.split("@")[0] for token in (lock.token, lease.token))]
        for value in (client, lock, lease, info, lost, redlatch.CancelToken()):
            shown = f"{value!r} {value}"
            assert not [secret for secret in secrets if secret in shown], shown
            assert type(value).__name__ in shown
        assert "'a'" in repr(lock) or '"a"' in repr(lock)
        assert info.owner is not None and info.owner.endswith(":reports")
        with pytest.raises(redlatch.RedlatchError) as caught:
            lease.acquire()
        assert secrets[2] not in str(caught.value)


def test_close_left_waiters_asleep(client: redlatch.Client, other: redlatch.Client) -> None:
    errors: list[Exception] = []

    def wait() -> None:
        try:
            client.lock("a").acquire()
        except redlatch.ClosedError as error:
            errors.append(error)

    holder = other.lease("a")
    holder.acquire()
    threads = [threading.Thread(target=wait) for _ in range(10)]
    for thread in threads:
        thread.start()
    assert eventually(lambda: (info := other.inspect("a")) is not None and info.waiters == 10)
    client.close()
    for thread in threads:
        thread.join(2)
    assert len(errors) == 10
    client.close()
    with pytest.raises(redlatch.ClosedError):
        client.lock("a").acquire(blocking=False)
    assert eventually(lambda: (info := other.inspect("a")) is not None and info.waiters == 0)


def test_close_ends_what_is_held(server: Server, make_client: MakeClient, prefix: str) -> None:
    with make_client(server.url) as client:
        lock = client.lock("a", ttl=1)
        lock.acquire()
    with pytest.raises(redlatch.LostError) as caught:
        lock.check()
    assert caught.value.reason is redlatch.LostReason.CLOSED
    assert eventually(lambda: server.call("EXISTS", f"{prefix}a") == 0)
