"""Prints which modules that redlatch needs on threads of its own are there as soon as it is."""

import redlatch  # noqa: F401, I001

import sys

print(*(name for name in ("logging", "threading") if name in sys.modules), sep="\n")
