"""Each claim of docs/python.md stands with tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parents[1] / "docs" / "python.md"


def test_every_test_that_the_page_names_exists() -> None:
    names = re.findall(r"`(test_\w+)::(test_\w+)`", PAGE.read_text())
    assert len(names) > 40
    missing = [f"{file}::{name}" for file, name in names if f"\ndef {name}(" not in (TESTS / f"{file}.py").read_text()]
    assert missing == []


def test_every_row_names_a_test() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "---" not in line]
    bare = [row for row in rows if "::test_" not in row and "| shown by |" not in row]
    assert len(rows) > 30 and bare == []
