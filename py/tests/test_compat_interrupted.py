"""The stand-in for redis-py's lock, whose Python code a signal may interrupt anywhere."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
import redlatch
from harness import MakeClient, Server, eventually
from redlatch.compat import redis_py

FILE = redis_py.__file__


class Stop(BaseException):
    """What a signal's handler raises."""


class Interruption:
    """Raises ``Stop`` before the instruction of this number of the stand-in's code, as a signal's handler may."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.where: str | None = None

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename != FILE:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self._left -= 1
            if self._left == 0:
                self.where = f"{frame.f_code.co_name}, line {frame.f_lineno}"
                sys.settrace(None)
                raise Stop
        return self._trace

    def __enter__(self) -> Interruption:
        self._before = sys.gettrace()
        # 3.12 looks at this when the tracing begins.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)


@pytest.fixture
def shared(make_client: MakeClient, server: Server) -> Iterator[redlatch.Client]:
    logging.getLogger("redlatch").setLevel(logging.CRITICAL)
    yield make_client(server.url)
    logging.getLogger("redlatch").setLevel(logging.NOTSET)


def test_an_interrupted_with_of_the_stand_in_kept_a_lock_that_nobody_could_release(
    shared: redlatch.Client, server: Server, prefix: str
) -> None:
    # Without a timeout: what stays is renewed for as long as the process lives.
    stuck: list[str] = []
    kept = set(redis_py._kept._leases)
    number, points = 0, set()
    while True:
        number += 1
        lock = redis_py.Lock(shared, f"a{number}")
        interruption = Interruption(number)
        try:
            with interruption:
                with lock:
                    pass
        except Stop:
            pass
        else:
            break
        assert interruption.where is not None
        points.add(interruption.where)
        if lock._local.__dict__.get("lease") is not None:
            # The interruption came before the hold was given up: it is the caller's to end, also by redis-py's rules.
            lock.release()
        if not eventually(lambda: server.call("EXISTS", f"{prefix}a{number}") == 0, 2):
            stuck.append(interruption.where)
    assert stuck == []
    assert set(redis_py._kept._leases) == kept
    # It was interrupted in acquire and in release, line by line, or this would show nothing.
    names = [point.split(",")[0] for point in points]
    assert number > 100 and names.count("acquire") > 5 and names.count("release") >= 4, sorted(points)
