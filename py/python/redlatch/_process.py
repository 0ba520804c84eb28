"""What has to be there before the extension runs."""

from __future__ import annotations

import contextlib
import importlib

# The extension calls logging and threading from threads of its own. A first import there, while the main thread forks,
# would run their fork hooks by half, and leave the child a module that is never finished.
import logging as logging
import sys
import threading as threading
from typing import Any

# From 3.12 on the interpreter itself refuses the extension in a subinterpreter. Before that it would share one state
# among all of them, and run callbacks in another interpreter than they belong to.
if sys.version_info < (3, 12):
    _interpreters: Any = None
    with contextlib.suppress(ImportError):
        _interpreters = importlib.import_module("_xxsubinterpreters")
    if _interpreters is not None and _interpreters.get_current() != _interpreters.get_main():
        raise ImportError("redlatch does not support subinterpreters")
