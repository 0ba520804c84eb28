"""``help()`` says what the stub says."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redlatch import _native

STUB = ast.parse(Path(_native.__file__).with_name("_native.pyi").read_text(encoding="utf-8"))


def described(node: ast.Module | ast.ClassDef, owner: Any, path: str) -> Iterator[tuple[str, Any, str]]:
    """Everything below ``node`` with a text: its name, the object of the extension, the text."""
    for each in node.body:
        if isinstance(each, (ast.ClassDef, ast.FunctionDef)):
            found = inspect.getattr_static(owner, each.name)
            text = ast.get_docstring(each)
            if text is not None:
                yield f"{path}{each.name}", found, text
            if isinstance(each, ast.ClassDef):
                yield from described(each, found, f"{path}{each.name}.")


DESCRIBED = list(described(STUB, _native, ""))


def test_the_stub_describes_the_classes() -> None:
    named = {each[0] for each in DESCRIBED}
    assert {"Lock", "Lock.acquire", "Lock.fence", "Lease.into_token", "CancelToken.cancel"} <= named


@pytest.mark.parametrize(("found", "text"), [each[1:] for each in DESCRIBED], ids=[each[0] for each in DESCRIBED])
def test_help_said_less_than_the_stub(found: Any, text: str) -> None:
    assert inspect.getdoc(found) == text
