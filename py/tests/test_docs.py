"""The Python pages of the documentation: their programs run, and the tests that they name exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parents[1]
PAGE = ROOT / "docs" / "python.md"
PROGRAMS = [
    pytest.param(program, id=f"{page.stem}-{number}")
    for page in (ROOT / "README.md", PAGE)
    for number, program in enumerate(re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE))
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_documentation_runs(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=TESTS, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_every_test_that_the_page_names_exists() -> None:
    names = re.findall(r"`(test_\w+)::(test_\w+)`", PAGE.read_text())
    assert len(names) > 40
    missing = [
        f"{file}::{name}" for file, name in names if f"\ndef {name}(" not in (TESTS / f"{file}.py").read_text()
    ]
    assert missing == []


def test_every_row_names_a_test() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "---" not in line]
    bare = [row for row in rows if "::test_" not in row and "| shown by |" not in row]
    assert len(rows) > 30 and bare == []
