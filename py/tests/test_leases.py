"""Leases: what is held by an object instead of a thread."""

from __future__ import annotations

import gc
import threading
import time

import pytest
import redlatch
from harness import MakeClient, Server, eventually


def test_another_thread_may_release_a_lease(client: redlatch.Client, server: Server, prefix: str) -> None:
    lease = client.lease("a")
    assert not lease.held
    assert lease.acquire()
    thread = threading.Thread(target=lease.release)
    thread.start()
    thread.join()
    assert server.call("EXISTS", f"{prefix}a") == 0 and not lease.held
    assert lease.acquire()
    lease.release()


def test_nobody_re_enters_a_lease(client: redlatch.Client) -> None:
    lease = client.lease("a")
    with lease as held:
        assert held is lease
        with pytest.raises(redlatch.RedlatchError, match="already|holds"):
            lease.acquire()
        assert not client.lease("a").acquire(blocking=False)
        assert not client.lock("a").acquire(blocking=False)
        lease.check()
    with pytest.raises(redlatch.NotHeldError):
        lease.release()


def test_a_lease_that_was_handed_over_is_adopted_once(
    client: redlatch.Client, other: redlatch.Client, server: Server, prefix: str
) -> None:
    with client.lease("a", ttl=5) as lease:
        fence = lease.fence
        token = lease.into_token()
        assert not lease.held
    assert server.call("GET", f"{prefix}a") == token
    adopted = other.adopt("a", token, ttl=5)
    assert adopted.held and adopted.fence > fence and adopted.token != token
    with pytest.raises(redlatch.NotHeldError):
        other.adopt("a", token)
    # It is held already, which a block would acquire again.
    with pytest.raises(redlatch.RedlatchError, match="has the lock already"), adopted:
        pytest.fail("acquired twice")
    assert adopted.held
    adopted.release()
    assert server.call("EXISTS", f"{prefix}a") == 0


def test_a_wrong_token_adopts_nothing(client: redlatch.Client, other: redlatch.Client) -> None:
    with client.lock("a"):
        with pytest.raises(redlatch.NotHeldError) as caught:
            other.adopt("a", "12345678-1234-4234-8234-123456789abc@host:1")
        assert "12345678-1234" not in str(caught.value)


def test_two_threads_acquired_one_lease(client: redlatch.Client) -> None:
    lease = client.lease("a")
    outcomes: list[object] = []

    def acquire() -> None:
        try:
            outcomes.append(lease.acquire(timeout=0.2))
        except redlatch.RedlatchError as error:
            outcomes.append(type(error))

    threads = [threading.Thread(target=acquire) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count(True) == 1, outcomes
    lease.release()


def test_a_lease_that_was_collected_while_held_stayed_locked(
    client: redlatch.Client, server: Server, prefix: str
) -> None:
    lease = client.lease("a", ttl=30)
    lease.acquire()
    del lease
    gc.collect()
    assert eventually(lambda: server.call("EXISTS", f"{prefix}a") == 0)


def test_a_collected_lease_blocked_the_collector(own_server: Server, make_client: MakeClient, prefix: str) -> None:
    client = make_client(own_server.url, io_timeout=5)
    lease = client.lease("a", ttl=30)
    lease.acquire()
    cycle: list[object] = [lease]
    cycle.append(cycle)
    own_server.pause()
    try:
        del lease, cycle
        begin = time.monotonic()
        gc.collect()
        assert time.monotonic() - begin < 0.5
    finally:
        own_server.resume()
    assert eventually(lambda: own_server.call("EXISTS", f"{prefix}a") == 0, 10)


def test_a_lease_keeps_its_client(server: Server, prefix: str) -> None:
    lease = redlatch.Client(server.url, key_prefix=prefix).lease("a", ttl=0.5)
    lease.acquire()
    gc.collect()
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        lease.check()
        time.sleep(0.01)
    lease.release()
    assert server.call("EXISTS", f"{prefix}a") == 0


def test_renew_resets_the_lease(client: redlatch.Client, server: Server, prefix: str) -> None:
    with client.lease("a", ttl=5, auto_renew=False) as lease:
        server.call("PEXPIRE", f"{prefix}a", 1000)
        lease.renew()
        assert server.call("PTTL", f"{prefix}a") > 4000


def test_force_release_takes_a_lock_away(client: redlatch.Client, other: redlatch.Client) -> None:
    lease = client.lease("a", ttl=0.5)
    lease.acquire()
    assert other.force_release("a")
    assert not other.force_release("a")
    assert eventually(lambda: lease.lost is redlatch.LostReason.TAKEN)
    with pytest.raises(redlatch.LostError):
        lease.release()


def test_inspect_tells_who_has_it(server: Server, make_client: MakeClient, prefix: str) -> None:
    client = make_client(server.url, label="reports")
    assert client.inspect("a") is None
    with client.lock("a", ttl=5) as lock:
        info = client.inspect("a")
        assert info is not None
        assert (info.name, info.token, info.fence, info.waiters) == ("a", lock.token, lock.fence, 0)
        assert info.owner == lock.token.split("@", 1)[1]
        assert info.ttl_left is not None and 4 < info.ttl_left <= 5
    server.call("SET", f"{prefix}a", "somebody")
    info = client.inspect("a")
    assert info is not None and (info.token, info.owner, info.ttl_left) == ("somebody", None, None)
    assert not client.lock("a").acquire(blocking=False)


def test_stats_count(client: redlatch.Client) -> None:
    with client.lock("a"):
        pass
    stats = client.stats()
    assert stats["acquired"] == 1 and stats["released"] == 1
    assert set(stats["lost"]) == {str(reason) for reason in redlatch.LostReason}
    for timing in ("wait_seconds", "hold_seconds"):
        assert {"count", "mean", "p50", "p99", "p999", "max"} <= set(stats[timing])
        assert stats[timing]["count"] == 1


def test_memory_needs_no_server(make_client: MakeClient) -> None:
    client = make_client("memory://")
    with client.lock("a") as lock:
        assert not client.lease("a").acquire(blocking=False)
        assert lock.fence > 0
    assert client.inspect("a") is None
