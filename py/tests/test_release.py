"""Releases: by the wrong one, twice, unanswered, and with an exception on its way."""

from __future__ import annotations

import itertools
import logging
import re
import threading

import pytest
import redlatch
from harness import MakeClient, Monitor, Proxy, Server, eventually


def _notes(error: BaseException) -> str:
    # Before 3.11 there is no add_note, and traceback shows none; the list is made all the same.
    return "\n".join(getattr(error, "__notes__", []))


def test_a_release_by_another_thread_freed_the_lock(client: redlatch.Client, server: Server, prefix: str) -> None:
    lock = client.lock("a")
    lock.acquire()
    errors: list[redlatch.NotHeldError] = []

    def release() -> None:
        try:
            lock.release()
        except redlatch.NotHeldError as error:
            errors.append(error)

    thread = threading.Thread(target=release, name="the-wrong-one")
    thread.start()
    thread.join()
    text = str(errors[0])
    threads = re.findall(r"[Tt]hread \S+", text)
    assert len(set(threads)) == 2, text
    assert errors[0].name == "a"
    assert server.call("GET", f"{prefix}a") == lock.token and lock.hold_count == 1
    lock.release()


def test_a_second_release_deleted_the_lock_of_the_next_holder(
    client: redlatch.Client, other: redlatch.Client, server: Server, prefix: str
) -> None:
    lock = client.lock("a")
    lock.acquire()
    lock.release()
    with other.lock("a") as next_holder:
        with Monitor(server.port) as monitor, pytest.raises(redlatch.NotHeldError):
            lock.release()
        assert server.call("GET", f"{prefix}a") == next_holder.token
    assert not [line for line in monitor.lines if prefix in line]


def test_the_loss_hid_the_exception_of_the_body(client: redlatch.Client, server: Server, prefix: str) -> None:
    lock = client.lock("a", ttl=0.3)
    with pytest.raises(KeyError) as caught, lock:
        server.call("DEL", f"{prefix}a")
        assert eventually(lambda: lock.lost)
        raise KeyError("of the body")
    assert "lost" in _notes(caught.value) and "'a'" in _notes(caught.value).replace('"', "'")
    assert lock.hold_count == 0


def test_a_body_that_released_the_lock_itself_hid_its_exception(client: redlatch.Client) -> None:
    lock = client.lock("a")
    with pytest.raises(KeyError) as caught, lock:
        lock.release()
        raise KeyError("of the body")
    assert "not held" in _notes(caught.value)
    with pytest.raises(redlatch.NotHeldError), lock:
        lock.release()


def test_with_reports_a_loss(client: redlatch.Client, server: Server, prefix: str) -> None:
    lock = client.lock("a", ttl=0.3)
    with pytest.raises(redlatch.LostError) as caught, lock:
        server.call("DEL", f"{prefix}a")
        assert eventually(lambda: lock.lost)
    assert caught.value.reason is redlatch.LostReason.TAKEN
    # The lock is usable again.
    with lock:
        lock.check()


def test_a_lost_lease_was_entered_again(client: redlatch.Client, server: Server, prefix: str) -> None:
    lock = client.lock("a", ttl=0.3)
    lock.acquire()
    server.call("DEL", f"{prefix}a")
    assert eventually(lambda: lock.lost)
    with pytest.raises(redlatch.LostError):
        lock.acquire()
    with pytest.raises(redlatch.LostError):
        lock.check()
    assert lock.hold_count == 1
    with pytest.raises(redlatch.LostError):
        lock.release()
    assert lock.hold_count == 0


def test_a_release_whose_reply_was_lost_was_a_loss(
    proxy: Proxy, server: Server, make_client: MakeClient, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = make_client(proxy.url)
    lock = client.lock("a")
    for _ in range(20):
        with caplog.at_level(logging.INFO, "redlatch"):
            lock.acquire()
            proxy.swallow_next_reply()
            lock.release()
        assert proxy.swallowed.is_set()
        assert server.call("EXISTS", f"{prefix}a") == 0
    assert not [record for record in caplog.records if record.name.startswith("redlatch")]


@pytest.mark.parametrize("how", ["with", "release"])
def test_a_release_without_a_server_raised_or_went_unnoticed(
    own_server: Server, make_client: MakeClient, caplog: pytest.LogCaptureFixture, prefix: str, how: str
) -> None:
    client = make_client(own_server.url, io_timeout=0.3)
    lock = client.lock("a", ttl=20)
    with caplog.at_level(logging.WARNING, "redlatch"):
        if how == "with":
            with lock:
                own_server.pause()
        else:
            lock.acquire()
            own_server.pause()
            lock.release()
    warnings = [record for record in caplog.records if record.name.startswith("redlatch")]
    assert warnings and all(record.levelno == logging.WARNING for record in warnings)
    assert any("a" in record.getMessage() for record in warnings)
    assert lock.hold_count == 0
    own_server.resume()
    assert eventually(lambda: own_server.call("EXISTS", f"{prefix}a") == 0)


def test_an_exception_of_the_body_passes_an_unconfirmed_release(own_server: Server, make_client: MakeClient) -> None:
    client = make_client(own_server.url, io_timeout=0.3)
    with pytest.raises(KeyError), client.lock("a"):
        own_server.pause()
        raise KeyError("of the body")
    own_server.resume()


def test_a_thread_that_ended_while_holding_kept_the_lock(
    client: redlatch.Client, server: Server, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "redlatch"):
        thread = threading.Thread(target=client.lock("leaked", ttl=5).acquire)
        thread.start()
        thread.join()
        assert eventually(lambda: server.call("EXISTS", f"{prefix}leaked") == 0, 5)
    assert eventually(lambda: any("leaked" in record.getMessage() for record in caplog.records))


def test_a_thread_with_the_identity_of_an_ended_one_had_its_lock(
    client: redlatch.Client, caplog: pytest.LogCaptureFixture
) -> None:
    # Each of 10,000 threads leaks a hold in its turn, and the next one may neither enter nor release it.
    lock = client.lock("a", ttl=30)
    seen: list[tuple[int, bool, int]] = []

    def run(leak: bool) -> None:
        refused = lock.hold_count == 0 and not lock.held
        try:
            lock.release()
            refused = False
        except redlatch.NotHeldError:
            pass
        # What the last thread leaked is released in the background: this is a lease of its own.
        fresh = lock.acquire(timeout=10) and lock.hold_count == 1
        seen.append((threading.get_ident(), refused and fresh, lock.fence))
        if not leak:
            lock.release()

    with caplog.at_level(logging.CRITICAL, "redlatch"):
        for number in range(10_000):
            thread = threading.Thread(target=run, args=(number % 2 == 0,))
            thread.start()
            thread.join()
    assert len(seen) == 10_000 and all(good for _, good, _ in seen)
    assert all(before[2] < after[2] for before, after in itertools.pairwise(seen))
    # The identities did repeat, or this would show nothing.
    assert sum(before[0] == after[0] for before, after in itertools.pairwise(seen)) > 1_000
