"""A worker of the chaos run: ``worker.rs`` says what it is told and what it does, and its lines are those of ``journal.rs``.

Argument: the word ``about``, for one line of versions; or ``work``, and then the orders.
"""

from __future__ import annotations

import os
import platform
import random
import socket
import sys
import threading
import time

import redlatch

LOOK = 0.02


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Store:
    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.lines = self.socket.makefile("r")

    def ask(self, line: str) -> int | None:
        """The version of an accepted request."""
        self.socket.sendall(line.encode() + b"\n")
        word, number = self.lines.readline().split()
        return int(number) if word == "ok" else None


class Hand:
    """One thread of a worker."""

    def __init__(
        self, number: int, journal: int, store: str, seed: int, locks: list[redlatch.Lock], wait: float
    ) -> None:
        self.number = number
        self.journal = journal
        self.store = Store(store)
        self.dice = random.Random(seed)
        self.locks = locks
        self.fifth = -(-len(locks) // 5)
        self.wait = wait

    def note(self, verb: str, at: int, key: int, rest: str = "-") -> None:
        """One line by one system call: it is whole or it is not there."""
        os.write(self.journal, f"{self.number} {verb} {at} {key} {rest}\n".encode())

    def work(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            self.turn()
        self.note("done", now(), 0)

    def turn(self) -> None:
        time.sleep(self.dice.uniform(0, 0.02))
        key = self.choose()
        lock = self.locks[key]
        self.note("waits", now(), key)
        try:
            granted = lock.acquire(timeout=self.wait)
        except redlatch.RedlatchError as error:
            kind = "unavailable" if isinstance(error, redlatch.UnavailableError) else "other"
            self.note("failed", now(), key, f"{kind} {error}".replace("\n", " "))
            return
        if granted:
            self.keep(key, lock)
        else:
            self.note("busy", now(), key)

    def choose(self) -> int:
        """The first fifth of the locks is crowded, the last one quiet."""
        count = len(self.locks)
        kind = self.dice.random()
        if kind < 0.04:
            return self.dice.randrange(count - self.fifth, count)
        return self.dice.randrange(self.fifth if kind < 0.24 else count - self.fifth)

    def keep(self, key: int, lock: redlatch.Lock) -> None:
        """Every time that is written down is read before the lock is asked, so that the answer holds for it."""
        at = now()
        deadline = at + int(lock.remaining * 1e9)
        if lock.held:
            self.note("granted", at, key, f"{deadline} {lock.fence}")
            deadline = self.use(key, lock, deadline)
            at = now()
            lost = lock.lost
            self.note("ends", min(at, deadline) if lost == "expired" else at, key, lost or "-")
        else:
            self.note("stale", at, key)
        outcome = "released"
        try:
            lock.release()
        except redlatch.LostError as error:
            outcome = error.reason
        except redlatch.RedlatchError as error:
            outcome = f"error {error}".replace("\n", " ")
        self.note("released", now(), key, outcome)

    def use(self, key: int, lock: redlatch.Lock, deadline: int) -> int:
        """Reads the row and writes it some time later; a reckless one does not ask in between whether it still may."""
        fence = lock.fence
        version = self.store.ask(f"begin {key} {fence}")
        if version is None:
            self.refused(key, lock)
            return deadline
        deadline = self.hold(key, lock, deadline)
        reckless = self.dice.random() < 0.5
        if (reckless or lock.held) and self.store.ask(f"write {key} {fence} {version}") is None:
            self.refused(key, lock)
        return deadline

    def hold(self, key: int, lock: redlatch.Lock, deadline: int) -> int:
        """Mostly short; now and then longer than the ttl, so that the lease is renewed. Returns the last deadline."""
        kind = self.dice.random()
        span = (0.0002, 0.008) if kind < 0.85 else (0.02, 0.12) if kind < 0.98 else (1.3, 1.9)
        if key >= len(self.locks) - self.fifth:
            span = (0.3, 0.9)
        left = self.dice.uniform(*span)
        while left > 0 and lock.held:
            time.sleep(min(left, LOOK))
            left -= LOOK
            at = now()
            later = at + int(lock.remaining * 1e9)
            if later > deadline + int(LOOK * 1e9) and lock.held:
                deadline = later
                self.note("holds", at, key, str(deadline))
        return deadline

    def refused(self, key: int, lock: redlatch.Lock) -> None:
        at = now()
        if lock.held:
            self.note("refused", at, key)


def work(url: str, journal: str, store: str, *numbers: str) -> None:
    seed, threads, keys, ttl, io_timeout, wait = map(int, numbers)
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o644)
    stopping = threading.Event()
    with redlatch.Client(url, connect_timeout=io_timeout / 1000, io_timeout=io_timeout / 1000) as client:
        locks = [client.lock(f"chaos:{key}", ttl=ttl / 1000) for key in range(keys)]
        hands = [Hand(number, file, store, seed + number, locks, wait / 1000) for number in range(threads)]
        running = [threading.Thread(target=hand.work, args=(stopping,)) for hand in hands]
        for thread in running:
            thread.start()
        sys.stdin.read()
        stopping.set()
        for thread in running:
            thread.join()


if __name__ == "__main__":
    if sys.argv[1] == "about":
        print(f"redlatch {redlatch.__version__}, Python {platform.python_version()}")
    else:
        work(*sys.argv[2:])
