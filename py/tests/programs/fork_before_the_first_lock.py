"""Makes a client and locks, counts threads, and forks. Arguments: URL, prefix."""

from __future__ import annotations

import os
import sys

import redlatch

client = redlatch.Client(sys.argv[1], key_prefix=sys.argv[2])
lock, lease = client.lock("a"), client.lease("b", on_lost=print)
repr((client, lock, lease, lock.hold_count, client.stats()))
assert len(os.listdir("/proc/self/task")) == 1
pid = os.fork()
with lock:
    pass
if pid == 0:
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
print("one thread")
