"""Values that calls return and callbacks get."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

Seconds: TypeAlias = float | timedelta
"""A span of time: seconds as ``float`` or ``int``, or a ``timedelta``. Never a ``bool`` or a text."""


class LostReason(str, enum.Enum):
    """Why a lease ended before its holder released it. Equal to its word, for logs and metrics."""

    EXPIRED = "expired"
    """The deadline passed without a successful renewal: the server was away, or the process stalled."""
    TAKEN = "taken"
    """The server no longer has the holder's token under the key: deleted, evicted or taken over."""
    MAX_HOLD = "max_hold"
    """``max_hold`` was reached."""
    FORKED = "forked"
    """This process is a forked child; the lease belongs to its parent."""
    CLOSED = "closed"
    """The client was closed."""
    INTERNAL = "internal"
    """A defect inside redlatch ended it; please report it."""

    def __str__(self) -> str:
        return self.value


class Severity(str, enum.Enum):
    """How bad a ``Finding`` is. Equal to its word, for logs and metrics; ordered by how bad it is, a problem the greatest."""

    PROBLEM = "problem"
    """Locks are unsafe as the server is run, or cannot be had at all."""
    WARNING = "warning"
    """Locks work now. One failure that has to be expected can give a lock to two holders, or leave all without."""
    INFO = "info"
    """Good to know; also what could not be checked."""

    def __str__(self) -> str:
        return self.value

    # Those of str would order the words.
    def __lt__(self, other: str) -> bool:
        return self._rank() < Severity(other)._rank()

    def __le__(self, other: str) -> bool:
        return self._rank() <= Severity(other)._rank()

    def __gt__(self, other: str) -> bool:
        return self._rank() > Severity(other)._rank()

    def __ge__(self, other: str) -> bool:
        return self._rank() >= Severity(other)._rank()

    def _rank(self) -> int:
        return -list(Severity).index(self)


@dataclass(frozen=True)
class Finding:
    """Something that ``Client.check_server`` has found. ``str()`` is one line for a log."""

    severity: Severity
    """How bad it is."""
    kind: str
    """What it is about, in one of the words of ``docs/operations.md``; later versions may add some."""
    server: str
    """The server, node or sentinel that it is about, as a URL without credentials."""
    message: str
    """What was found, what follows, and what to do, in English. Its wording may change in any release."""

    def __str__(self) -> str:
        return f"{self.severity} {self.kind} at {self.server}: {self.message}"


@dataclass(frozen=True)
class LostInfo:
    """A lease that was lost: what ``on_lost`` gets.

    Its token is left out of ``repr``, but not by ``dataclasses.asdict``: do not log that.
    """

    name: str
    """The lock's name."""
    token: str = field(repr=False)
    """The token of the lost lease."""
    fence: int
    """The fencing token of the lost lease."""
    reason: LostReason
    """Why it was lost."""


@dataclass(frozen=True)
class LockInfo:
    """A lock as ``Client.inspect`` found it; out of date as soon as it is returned.

    Its token is left out of ``repr``, but not by ``dataclasses.asdict``: do not log that.
    """

    name: str
    """The lock's name."""
    token: str = field(repr=False)
    """The holder's token; of a plain client, its value."""
    owner: str | None
    """Who has it, ``<host>:<pid>[:<label>]``; ``None`` for a client that is not redlatch."""
    ttl_left: float | None
    """Seconds until the key lapses unless renewed; ``None`` for a key without ttl, which never lapses."""
    fence: int | None
    """The last fence given for this lock: the holder's, unless a plain client has it. ``None`` when none is kept."""
    waiters: int
    """How many wait in its queue; some may be gone."""
