"""``redlatch.contrib.prometheus``."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
import redlatch
from harness import needs_framework
from redlatch.testing import MemoryClient

needs_framework("prometheus_client")
import prometheus_client  # noqa: E402
from redlatch.contrib.prometheus import RedlatchCollector  # noqa: E402


@pytest.fixture
def memory() -> Iterator[MemoryClient]:
    with MemoryClient() as client:
        yield client


def sample(registry: prometheus_client.CollectorRegistry, name: str, **labels: str) -> float | None:
    value: float | None = registry.get_sample_value(name, {"client": "default", **labels})
    return value


def registry_of(collector: RedlatchCollector) -> prometheus_client.CollectorRegistry:
    registry = prometheus_client.CollectorRegistry(auto_describe=True)
    registry.register(collector)
    return registry


def test_what_a_client_does_is_counted(memory: MemoryClient) -> None:
    registry = registry_of(RedlatchCollector(memory))
    assert sample(registry, "redlatch_acquired_total") == 0
    with memory.lock("order:1"), memory.lock("order:2"):
        assert not memory.lease("order:1").acquire(blocking=False)
        assert sample(registry, "redlatch_held") == 2
    memory.lock("order:3").acquire()
    memory.lose("order:3")
    assert sample(registry, "redlatch_acquired_total") == 3
    assert sample(registry, "redlatch_busy_total") == 1
    assert sample(registry, "redlatch_released_total") == 2
    assert sample(registry, "redlatch_held") == 0
    assert sample(registry, "redlatch_waiting") == 0
    assert sample(registry, "redlatch_lost_total", reason="taken") == 1
    assert sample(registry, "redlatch_lost_total", reason="expired") == 0


def test_every_reason_of_a_loss_has_a_sample_from_the_start(memory: MemoryClient) -> None:
    registry = registry_of(RedlatchCollector(memory))
    for reason in redlatch.LostReason:
        assert sample(registry, "redlatch_lost_total", reason=reason.value) == 0


def test_times_are_summaries_in_seconds(memory: MemoryClient) -> None:
    registry = registry_of(RedlatchCollector(memory))
    assert sample(registry, "redlatch_hold_seconds_count") == 0
    assert sample(registry, "redlatch_hold_seconds", quantile="0.5") is None
    for seconds in (1, 1, 10):
        with memory.lock("order"):
            memory.advance(seconds)
    assert sample(registry, "redlatch_hold_seconds_count") == 3
    assert sample(registry, "redlatch_hold_seconds_sum") == pytest.approx(12, rel=0.01)
    assert sample(registry, "redlatch_hold_seconds", quantile="0.5") == pytest.approx(1, rel=0.01)
    assert sample(registry, "redlatch_hold_seconds", quantile="0.99") == pytest.approx(10, rel=0.01)
    assert sample(registry, "redlatch_hold_seconds", quantile="0.999") == pytest.approx(10, rel=0.01)
    assert sample(registry, "redlatch_hold_max_seconds") == pytest.approx(10, rel=0.01)
    assert sample(registry, "redlatch_wait_seconds_count") == 3
    assert sample(registry, "redlatch_hold_ttl_ratio_count") == 3
    assert sample(registry, "redlatch_hold_ttl_max_ratio") == pytest.approx(10 / 30, rel=0.02)
    with memory.lock("order"):
        memory.advance(15)
    assert sample(registry, "redlatch_renewal_delay_max_seconds") == 0
    assert (sample(registry, "redlatch_renewal_delay_seconds_count") or 0) >= 1


def test_the_lease_held_longest_shows_for_how_long_and_not_its_name(memory: MemoryClient) -> None:
    registry = registry_of(RedlatchCollector(memory))
    assert sample(registry, "redlatch_longest_hold_seconds") == 0
    with memory.lock("order"):
        memory.advance(4)
        with memory.lock("other"):
            memory.advance(1)
            assert sample(registry, "redlatch_longest_hold_seconds") == pytest.approx(5)
    assert sample(registry, "redlatch_longest_hold_seconds") == 0


def test_every_counter_of_the_stats_is_exported(memory: MemoryClient) -> None:
    exported = {family.name for family in RedlatchCollector(memory).collect()}
    numbers = [key for key, value in memory.stats().items() if isinstance(value, int)]
    assert len(numbers) > 20
    for key in numbers:
        names = {f"redlatch_{key}", f"redlatch_{key.removesuffix('_now')}", "redlatch_background_releases"}
        wanted = names if key == "background_now" else names - {"redlatch_background_releases"}
        assert wanted & exported, f"{key} is not exported"


def test_names_follow_the_rules_of_prometheus(memory: MemoryClient) -> None:
    registry = registry_of(RedlatchCollector(memory))
    text = prometheus_client.generate_latest(registry).decode()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        assert re.fullmatch(r"redlatch_[a-z_]+", name), name
        assert name.endswith("_total") == (kind == "counter"), name
        if kind == "summary":
            assert name.endswith(("_seconds", "_ratio")), name
    assert text.count("# HELP redlatch_") == text.count("# TYPE redlatch_") > 25


def test_the_names_of_locks_are_not_exported(memory: MemoryClient) -> None:
    registry = registry_of(RedlatchCollector(memory))
    with memory.lock("customer-4711"):
        assert not memory.lease("customer-4711").acquire(blocking=False)
        assert "4711" not in prometheus_client.generate_latest(registry).decode()


def test_several_clients_are_told_apart_by_their_labels(memory: MemoryClient) -> None:
    with MemoryClient() as other:
        registry = registry_of(RedlatchCollector({"orders": memory, "reports": other}))
        with other.lock("report"):
            pass
        assert sample(registry, "redlatch_acquired_total", client="orders") == 0
        assert sample(registry, "redlatch_acquired_total", client="reports") == 1
        text = prometheus_client.generate_latest(registry).decode()
        assert text.count("# TYPE redlatch_acquired_total") == 1


def test_a_second_collector_in_one_registry_exported_every_metric_twice(memory: MemoryClient) -> None:
    registry = registry_of(RedlatchCollector(memory))
    with pytest.raises(ValueError, match="redlatch_acquired"):
        registry.register(RedlatchCollector(memory))


def test_a_closed_client_is_still_scraped(memory: MemoryClient) -> None:
    registry = registry_of(RedlatchCollector(memory))
    with memory.lock("order"):
        pass
    memory.close()
    assert sample(registry, "redlatch_acquired_total") == 1


FORKING = """
import os
from prometheus_client import CollectorRegistry
import redlatch
from redlatch.contrib.prometheus import RedlatchCollector

client = redlatch.Client("memory://")
registry = CollectorRegistry()
registry.register(RedlatchCollector(client))

def acquired():
    return registry.get_sample_value("redlatch_acquired_total", {"client": "default"})

for _ in range(3):
    with client.lock("order"):
        pass
child = os.fork()
if child == 0:
    before = acquired()
    with client.lock("other"):
        pass
    os._exit(0 if (before, acquired()) == (0, 1) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert acquired() == 3
"""


def test_a_forked_child_counts_for_itself() -> None:
    done = subprocess.run([sys.executable, "-c", FORKING], timeout=60, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_without_prometheus_client_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['prometheus_client'] = None; import redlatch.contrib.prometheus"
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False, capture_output=True, text=True)
    assert "needs prometheus_client: pip install 'redlatch[prometheus]'" in done.stderr
