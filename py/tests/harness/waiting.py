"""Waiting for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(condition: Callable[[], object], within: float = 5.0) -> bool:
    """Whether ``condition`` becomes true within so many seconds."""
    end = time.monotonic() + within
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True
