"""A Python process that the benchmark steers by lines on standard input.

Argument: the server's URL; or the word ``about``, for one line that says what this interpreter would measure. It fails where
something is missing, and where redlatch is not an installed wheel.

| command | answer |
|---|---|
| ``pair SUBJECT COUNT`` | ``took`` and the time of each pair |
| ``nested SUBJECT COUNT`` | ``took`` and the mean time of a nested pair |
| ``many COUNT TTL`` | ``held`` once it holds as many locks |
| ``look`` | ``looked`` and the threads beyond those at the start, leases renewed and leases lost of these locks |

Times are nanoseconds.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import json
import os
import platform
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import redis
import redis.lock

import redlatch

PAIR = "bench:uncontended"
NESTED = "bench:nested"

# On a busy machine a reply may take longer than the default limit, and a request that is sent twice would count as two.
PATIENCE = 60


def about() -> str:
    source = importlib.metadata.distribution("redlatch").read_text("direct_url.json")
    if source and json.loads(source).get("dir_info", {}).get("editable"):
        sys.exit("redlatch is a development install here, and the benchmark measures the wheel")
    return (
        f"redlatch {redlatch.__version__}, Python {platform.python_version()}, redis {redis.__version__}"
    )


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def say(*words: object) -> None:
    print(*words, flush=True)


def time_pairs(lock: Any, count: int) -> list[int]:
    acquire, release, clock = lock.acquire, lock.release, time.perf_counter_ns
    times = []
    for _ in range(count):
        begin = clock()
        granted = acquire()
        release()
        times.append(clock() - begin)
        if not granted:
            raise RuntimeError("the lock is free")
    return times


def time_with_blocks(lock: Any, count: int) -> list[int]:
    clock = time.perf_counter_ns
    times = []
    for _ in range(count):
        begin = clock()
        with lock:
            pass
        times.append(clock() - begin)
    return times


def mean_nested_pair(lock: Any, count: int) -> float:
    """Ten pairs a turn: the loop takes about as long as a tenth of the fastest pair."""
    acquire, release = lock.acquire, lock.release
    turns = count // 10
    begin = time.perf_counter_ns()
    for _ in itertools.repeat(None, turns):
        acquire(), release()
        acquire(), release()
        acquire(), release()
        acquire(), release()
        acquire(), release()
        acquire(), release()
        acquire(), release()
        acquire(), release()
        acquire(), release()
        acquire(), release()
    return (time.perf_counter_ns() - begin) / (turns * 10)


class TwoCommands:
    """The floor for a lock in Python: the commands of redis-py's, without a lock around them."""

    COMPARE_AND_DELETE = (
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
    )

    def __init__(self, peers: redis.Redis, key: str) -> None:
        self.execute, self.key = peers.execute_command, key
        self.hash = peers.script_load(self.COMPARE_AND_DELETE)
        self.token = ""

    def acquire(self) -> bool:
        self.token = uuid.uuid4().hex
        return self.execute("SET", self.key, self.token, "NX", "PX", 30_000) is True

    def release(self) -> None:
        if self.execute("EVALSHA", self.hash, 1, self.key, self.token) != 1:
            raise RuntimeError("the lock is held")


class Player:
    def __init__(self, url: str) -> None:
        self.threads_at_start = threads()
        self.url = url
        self.client = redlatch.Client(url, connect_timeout=PATIENCE, io_timeout=PATIENCE)
        self.peers = redis.Redis.from_url(url, socket_connect_timeout=PATIENCE, socket_timeout=PATIENCE)
        # So long that no renewal is due within the measurement.
        nested, rlock = self.client.lock(NESTED, ttl=3600), threading.RLock()
        self.outer: dict[str, Any] = {"library": nested, "rlock": rlock}
        self.paired: dict[str, tuple[Callable[[Any, int], list[int]], Any]] = {
            "library": (time_pairs, self.client.lock(PAIR)),
            "with": (time_with_blocks, self.client.lock(PAIR)),
            "redis-py": (time_pairs, redis.lock.Lock(self.peers, PAIR)),
            "commands": (time_pairs, TwoCommands(self.peers, PAIR)),
        }
        self.many_client: redlatch.Client | None = None
        self.many_locks: list[redlatch.Lock] = []
        self.many_lost: list[redlatch.LostInfo] = []

    def pair(self, subject: str, count: str) -> None:
        measure, lock = self.paired[subject]
        say("took", *measure(lock, int(count)))

    def nested(self, subject: str, count: str) -> None:
        lock = self.outer[subject]
        with lock:
            mean = mean_nested_pair(lock, int(count))
        say("took", mean)

    def many(self, count: str, ttl: str) -> None:
        # With the default number of renewing threads, and the default time limits.
        client = self.many_client = redlatch.Client(self.url)
        start_all_threads(client, self.url)
        for number in range(int(count)):
            lock = client.lock(f"bench:many:{number}", ttl=float(ttl), on_lost=self.many_lost.append)
            lock.acquire()
            self.many_locks.append(lock)
        say("held")

    def look(self) -> None:
        assert self.many_client is not None
        not_held = sum(not lock.held for lock in self.many_locks)
        lost = max(not_held, len(self.many_lost))
        say("looked", threads() - self.threads_at_start, self.many_client.stats()["renewed"], lost)


def start_all_threads(client: redlatch.Client, url: str) -> None:
    """Makes a client need each of its threads once: renewal comes by itself."""
    with redlatch.Client(url) as other, other.lock("bench:contended"):
        if client.lock("bench:contended").acquire(timeout=0.3):
            raise RuntimeError("the lock has a holder")
    holder = threading.Thread(target=client.lock("bench:abandoned").acquire)
    holder.start()
    holder.join()
    told = threading.Event()
    lock = client.lock("bench:lost", on_lost=lambda info: told.set())
    lock.acquire()
    client.force_release("bench:lost")
    try:
        lock.renew()
        raise RuntimeError("the lock was taken away")
    except redlatch.LostError:
        pass
    if not told.wait(PATIENCE):
        raise RuntimeError("no callback told of the lost lock")
    try:
        lock.release()
    except redlatch.LostError:
        pass
    end = time.monotonic() + PATIENCE
    while client.stats()["background_released"] == 0:
        if time.monotonic() > end:
            raise RuntimeError("the lock of the thread that ended was not released")
        time.sleep(0.01)


def main() -> None:
    if sys.argv[1] == "about":
        say(about())
        return
    player = Player(sys.argv[1])
    say("ready")
    for line in sys.stdin:
        command, *words = line.split()
        getattr(player, command)(*words)


main()
