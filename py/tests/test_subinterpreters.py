"""Subinterpreters are refused, not half supported."""

from __future__ import annotations

import pytest
from harness import run_program


@pytest.mark.parametrize("first", ["main", "sub"])
def test_a_subinterpreter_imported_redlatch(first: str) -> None:
    assert run_program("imports_in_subinterpreter", first) == ["ImportError"]
