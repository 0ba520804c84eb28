"""Counts up the number in a file under a lock that other processes use too: counts.py URL NAME FILE ROUNDS"""

from __future__ import annotations

import sys
from pathlib import Path

import redlatch


def main() -> None:
    """Counts."""
    url, name, file, rounds = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    lock = redlatch.Client(url).lock(name)
    last = 0
    for _ in range(rounds):
        with lock as held:
            assert held.fence > last
            last = held.fence
            count = int(file.read_text())
            held.check()
            file.write_text(str(count + 1))


if __name__ == "__main__":
    main()
