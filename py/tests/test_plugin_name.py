"""The pytest plugin by the name of its module, as suites that load plugins by hand do it."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


@pytest.mark.parametrize("how", ["conftest", "-p"])
def test_a_suite_that_names_the_plugin_crashed(pytester: pytest.Pytester, how: str) -> None:
    # pytest had it under another name already, and refuses one module under two names.
    pytester.makepyfile("def test_it(redlatch_client):\n    redlatch_client.lock('order').acquire()\n")
    if how == "conftest":
        pytester.makeconftest('pytest_plugins = ["redlatch.testing"]\n')
    options = ["-p", "redlatch.testing"] if how == "-p" else []
    result = pytester.runpytest_subprocess(*options, "-W", "error")
    result.assert_outcomes(passed=1)
