"""``redlatch.compat.redis_py``: locks that nobody released."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any

import pytest
import redlatch
from harness import eventually, in_thread, needs_framework
from redlatch.compat import redis_py
from redlatch.compat.redis_py import Lock, LockNotOwnedError
from redlatch.testing import MemoryClient

needs_framework("redis")


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"compat:{request.node.name}"


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
        assert eventually(lambda: "once-an-hour" in caplog.text, 10)
        records = [record for record in caplog.records if "once-an-hour" in record.getMessage()]
        assert [record.levelname for record in records] == ["WARNING"]


def test_locks_that_were_forgotten_piled_up_after_their_timeout() -> None:
    with MemoryClient(key_prefix="") as client:
        for round_ in range(10):
            for number in range(100):
                assert Lock(client, f"once:{round_}:{number}", timeout=1).acquire(blocking=False)
            client.advance(2)
        assert len(redis_py._kept._leases) < 500
