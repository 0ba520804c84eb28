"""Tasks share a thread, and never a lock."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redlatch
from harness import Server, eventually


def test_a_task_entered_the_lock_of_another_task(client: redlatch.Client) -> None:
    lock = client.lock("a")
    got: list[int] = []

    async def work(number: int, barrier: asyncio.Event) -> None:
        mine = lock.acquire(blocking=False)
        if mine:
            got.append(number)
            assert lock.acquire(blocking=False) and lock.hold_count == 2
            lock.release()
        await asyncio.sleep(0)
        if len(got) == 1 and not mine:
            assert lock.hold_count == 0 and not lock.held
            with pytest.raises(redlatch.NotHeldError):
                lock.release()
            with pytest.raises(redlatch.NotHeldError):
                lock.check()
        await barrier.wait()
        if mine:
            assert lock.hold_count == 1
            lock.release()

    async def main() -> None:
        barrier = asyncio.Event()
        tasks = [asyncio.create_task(work(number, barrier)) for number in range(5)]
        await asyncio.sleep(0.05)
        assert got == [0]
        barrier.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert lock.acquire(blocking=False)
    lock.release()


def test_a_lock_of_the_thread_is_not_that_of_a_task(client: redlatch.Client) -> None:
    lock = client.lock("a")

    async def main() -> None:
        assert lock.hold_count == 0
        assert not lock.acquire(blocking=False)

    with lock:
        asyncio.run(main())


def test_a_task_waited_for_a_lock_and_stopped_the_loop(client: redlatch.Client, other: redlatch.Client) -> None:
    lock, lease = client.lock("a"), client.lease("a")

    async def main() -> None:
        for call in (
            lock.acquire, lease.acquire, lambda: lock.acquire(timeout=1), lambda: lease.acquire(timeout=1),
            lock.__enter__, lease.__enter__,
        ):  # fmt: skip
            with pytest.raises(RuntimeError) as caught:
                call()
            assert "asyncio.to_thread" in str(caught.value) and "client.lease" in str(caught.value)

    with other.lock("a"):
        asyncio.run(main())
    # The same where nobody has it: a program that works in its tests works under contention.
    asyncio.run(main())
    assert lock.hold_count == 0 and not lease.held
    assert client.inspect("a") is None


def test_a_callback_of_the_loop_waited_for_a_lock(client: redlatch.Client) -> None:
    errors: list[BaseException] = []

    def blocks() -> None:
        try:
            client.lock("a").acquire()
        except RuntimeError as error:
            errors.append(error)

    async def main() -> None:
        asyncio.get_running_loop().call_soon(blocks)
        await asyncio.sleep(0.01)

    asyncio.run(main())
    assert len(errors) == 1


def test_a_lease_is_acquired_in_a_thread_and_released_by_the_task(client: redlatch.Client) -> None:
    order: list[int] = []

    async def work(number: int) -> None:
        lease = client.lease("a", ttl=5)
        assert await asyncio.to_thread(lease.acquire)
        order.append(number)
        await asyncio.sleep(0.01)
        lease.check()
        order.append(number)
        await asyncio.to_thread(lease.release)

    async def main() -> None:
        await asyncio.gather(*(work(number) for number in range(5)))

    asyncio.run(main())
    assert order[::2] == order[1::2] and sorted(order[::2]) == list(range(5))


def test_a_lease_that_a_task_releases_directly(client: redlatch.Client, server: Server, prefix: str) -> None:
    async def main() -> None:
        lease = client.lease("a")
        await asyncio.to_thread(lease.acquire, timeout=5)
        assert lease.held
        lease.release()

    asyncio.run(main())
    assert server.call("EXISTS", f"{prefix}a") == 0


def test_a_cancelled_task_calls_off_its_wait(client: redlatch.Client, other: redlatch.Client) -> None:
    async def main() -> None:
        lease, cancel = client.lease("a"), redlatch.CancelToken()
        waiting = asyncio.create_task(asyncio.to_thread(lease.acquire, cancel=cancel))
        assert await asyncio.to_thread(eventually, lambda: client.stats()["waiting_now"] == 1)
        cancel.cancel()
        with pytest.raises(redlatch.CancelledError):
            await waiting

    with other.lock("a"):
        asyncio.run(main())


def test_a_lease_whose_task_was_cancelled_stayed_locked(
    client: redlatch.Client, other: redlatch.Client, server: Server, prefix: str
) -> None:
    # The thread of asyncio.to_thread goes on waiting, and is granted the lock that nobody wants any more.
    async def pay() -> None:
        lease = client.lease("a", ttl=60)
        await asyncio.to_thread(lease.acquire)

    async def main() -> None:
        holder = other.lease("a")
        await asyncio.to_thread(holder.acquire)
        task = asyncio.create_task(pay())
        while (info := other.inspect("a")) is None or info.waiters == 0:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        holder.release()

    asyncio.run(main())
    assert client.stats()["acquired"] == 1
    gc.collect()
    assert eventually(lambda: server.call("EXISTS", f"{prefix}a") == 0)


def test_a_task_that_ended_while_holding_kept_the_lock(
    client: redlatch.Client, server: Server, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def leak() -> None:
        assert client.lock("leaked", ttl=30).acquire(blocking=False)

    async def main() -> None:
        await asyncio.create_task(leak())
        gc.collect()
        for _ in range(500):
            if server.call("EXISTS", f"{prefix}leaked") == 0:
                return
            await asyncio.sleep(0.01)
        pytest.fail("still locked")

    with caplog.at_level(logging.WARNING, "redlatch"):
        asyncio.run(main())
        assert eventually(lambda: any("leaked" in record.getMessage() for record in caplog.records))


def test_a_task_at_the_address_of_an_ended_one_had_its_lock(
    client: redlatch.Client, caplog: pytest.LogCaptureFixture
) -> None:
    lock = client.lock("a", ttl=30)
    addresses: list[int] = []

    async def leak() -> None:
        task = asyncio.current_task()
        addresses.append(id(task))
        assert lock.hold_count == 0 and not lock.held
        with pytest.raises(redlatch.NotHeldError):
            lock.release()
        lock.acquire(blocking=False)

    async def main() -> None:
        for _ in range(1000):
            await asyncio.create_task(leak())

    with caplog.at_level(logging.CRITICAL, "redlatch"):
        asyncio.run(main())
    assert len(set(addresses)) < 500


def test_a_loop_in_another_thread_has_its_own_tasks(client: redlatch.Client) -> None:
    lock = client.lock("a")
    results: list[bool] = []

    async def attempt() -> None:
        results.append(lock.acquire(blocking=False))
        assert lock.hold_count == int(results[-1])
        if results[-1]:
            lock.release()

    def loop() -> None:
        asyncio.run(attempt())

    with lock:
        thread = threading.Thread(target=loop)
        thread.start()
        thread.join()
    asyncio.run(attempt())
    assert results == [False, True]


def test_waiting_tasks_kept_the_holder_from_releasing(client: redlatch.Client) -> None:
    # Each waiting task takes a thread of the loop's executor: where all wait, none is left for a holder's release.
    async def work() -> bool:
        lease = client.lease("a", ttl=10)
        if not await asyncio.to_thread(lease.acquire, timeout=20):
            return False
        try:
            await asyncio.sleep(0.01)
            lease.check()
        finally:
            lease.release()
        return True

    async def main() -> list[bool]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        return await asyncio.wait_for(asyncio.gather(*(work() for _ in range(5))), 15)

    assert asyncio.run(main()) == [True] * 5
