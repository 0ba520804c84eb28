"""Greenlets wait for locks under gevent. Arguments: URL, prefix, "one process" or "two processes"."""

from gevent import monkey

monkey.patch_all()

import subprocess  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

import gevent  # noqa: E402
import redlatch  # noqa: E402

url, prefix, pool = sys.argv[1:]
client = redlatch.Client(url, key_prefix=prefix)

# Someone else has the lock: a greenlet of another client, or another process.
contender: subprocess.Popen[str] | None = None
holder = redlatch.Client(url, key_prefix=prefix).lease("a")
if pool == "two processes":
    contender = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("contender.py")), url, prefix],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert contender.stdout is not None and contender.stdout.readline() == "running\n"
holder.acquire()

gaps: list[float] = []
over = False


def tick() -> None:
    last = time.monotonic()
    while not over:
        gevent.sleep(0.005)
        now = time.monotonic()
        gaps.append(now - last)
        last = now


inside: list[int] = []
counted = 0


def work(number: int) -> None:
    global counted
    with client.lock("a", wait=60) as held:
        assert not inside
        inside.append(number)
        before = counted
        gevent.sleep(0.002)
        counted = before + 1
        assert inside.pop() == number and held.hold_count == 1
    assert held.hold_count == 0


ticker = gevent.spawn(tick)
workers = [gevent.spawn(work, number) for number in range(50)]
gevent.sleep(1)
assert counted == 0
# A hub that were stopped by the waits had made no step in this second.
assert len(gaps) > 50 and max(gaps) < 0.5, (len(gaps), max(gaps))
print("the hub ran")
holder.release()
gevent.joinall(workers, timeout=30, raise_error=True)
over = True
ticker.join()
assert counted == 50, counted
assert max(gaps) < 0.5, max(gaps)
if contender is not None:
    contender.communicate("stop\n", timeout=30)
print("fifty greenlets took turns")
