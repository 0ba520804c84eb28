"""Imports redlatch in a subinterpreter and prints the error. Argument: "main" when the main one imports it before."""

from __future__ import annotations

import importlib
import sys
from typing import Any

if sys.argv[1] == "main":
    importlib.import_module("redlatch")

CODE = """
try:
    import redlatch
except ImportError as error:
    assert "subinterpreter" in str(error), error
    print("ImportError", flush=True)
"""
interpreters: Any = importlib.import_module("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
each = interpreters.create()
assert interpreters.run_string(each, CODE) is None
interpreters.destroy(each)
