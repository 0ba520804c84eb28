"""Locks for Python, as a player of the benchmark: ``tests/peers/README.md`` names the commands.

Argument: the server's URL; or the word ``about``, for one line of versions. That fails where redlatch is not an installed
wheel; of the other locks those that are not installed are left out.
"""

from __future__ import annotations

import concurrent.futures
import importlib.metadata
import json
import platform
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import redlatch

# On a busy machine a reply may take longer than the default limit, which is no part of what is measured.
PATIENCE = 60
# How long each holder keeps a shared lock, in seconds.
HOLD = 0.001


class Lock(Protocol):
    # Each answers with something else: True, or the lock itself.
    def acquire(self) -> Any: ...
    def release(self) -> Any: ...


class Connections:
    """What the locks of this process share, each made when it is first needed."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._redlatch: redlatch.Client | None = None
        self._redis: Any = None

    def redlatch(self) -> redlatch.Client:
        if self._redlatch is None:
            self._redlatch = redlatch.Client(self.url, connect_timeout=PATIENCE, io_timeout=PATIENCE)
        return self._redlatch

    def redis(self) -> Any:
        if self._redis is None:
            import redis

            self._redis = redis.Redis.from_url(self.url, socket_connect_timeout=PATIENCE, socket_timeout=PATIENCE)
        return self._redis


def make_redlatch(to: Connections, name: str) -> Lock:
    return to.redlatch().lock(name)


def make_redis_py(to: Connections, name: str, **settings: Any) -> Lock:
    import redis.lock

    lock: Lock = redis.lock.Lock(to.redis(), name, **settings)
    return lock


def make_python_redis_lock(to: Connections, name: str, **settings: Any) -> Lock:
    import redis_lock

    lock: Lock = redis_lock.Lock(to.redis(), name, **settings)
    return lock


def make_pottery(to: Connections, name: str) -> Lock:
    import pottery

    lock: Lock = pottery.Redlock(key=name, masters={to.redis()})
    return lock


def make_portalocker(to: Connections, name: str, **settings: Any) -> Lock:
    import portalocker

    lock: Lock = portalocker.RedisLock(name, connection=to.redis(), timeout=PATIENCE, **settings)
    return lock


class Subject(NamedTuple):
    package: str
    make: Callable[[Connections, str], Lock]


SUBJECTS = {
    "redlatch_python": Subject("redlatch", make_redlatch),
    "redis_py": Subject("redis", make_redis_py),
    "redis_py_eager": Subject("redis", lambda to, name: make_redis_py(to, name, sleep=0.001)),
    "python_redis_lock": Subject("python-redis-lock", make_python_redis_lock),
    "python_redis_lock_renewing": Subject(
        "python-redis-lock", lambda to, name: make_python_redis_lock(to, name, expire=30, auto_renewal=True)
    ),
    "pottery": Subject("pottery", make_pottery),
    "portalocker": Subject("portalocker", make_portalocker),
    "portalocker_eager": Subject(
        "portalocker", lambda to, name: make_portalocker(to, name, check_interval=0.002, thread_sleep_time=0.002)
    ),
}


def version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def about() -> str:
    source = importlib.metadata.distribution("redlatch").read_text("direct_url.json")
    if source and json.loads(source).get("dir_info", {}).get("editable"):
        sys.exit("redlatch is a development install here, and the benchmark measures the wheel")
    packages = {subject.package: version_of(subject.package) for subject in SUBJECTS.values()}
    found = [f"{package} {version}" for package, version in packages.items() if version is not None]
    return f"peers: Python {platform.python_version()}, {', '.join(found)}"


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def say(*words: object) -> None:
    print(*words, flush=True)


class Player:
    def __init__(self, url: str) -> None:
        self.connections = Connections(url)
        self.locks: dict[str, Lock] = {}

    def make(self, subject: str) -> Lock:
        return SUBJECTS[subject].make(self.connections, f"peers:{subject}")

    def lock(self, subject: str) -> Lock:
        if subject not in self.locks:
            self.locks[subject] = self.make(subject)
        return self.locks[subject]

    def pair(self, subject: str, count: str) -> None:
        lock = self.lock(subject)
        acquire, release, clock = lock.acquire, lock.release, time.perf_counter_ns
        times = []
        for _ in range(int(count)):
            begin = clock()
            granted = acquire()
            release()
            times.append(clock() - begin)
            if not granted:
                raise RuntimeError("the lock is free")
        say("took", *times)

    def hold(self, subject: str) -> None:
        if not self.lock(subject).acquire():
            raise RuntimeError("the lock is free")
        say("held")

    def wait(self, subject: str) -> None:
        acquire = self.lock(subject).acquire
        say("waits")
        asked = now()
        granted = acquire()
        instant = now()
        if not granted:
            raise RuntimeError("the lock is released in time")
        say("granted", asked, instant)

    def release(self, subject: str, millis: str) -> None:
        release = self.lock(subject).release
        time.sleep(float(millis) / 1000)
        released = now()
        release()
        say("released", released)

    def share(self, subject: str, threads: str, millis: str) -> None:
        end = time.monotonic() + float(millis) / 1000

        def contend(_: int) -> str:
            lock = self.make(subject)
            grants = []
            while time.monotonic() < end:
                if not lock.acquire():
                    raise RuntimeError("nobody keeps the lock for long")
                grants.append(now())
                time.sleep(HOLD)
                lock.release()
            return ",".join(map(str, grants)) or "-"

        count = int(threads)
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            say("shared", *pool.map(contend, range(count)))


def main() -> None:
    if sys.argv[1] == "about":
        say(about())
        return
    player = Player(sys.argv[1])
    playable = []
    for name, subject in SUBJECTS.items():
        if version_of(subject.package) is None:
            say("lacks", name, f"{subject.package} is not installed: `pip install -r py/requirements/bench.txt`")
        else:
            playable.append(name)
    say("ready", *playable)
    for line in sys.stdin:
        command, *words = line.split()
        getattr(player, command)(*words)


main()
