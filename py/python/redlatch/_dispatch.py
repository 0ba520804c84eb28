"""The thread on which callbacks run and records of Rust threads are logged.

It is a plain thread of Python, so that the end of the interpreter may end it wherever it stands.
"""

from __future__ import annotations

import _thread
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from redlatch import _native
from redlatch._types import LostInfo


def start() -> None:
    """Starts the thread: a real one, also where gevent has replaced Python's."""
    begin: Callable[..., object] = _thread.start_new_thread
    monkey: Any = sys.modules.get("gevent.monkey")
    if monkey is not None:
        begin = monkey.get_original("_thread", "start_new_thread")
    begin(_run, ())


def _run() -> None:
    deliver: dict[str, Callable[[Any], None]] = {"call": call, "log": log, "drop": drop}
    pid = os.getpid()
    while (event := _native.next_event(pid)) is not None:
        function, argument = event
        try:
            deliver[function](argument)
        except BaseException as error:
            # A handler of the log raised it, or what ended with a reference.
            _native.report(error, deliver[function])
        # Not kept until the next event comes.
        del event, argument


def call(event: tuple[Callable[[LostInfo], object], LostInfo]) -> None:
    """Calls an ``on_lost`` callback. What it raises is logged, whatever it is: nobody else could be told."""
    function, info = event
    try:
        function(info)
    except BaseException:
        text = "an on_lost callback raised: lock %r, lost because %s"
        logging.getLogger("redlatch.events").exception(text, info.name, info.reason)


def log(fields: dict[str, Any]) -> None:
    """Hands a record to its logger."""
    logger = logging.getLogger(fields["name"])
    if logger.isEnabledFor(fields["levelno"]):
        fields["levelname"] = logging.getLevelName(fields["levelno"])
        logger.handle(logging.makeLogRecord(fields))


def drop(reference: object) -> None:
    """Ends a reference here, where whatever that runs does no harm."""
