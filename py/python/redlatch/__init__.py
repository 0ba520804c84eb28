"""One correct distributed lock on Redis and Valkey.

A lease is not a proof: a process that stalls longer than its ttl comes back believing in a lock that has another
holder. Call ``check()`` before every step that must not happen twice, and let the protected resource refuse a lower
``fence`` than it has seen.

    import redlatch

    client = redlatch.Client("redis://127.0.0.1:6379/0")
    with client.lock("order:17", ttl=10, wait=5) as held:
        db.execute("UPDATE orders SET fence = %s WHERE id = 17 AND fence <= %s", held.fence, held.fence)
        ...  # read, and work, however long: the lease is renewed in the background
        held.check()  # still ours, by this machine's clock
        db.execute("UPDATE orders SET state = 'paid' WHERE id = 17 AND fence = %s", held.fence)  # no row: stop
"""

from __future__ import annotations

import atexit
import os

# isort: off
from redlatch import _process  # noqa: F401, before the extension
from redlatch import _native

# isort: on
from redlatch._client import Client, OnLost
from redlatch._errors import (
    AcquireTimeout,
    AuthenticationError,
    CancelledError,
    ClosedError,
    ConfigError,
    IncompatibleError,
    KeyTypeError,
    LostError,
    NotHeldError,
    NotReplicatedError,
    PermissionDeniedError,
    RedlatchError,
    UnavailableError,
)
from redlatch._locked import current_lock
from redlatch._native import CancelToken, Lease, Lock, __version__
from redlatch._types import Finding, LockInfo, LostInfo, LostReason, Seconds, Severity

__all__ = [
    "AcquireTimeout",
    "AuthenticationError",
    "CancelToken",
    "CancelledError",
    "Client",
    "ClosedError",
    "ConfigError",
    "Finding",
    "IncompatibleError",
    "KeyTypeError",
    "Lease",
    "Lock",
    "LockInfo",
    "LostError",
    "LostInfo",
    "LostReason",
    "NotHeldError",
    "NotReplicatedError",
    "OnLost",
    "PermissionDeniedError",
    "RedlatchError",
    "Seconds",
    "Severity",
    "UnavailableError",
    "__version__",
    "current_lock",
]

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_native.after_fork)
atexit.register(_native.at_exit)
