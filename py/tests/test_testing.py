"""``redlatch.testing``: the client for tests of applications, and the pytest plugin."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import pytest
import redlatch
from harness import eventually, needs_framework
from redlatch import LostError, LostReason, NotHeldError
from redlatch.testing import MemoryClient

pytest_plugins = ["pytester"]


def test_time_moves_only_when_it_is_told_to() -> None:
    with MemoryClient() as client:
        lease = client.lease("order", ttl=10, auto_renew=False)
        lease.acquire()
        left = lease.remaining
        client.advance(4)
        assert lease.remaining == pytest.approx(left - 4, abs=1e-6)
        assert lease.held
        client.advance(6)
        assert lease.lost is LostReason.EXPIRED
        assert client.lock("order").acquire(blocking=False)


def test_a_renewed_lease_survives_many_ttls() -> None:
    with MemoryClient() as client, client.lock("order", ttl=10) as lock:
        client.advance(100)
        lock.check()
        assert client.stats()["renewed"] >= 25


def test_a_lost_lock_is_known_at_once_to_its_holder_and_to_its_callback() -> None:
    told = threading.Event()
    with MemoryClient() as client:
        lock = client.lock("order", on_lost=lambda info: told.set() if info.reason is LostReason.TAKEN else None)
        lock.acquire()
        client.lose("order")
        with pytest.raises(LostError) as caught:
            lock.check()
        assert caught.value.reason is LostReason.TAKEN
        assert client.lease("order").acquire(blocking=False)
        assert told.wait(10)
        with pytest.raises(LostError):
            lock.release()


def test_advance_returned_before_the_callback_of_a_lost_lock() -> None:
    for _ in range(50):
        told: list[redlatch.LostInfo] = []
        with MemoryClient() as client:
            assert client.lock("order", on_lost=told.append).acquire()
            client.lose("order")
            client.advance(0.01)
            assert [info.reason for info in told] == [LostReason.TAKEN]


def test_losing_a_lock_that_nobody_has_is_a_mistake_of_the_test() -> None:
    with MemoryClient() as client, pytest.raises(NotHeldError, match="nobody has the lock 'order'"):
        client.lose("order")


def test_a_lease_makes_the_lock_busy_for_the_same_thread() -> None:
    with MemoryClient() as client, client.lease("order"):
        assert not client.lock("order").acquire(blocking=False)


def test_a_wait_ends_when_another_thread_advances() -> None:
    results: list[bool] = []
    with MemoryClient() as client, client.lease("order"):
        thread = threading.Thread(target=lambda: results.append(client.lock("order").acquire(timeout=5)))
        thread.start()
        assert eventually(lambda: client.stats()["waiting_now"] == 1, 30)
        end = time.monotonic() + 30
        while thread.is_alive() and time.monotonic() < end:
            client.advance(1)
        thread.join(10)
    assert results == [False]


def test_code_that_waits_hung_because_time_stood_still() -> None:
    with MemoryClient() as client, client.lease("order"), client.passing(speed=100):
        assert not client.lock("order").acquire(timeout=30)
        with pytest.raises(redlatch.AcquireTimeout), client.lock("order", wait=30):
            pytest.fail("two holders")


def test_time_passes_at_the_given_speed_and_stands_still_after_the_block() -> None:
    with MemoryClient() as client, client.lock("order", ttl=3600, auto_renew=False) as lock:
        before = lock.remaining
        begin = time.monotonic()
        with client.passing(speed=10):
            assert eventually(lambda: lock.remaining < before - 1)
        passed, took = before - lock.remaining, time.monotonic() - begin
        assert 1 < passed <= 10 * took
        left = lock.remaining
        assert "redlatch-passing" not in [thread.name for thread in threading.enumerate()]
        assert lock.remaining == left


def test_what_is_renewed_outlives_the_time_that_passes() -> None:
    with MemoryClient() as client, client.lock("order", ttl=1) as lock:
        with client.passing(speed=1000):
            assert eventually(lambda: client.stats()["renewed"] >= 20)
        lock.check()


def test_time_stops_when_the_block_raises() -> None:
    with MemoryClient() as client:
        with pytest.raises(KeyError), client.passing():
            raise KeyError
        assert "redlatch-passing" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("speed", [0, -1, float("nan"), float("inf"), 1e9, "5", None])
def test_a_speed_that_is_none_is_refused(speed: Any) -> None:
    with MemoryClient() as client, pytest.raises(redlatch.ConfigError, match=r"^speed = .* from 0\.001 to 100000"):
        with client.passing(speed):
            pytest.fail("time passes")


def test_each_client_has_a_store_of_its_own_and_takes_options() -> None:
    with MemoryClient() as one, MemoryClient(label="two") as two, one.lock("order"), two.lock("order"):
        found = two.inspect("order")
        assert found is not None and found.owner is not None
        assert found.owner.endswith(":two")


# The plugin. Each in a process of its own, as the plugin of this process is loaded already.

USES = """
import redlatch

def test_it(redlatch_client):
    assert isinstance(redlatch_client, redlatch.Client)
    with redlatch_client.lock("order", ttl=10) as lock:
        redlatch_client.advance(60)
        lock.check()
    redlatch_client.lock("order").acquire()
    redlatch_client.lose("order")

def test_each_test_has_its_own(redlatch_client):
    assert not redlatch_client.lock("order").locked()
"""


def test_the_fixture_is_there_without_an_import(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(USES)
    result = pytester.runpytest_subprocess("-W", "error")
    result.assert_outcomes(passed=2)


def test_the_fixture_is_listed_with_what_it_does(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--fixtures")
    result.stdout.fnmatch_lines(["redlatch_client*", "*advance(seconds)*passing()*lose(name)*"])


def test_the_plugin_can_be_left_out(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(USES)
    result = pytester.runpytest_subprocess("-p", "no:redlatch.testing", "-W", "error")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*fixture 'redlatch_client' not found*"])


def test_the_plugin_works_under_xdist(pytester: pytest.Pytester) -> None:
    needs_framework("xdist")
    pytester.makepyfile(USES)
    result = pytester.runpytest_subprocess("-n", "2", "-W", "error")
    result.assert_outcomes(passed=2)


def test_the_plugin_works_while_coverage_measures(pytester: pytest.Pytester) -> None:
    needs_framework("pytest_cov")
    pytester.makepyfile(app="def lock(client):\n    return client.lock('order')\n")
    pytester.makepyfile(
        "import app\n\ndef test_it(redlatch_client):\n    with app.lock(redlatch_client) as held:\n        held.check()"
    )
    result = pytester.runpytest_subprocess("--cov=app", "-W", "error")
    result.assert_outcomes(passed=1)
    result.stdout.re_match_lines([r"app\.py +2 +0 +100%"])


def test_the_client_for_tests_is_not_collected_as_a_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("from redlatch.testing import *\n\ndef test_it():\n    MemoryClient().close()\n")
    result = pytester.runpytest_subprocess("-W", "error")
    result.assert_outcomes(passed=1)


def test_importing_redlatch_does_not_import_pytest() -> None:
    code = "import sys, redlatch; assert 'pytest' not in sys.modules and 'redlatch.testing' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


def test_the_client_for_tests_needs_no_pytest() -> None:
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "from redlatch.testing import MemoryClient\n"
        "with MemoryClient() as client, client.lock('order') as lock:\n"
        "    client.advance(100); lock.check()\n"
    )
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


def test_the_plugin_is_an_entry_point() -> None:
    from importlib.metadata import entry_points

    found = [entry.value for entry in entry_points(group="pytest11") if entry.name == "redlatch.testing"]
    assert found == ["redlatch.testing"]
    assert redlatch.__version__
