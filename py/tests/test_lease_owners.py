"""Who keeps a lease alive, and whose lease the end of a block releases."""

from __future__ import annotations

import gc
import threading
import weakref

import redlatch
from harness import Server, eventually


class Worker:
    """Has a lease whose callback is its own method."""

    def __init__(self, client: redlatch.Client, told: list[str], weak: bool) -> None:
        self._told = told
        if weak:
            method = weakref.WeakMethod(self.lost)

            def lost(info: redlatch.LostInfo) -> None:
                bound = method()
                if bound is not None:
                    bound(info)

            self.lease = client.lease("a", ttl=0.4, on_lost=lost)
        else:
            self.lease = client.lease("a", ttl=0.4, on_lost=self.lost)

    def lost(self, info: redlatch.LostInfo) -> None:
        self._told.append(info.name)


def test_a_callback_bound_to_its_owner_keeps_the_lease_until_it_is_lost(
    client: redlatch.Client, server: Server, prefix: str
) -> None:
    told: list[str] = []
    worker = Worker(client, told, weak=False)
    worker.lease.acquire()
    gone = weakref.ref(worker)
    del worker
    gc.collect()
    # The lease refers to the method, which refers to the worker, which refers to the lease.
    assert gone() is not None and gone().lease.held  # type: ignore[union-attr]
    server.call("DEL", f"{prefix}a")
    assert eventually(lambda: told == ["a"])
    assert eventually(lambda: (gc.collect(), gone() is None)[1])


def test_a_callback_by_a_weak_method_lets_the_lease_go_with_its_owner(
    client: redlatch.Client, server: Server, prefix: str
) -> None:
    told: list[str] = []
    worker = Worker(client, told, weak=True)
    worker.lease.acquire()
    server.call("DEL", f"{prefix}a")
    assert eventually(lambda: told == ["a"])
    worker = Worker(client, told, weak=True)
    worker.lease.acquire()
    gone = weakref.ref(worker)
    del worker
    gc.collect()
    assert gone() is None
    assert eventually(lambda: server.call("EXISTS", f"{prefix}a") == 0)
    assert told == ["a"]


def test_the_end_of_a_block_releases_what_another_thread_acquired_through_the_same_lease(
    client: redlatch.Client,
) -> None:
    lease = client.lease("a")
    released, acquired = threading.Event(), threading.Event()

    def first() -> None:
        with lease:
            lease.release()
            released.set()
            assert acquired.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    assert released.wait(10)
    assert lease.acquire(timeout=5)
    acquired.set()
    thread.join(10)
    assert not lease.held and not lease.locked()


def test_leases_of_one_name_are_each_released_by_their_own_block(client: redlatch.Client) -> None:
    mine = client.lease("a")
    released, acquired = threading.Event(), threading.Event()

    def first() -> None:
        with client.lease("a") as lease:
            lease.release()
            released.set()
            assert acquired.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    assert released.wait(10)
    assert mine.acquire(timeout=5)
    acquired.set()
    thread.join(10)
    assert mine.held
    mine.release()
