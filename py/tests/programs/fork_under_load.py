"""Forks a process whose threads wait, hold and renew. Arguments: URL, prefix, number of forks.

Each child acquires a lock of its own; one that does not end in time hangs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import redlatch

url, prefix, forks = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = redlatch.Client(url, key_prefix=prefix)
lost: list[redlatch.LostInfo] = []
stop = threading.Event()
failures: list[BaseException] = []


def hold(name: str) -> None:
    with client.lock(name, ttl=1, on_lost=lost.append) as held:
        token = held.token
        while not stop.wait(0.01):
            held.check()
            assert held.token == token


def cycle(name: str) -> None:
    while not stop.is_set():
        with client.lock(name, ttl=5, on_lost=lost.append):
            time.sleep(0.0005)


def wait() -> None:
    while not stop.is_set():
        if client.lock("held 0").acquire(timeout=0.2):
            # Its holder ends with this.
            assert stop.is_set(), "two holders"
            client.lock("held 0").release()


def guarded(work: Callable[..., None], *args: str) -> None:
    try:
        work(*args)
    except BaseException as error:
        failures.append(error)


threads = [threading.Thread(target=guarded, args=(hold, f"held {n}")) for n in range(3)]
threads += [threading.Thread(target=guarded, args=(cycle, "busy")) for _ in range(2)]
for thread in threads:
    thread.start()
while not all(client.lock(f"held {n}").locked() for n in range(3)):
    time.sleep(0.01)
threads += [threading.Thread(target=guarded, args=(wait,)) for _ in range(2)]
for thread in threads[-2:]:
    thread.start()


def child(number: int) -> None:
    # Ends only the child, by itself, should it hang.
    signal.alarm(20)
    code = 1
    try:
        with client.lock(f"child {number}", ttl=5) as own:
            own.check()
            code = 0
    finally:
        os._exit(code)


def reap(pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code == 0, "a child hangs" if code == -signal.SIGALRM else f"a child ended with {code}"


running: list[int] = []
for number in range(forks):
    pid = os.fork()
    if pid == 0:
        child(number)
    running.append(pid)
    if len(running) == 3:
        reap(running.pop(0))
for pid in running:
    reap(pid)
assert not lost, lost
stop.set()
for thread in threads:
    thread.join(30)
assert not failures, failures
stats = client.stats()
assert not any(stats["lost"].values()), stats
print(forks, "children acquired")
