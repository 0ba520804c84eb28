"""Packages that may be missing."""

from __future__ import annotations

import importlib
import os
import sysconfig

import pytest


def needs_framework(*names: str) -> None:
    """Skips the test, or at the top of a module all of its tests, where one is not installed; a failure in CI."""
    for name in names:
        if os.environ.get("CI") == "true" and not sysconfig.get_config_var("Py_GIL_DISABLED"):
            importlib.import_module(name)
        else:
            pytest.importorskip(name)
