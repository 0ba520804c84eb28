"""What can go wrong. "Someone else has the lock" is not here: that is ``False`` from ``acquire``."""

from __future__ import annotations

from typing import Any

from redlatch._types import LostReason


class RedlatchError(Exception):
    """Base of all errors of redlatch. Texts never contain tokens or passwords."""

    name: str | None
    """The lock's name, where the error is about one."""

    def __init__(self, message: str = "", *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class ConfigError(RedlatchError, ValueError):
    """An option, URL or name that cannot be used; the text names it, its value and its bounds. Nothing was sent."""


class NotHeldError(RedlatchError, RuntimeError):
    """The caller does not hold this lock: never acquired, released before, or held by another thread, greenlet or task.

    The key on the server was not touched.
    """


class LostError(RedlatchError):
    """The lease ended while its holder still had it: what it protected may have another holder. Stop the work."""

    reason: LostReason
    """Why it was lost."""
    fence: int
    """The fencing token of the lost lease."""

    def __init__(
        self,
        message: str = "",
        *,
        name: str | None = None,
        reason: LostReason = LostReason.INTERNAL,
        fence: int = 0,
    ) -> None:
        super().__init__(message, name=name)
        self.reason = reason
        self.fence = fence


class AcquireTimeout(RedlatchError, TimeoutError):  # noqa: N818
    """The time to wait is over, and someone else still has the lock."""


class UnavailableError(RedlatchError, ConnectionError):
    """No usable answer from the server in time.

    Whether the lock is free is unknown; the same call may succeed later.
    """


class AuthenticationError(RedlatchError):
    """The server refuses the user name or password of the URL, or wants one."""


class PermissionDeniedError(RedlatchError):
    """The server's access rules forbid a command or key that the lock needs; the text names it."""


class KeyTypeError(RedlatchError):
    """A key that the lock needs holds data that is not redlatch's. Nothing was written."""


class IncompatibleError(RedlatchError):
    """The server answers, but cannot do what the lock needs. Retrying does not help."""


class NotReplicatedError(RedlatchError):
    """Fewer than ``min_replicas`` replicas acknowledged the grant in time, so it was given back."""


class CancelledError(RedlatchError):
    """The wait was called off by its ``CancelToken``. Its place in the queue is given up."""


class ClosedError(RedlatchError):
    """``close()`` was called on the client."""


def _make(kind: str, message: str, name: str | None, details: dict[str, Any]) -> RedlatchError:
    """The error of class ``kind``, for the extension."""
    error: RedlatchError = globals()[kind](message, name=name, **details)
    return error
