"""The type of the fixture ``make_client``."""

from __future__ import annotations

from typing import Any, Protocol

import redlatch


class MakeClient(Protocol):
    def __call__(self, url: str, **options: Any) -> redlatch.Client: ...
