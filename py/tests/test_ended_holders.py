"""Tasks and greenlets that end while they hold, and what they leave behind."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Iterator

import pytest
import redlatch
from harness import Server, eventually, needs_framework, run_program
from redlatch.testing import MemoryClient


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logger = logging.getLogger("redlatch")
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize("how", ["returns", "raises", "cancelled"])
def test_a_task_that_ended_while_it_was_referred_to_kept_its_lock(
    client: redlatch.Client, server: Server, prefix: str, how: str
) -> None:
    async def leak() -> None:
        assert client.lock("a", ttl=60).acquire(blocking=False)
        if how == "raises":
            raise KeyError
        if how == "cancelled":
            await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.create_task(leak())
        await asyncio.sleep(0)
        assert how != "cancelled" or server.call("EXISTS", f"{prefix}a") == 1
        task.cancel()
        await asyncio.wait([task])
        for _ in range(500):
            if server.call("EXISTS", f"{prefix}a") == 0:
                break
            await asyncio.sleep(0.01)
        else:
            pytest.fail("still locked")
        assert task.done()
        # The last reference goes here, which is what would have released it otherwise.
        assert task.cancelled() == (how == "cancelled") and (how != "raises" or task.exception() is not None)

    asyncio.run(main())


def test_a_gevent_greenlet_that_ended_while_it_was_referred_to_kept_its_lock(server: Server, prefix: str) -> None:
    needs_framework("gevent")
    assert run_program("gevent_keeps_ended", server.url, prefix) == ["free while it is referred to"]


def test_a_plain_greenlet_is_noticed_to_have_ended_when_it_is_collected(
    client: redlatch.Client, server: Server, prefix: str
) -> None:
    needs_framework("greenlet")
    from greenlet import greenlet

    each = greenlet(lambda: client.lock("a", ttl=60).acquire(blocking=False))
    assert each.switch() and each.dead
    assert client.lock("a").locked()
    del each
    gc.collect()
    assert eventually(lambda: server.call("EXISTS", f"{prefix}a") == 0)


def _attributes(task: object) -> int:
    """How many attributes were put on a task. The type of tasks that is written in C shows them to nobody else."""
    return sum(len(each) for each in gc.get_referents(task) if isinstance(each, dict))


def test_greenlets_of_one_task_left_a_mark_on_it_each() -> None:
    needs_framework("greenlet")
    from greenlet import greenlet

    with MemoryClient() as client:
        lock = client.lock("a")

        def work() -> bool:
            assert lock.acquire(blocking=False)
            lock.release()
            return True

        async def main() -> None:
            task = asyncio.current_task()
            assert greenlet(work).switch()
            before = _attributes(task)
            for _ in range(100):
                assert greenlet(work).switch()
            assert _attributes(task) == before > 0

        asyncio.run(main())


def test_a_lease_could_not_be_handed_over_beside_a_thread_that_reads_it(client: redlatch.Client) -> None:
    reads = [0, 0]
    stop = threading.Event()
    lease = client.lease("a")

    def watch(number: int) -> None:
        while not stop.is_set():
            reads[number] += lease.held

    threads = [threading.Thread(target=watch, args=(number,)) for number in range(len(reads))]
    for thread in threads:
        thread.start()
    try:
        for _ in range(100):
            assert lease.acquire(timeout=5)
            client.adopt("a", lease.into_token()).release()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    # They read while it was held, or this would show nothing.
    assert min(reads) > 100
