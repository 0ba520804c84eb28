"""A signal interrupts a greenlet at the moment of its grant. Arguments: URL, prefix, process id of the server."""

from gevent import monkey

monkey.patch_all()

import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402

import gevent  # noqa: E402
import redlatch  # noqa: E402

url, prefix, server = sys.argv[1], sys.argv[2], int(sys.argv[3])
sleep = gevent.sleep
sleep_of_a_thread = monkey.get_original("time", "sleep")
start_thread = monkey.get_original("_thread", "start_new_thread")
this_thread = monkey.get_original("_thread", "get_ident")

client = redlatch.Client(url, key_prefix=prefix, io_timeout=10)
holder = redlatch.Client(url, key_prefix=prefix, io_timeout=10).lease("a", ttl=60)


class Interrupted(Exception):
    pass


def handler(number: int, frame: object) -> None:
    if gevent.getcurrent() is waiter:
        raise Interrupted


signal.signal(signal.SIGUSR1, handler)
waiter: gevent.Greenlet | None = None


def interrupt() -> None:
    # The greenlet's request is in the stopped server by now, and its grant comes with the signal: to this thread, as
    # it would cut the request of the other one short.
    sleep_of_a_thread(0.05)
    signal.pthread_kill(this_thread(), signal.SIGUSR1)
    os.kill(server, signal.SIGCONT)


def between_two_looks(seconds: float = 0) -> None:
    """What a waiting greenlet sleeps with: the lock becomes free, another greenlet runs, the server stops."""
    global armed
    sleep(seconds)
    if not armed:
        return
    armed = False
    holder.release()
    # The push arrives.
    sleep(0.05)
    gevent.spawn(lambda: client.lock("b").hold_count).join()
    os.kill(server, signal.SIGSTOP)
    start_thread(interrupt, ())


def wait() -> str:
    before = client.stats()["acquired"]
    try:
        lock.acquire(timeout=30)
    except Interrupted:
        at_its_grant = client.stats()["acquired"] > before
        # Not what the end of the greenlet cleans up.
        assert not lock.locked() and lock.hold_count == 0, "granted to a greenlet that was told otherwise"
        return "interrupted at its grant" if at_its_grant else "interrupted before"
    lock.release()
    return "not interrupted"


lock = client.lock("a", ttl=60)
gevent.sleep = between_two_looks
for _ in range(20):
    # Where the machine is slow, the signal misses the grant.
    assert holder.acquire(blocking=False), "still locked"
    armed = True
    waiter = gevent.spawn(wait)
    outcome = waiter.get(timeout=30)
    if outcome == "interrupted at its grant":
        break
gevent.sleep = sleep
print(outcome)
