"""Processes count to 100 in a key, each step under one lock. Arguments: URL, prefix, start method."""

from __future__ import annotations

import multiprocessing
import sys

import redlatch
from harness import Connection

url, prefix, method = sys.argv[1:] if len(sys.argv) == 4 else ("", "", "")
# Made before the children are forked; a spawned child makes its own when it imports this file.
client = redlatch.Client(url, key_prefix=prefix) if url else None


def count(url: str, prefix: str) -> None:
    key = f"{prefix}count"
    own = client or redlatch.Client(url, key_prefix=prefix)
    with Connection(int(url.rsplit(":", 1)[1].split("/")[0])) as connection:
        for _ in range(25):
            with own.lock("a", wait=60):
                connection.call("SET", key, int(connection.call("GET", key) or 0) + 1)


if __name__ == "__main__":
    assert client is not None
    if method == "fork":
        with client.lock("a"):
            pass
    multiprocessing.set_start_method(method)
    processes = [multiprocessing.Process(target=count, args=(url, prefix)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    with Connection(int(url.rsplit(":", 1)[1].split("/")[0])) as connection:
        print(connection.call("GET", f"{prefix}count"))
        connection.call("DEL", f"{prefix}count")
