"""What a type checker must see in ``redlatch``. Checked by ``mypy --strict``, never run.

Each ``type: ignore`` marks a mistake that must be reported: an unused one is an error itself.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from typing_extensions import assert_type

import redlatch
from redlatch.compat import redis_py
from redlatch.testing import MemoryClient

client = redlatch.Client("memory://")


def made(ttl: redlatch.Seconds, on_lost: redlatch.OnLost) -> redlatch.Lock:
    return client.lock("a", ttl=ttl, on_lost=on_lost)


made(5, print)
made(timedelta(seconds=5), lambda info: info.reason)
made("5", print)  # type: ignore[arg-type]


@client.locked("order:{order_id}", ttl=timedelta(seconds=5), wait=5)
def raises(order_id: int, *, region: str = "eu") -> bytes:
    return b""


@client.locked("order:{order_id}", on_busy="raise")
def raises_in_words(order_id: int) -> bytes:
    return b""


@client.locked("order:{order_id}", on_busy="skip")
def skips(order_id: int) -> bytes:
    return b""


def refuse(order_id: int) -> str:
    return ""


@client.locked("order:{order_id}", on_busy=refuse)
def calls(order_id: int) -> bytes:
    return b""


@client.locked("order:{order_id}", on_busy=lambda *args, **kwargs: 3)
def calls_lambda(order_id: int) -> bytes:
    return b""


assert_type(raises(17), bytes)
assert_type(raises(17, region="us"), bytes)
assert_type(raises_in_words(17), bytes)
assert_type(skips(17), bytes | None)
assert_type(calls(17), bytes | str)
assert_type(calls_lambda(17), bytes | int)
raises("17")  # type: ignore[arg-type]
raises(17, zone="eu")  # type: ignore[call-arg]
skips()  # type: ignore[call-arg]
client.locked("order", on_busy="wait")  # type: ignore[call-overload]
client.locked("order", ttl="5")  # type: ignore[call-overload]


class Account:
    number = 1

    @client.locked("account:{self.number}", on_busy="skip")
    def close(self, reason: str) -> int:
        return len(reason)

    @classmethod
    @client.locked("accounts")
    def close_all(cls, reason: str) -> int:
        return len(reason)


assert_type(Account().close("moved"), int | None)
assert_type(Account.close_all("moved"), int)
Account().close(3)  # type: ignore[arg-type]

passed_on: Callable[[int], bytes | None] = skips

assert_type(redlatch.current_lock(), redlatch.Lock)
with client.lock("order", wait=1) as held:
    assert_type(held, redlatch.Lock)
    assert_type(held.fence, int)
with client.lease("order") as lease:
    assert_type(lease, redlatch.Lease)
assert_type(held.acquire(timeout=timedelta(seconds=1)), bool)
assert_type(client.inspect("order"), redlatch.LockInfo | None)
for finding in client.check_server():
    assert_type(finding, redlatch.Finding)
    assert_type(finding.severity, redlatch.Severity)
    assert_type(finding.kind, str)
held.acquire(timeout="1")  # type: ignore[arg-type]

with MemoryClient() as memory:
    assert_type(memory, MemoryClient)
    memory.advance(timedelta(seconds=1))

with redis_py.Lock(client, "order", timeout=10, blocking_timeout=2.5) as theirs:
    assert_type(theirs, redis_py.Lock)
    assert_type(theirs.acquire(blocking=False), bool)
    assert_type(theirs.owned(), bool)
