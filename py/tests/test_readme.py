"""The Python programs of the documentation run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = ["README.md", "docs/python.md"]
ROOT = Path(__file__).parents[2]
# A block that begins with an import is a program; others are parts of one.
BLOCK = re.compile(r"^```python\n((?:import|from) .*?)^```$", re.MULTILINE | re.DOTALL)


def programs() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            line = text[: block.start()].count("\n") + 2
            found.append((f"{page}:{line}", block.group(1)))
    return found


def test_the_readme_has_programs() -> None:
    assert len([place for place, _ in programs() if place.startswith("README.md")]) == 2


@pytest.mark.parametrize(("place", "program"), programs(), ids=[place for place, _ in programs()])
def test_a_program_of_the_documentation_does_not_run(place: str, program: str) -> None:
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{place}: {done.stderr}"
    assert not done.stderr, f"{place}: {done.stderr}"
