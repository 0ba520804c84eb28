"""A parent and three forked children count to 400 in a key, each step under one lock of one client.

Arguments: URL, prefix.
"""

from __future__ import annotations

import os
import sys

import redlatch
from harness import Connection

url, prefix = sys.argv[1:]
port = int(url.rsplit(":", 1)[1].split("/")[0])
key = f"{prefix}count"
client = redlatch.Client(url, key_prefix=prefix)


def count() -> None:
    with Connection(port) as connection:
        for _ in range(100):
            with client.lock("a", wait=60):
                connection.call("SET", key, int(connection.call("GET", key) or 0) + 1)


with client.lock("a"):
    pass
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        try:
            count()
            os._exit(0)
        finally:
            os._exit(1)
    children.append(pid)
count()
for pid in children:
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
with Connection(port) as connection:
    print(connection.call("GET", key))
    connection.call("DEL", key)
