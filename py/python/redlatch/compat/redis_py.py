"""A stand-in for ``redis.lock.Lock`` of redis-py, with its arguments, methods and key.

    from redlatch.compat.redis_py import Lock

    lock = redis_client.lock("order:17", timeout=10, lock_class=Lock)
    lock = Lock("redis://127.0.0.1:6379/0", "order:17", timeout=10)

It excludes redis-py's own lock on the same key, and is excluded by it, so that a service can move over process by
process. What it does otherwise than redis-py stands in ``docs/python-migration.md``; new code uses ``redlatch.Client``.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace, TracebackType
from typing import Any, Literal

from redlatch._client import Client
from redlatch._errors import ConfigError, LostError, NotHeldError, RedlatchError, UnavailableError
from redlatch._native import TTL, Lease
from redlatch.compat._redis_client import client_for

try:
    from redis.exceptions import ConnectionError as _TheirConnectionError
    from redis.exceptions import LockError as _TheirLockError
    from redis.exceptions import LockNotOwnedError as _TheirLockNotOwnedError
except ImportError:

    class _TheirConnectionError(Exception):  # type: ignore[no-redef]
        """Stands in where redis-py is not installed."""

    class _TheirLockError(Exception):  # type: ignore[no-redef]
        """Stands in where redis-py is not installed."""

    class _TheirLockNotOwnedError(_TheirLockError):  # type: ignore[no-redef]
        """Stands in where redis-py is not installed."""


__all__ = ["Lock", "LockError", "LockNotOwnedError", "LockUnavailableError"]

_log = logging.getLogger(__name__)


class LockError(RedlatchError, _TheirLockError):
    """As ``redis.exceptions.LockError``, which it is too where redis-py is installed."""

    def __init__(self, message: str = "", *, name: str | None = None) -> None:
        RedlatchError.__init__(self, message, name=name)
        self.lock_name = name


class LockNotOwnedError(LockError, _TheirLockNotOwnedError):
    """As ``redis.exceptions.LockNotOwnedError``: the lock was lost. Its cause says why."""


class LockUnavailableError(UnavailableError, _TheirConnectionError):
    """No usable answer from the server: ``UnavailableError``, and redis-py's ``ConnectionError`` where installed."""


class Lock:
    """One lock by its key, as ``redis.lock.Lock``: not re-entrant, each thread with a hold of its own."""

    def __init__(
        self,
        redis: Any,
        name: str | bytes,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        """Raises ``ConfigError`` for what cannot be used. Opens no connection.

        ``redis``: a URL, a ``redis.Redis`` whose address and login are used, or a ``redlatch.Client``, whose
        ``key_prefix`` counts; the key of the others is ``name``. ``timeout``: seconds until the key lapses, 0.1 to
        86,400, without renewal; ``None`` or 0: until it is released, by a ttl of 30 s that is renewed while the process
        lives. ``sleep``: has no effect, as waiters are woken. ``blocking``, ``blocking_timeout``: defaults of
        ``acquire``. ``thread_local``: whether only the thread that acquired may release. ``raise_on_release_error``:
        whether the end of a ``with`` block raises when the lock was lost, or only logs it.
        """
        self.redis = redis
        self.name = name.decode() if isinstance(name, bytes) else name
        self.timeout = timeout
        self.sleep = sleep
        self.blocking = blocking
        self.blocking_timeout = blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        self._client: Client = client_for(redis)
        self._local: Any = threading.local() if self.thread_local else SimpleNamespace()
        self._new_lease()

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        """Acquires the lock: ``False`` when someone else, or this object already, has it.

        ``blocking_timeout``: longest time to wait in seconds, by default without a limit; 0 or less asks once. Raises
        ``ConfigError`` for a ``token``, ``LockUnavailableError``, and as ``redlatch.Lock.acquire``.
        """
        if token is not None:
            raise ConfigError("token = given: every lease has a new token of its own; see docs/python-migration.md")
        blocking = self.blocking if blocking is None else blocking
        limit = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        lease = self._new_lease()
        with _their_errors(self.name):
            if not blocking:
                acquired = lease.acquire(blocking=False)
            elif limit is None:
                acquired = lease.acquire()
            else:
                acquired = lease.acquire(timeout=max(limit, 0))
        if acquired:
            # In this order, and the other way round in release(): wherever a signal interrupts, the lease is kept only
            # while release() finds it, and is collected, and so released, when nothing refers to it.
            self._local.lease = lease
            _kept.keep(lease, ends_by_itself=bool(self.timeout))
        return acquired

    def release(self) -> None:
        """Releases the lock. Raises ``LockError`` when it is not held here, ``LockNotOwnedError`` when it was lost."""
        lease = self._held("release a lock that's not owned or is already unlocked")
        _kept.drop(lease)
        self._local.lease = None
        with _their_errors(self.name):
            lease.release()

    def do_release(self, expected_token: str | bytes) -> None:
        """Releases the hold that ``expected_token`` proves, by whomever it was acquired. Two round trips.

        Raises ``LockNotOwnedError`` when the lock is not held by that token.
        """
        token = expected_token.decode() if isinstance(expected_token, bytes) else expected_token
        lease = getattr(self._local, "lease", None)
        if lease is not None and lease.lost is None and lease.token == token:
            self.release()
            return
        with _their_errors(self.name):
            self._client.adopt(self.name, token).release()

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Resets the time that is left to ``timeout``. Raises ``ConfigError`` for any other time: see ``reacquire``."""
        lease = self._limited("extend")
        if not replace_ttl or additional_time != self.timeout:
            raise ConfigError(
                f"extend({additional_time!r}, replace_ttl={replace_ttl!r}): a lease has one ttl; only replace_ttl=True "
                f"with the timeout of the lock, {self.timeout!r} s, can be done, as by reacquire()"
            )
        return self._renew(lease)

    def reacquire(self) -> Literal[True]:
        """Resets the time that is left to ``timeout``.

        Raises ``LockError`` without one or when not held, ``LockNotOwnedError`` when lost.
        """
        return self._renew(self._limited("reacquire"))

    def locked(self) -> bool:
        """Whether anyone has the lock, by asking the server."""
        with _their_errors(self.name):
            return self._client.lock(self.name).locked()

    def owned(self) -> bool:
        """Whether this object has the lock, in this thread where ``thread_local``, by asking the server."""
        lease: Lease | None = getattr(self._local, "lease", None)
        if lease is None or not lease.held:
            return False
        with _their_errors(self.name):
            found = self._client.inspect(self.name)
        return found is not None and found.token == lease.token

    def __enter__(self) -> Lock:
        if self.acquire():
            return self
        raise LockError("Unable to acquire lock within the time specified", name=self.name)

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.release()
        except LockError as error:
            # An error of the body is what the caller must see.
            if self.raise_on_release_error and exc is None:
                raise
            _log.warning("lock %r was not held any more at the end of its with block: %s", self.name, error)

    def __repr__(self) -> str:
        return f"<redlatch.compat.redis_py.Lock {self.name!r}>"

    def _new_lease(self) -> Lease:
        """One for each hold, so that a second acquire of the same object waits for the first, as in redis-py."""
        try:
            return self._client.lease(self.name, ttl=self.timeout or TTL, auto_renew=not self.timeout)
        except (ConfigError, TypeError) as error:
            # Here the ttl is called timeout.
            option, _, text = str(error).partition(" ")
            if option != "ttl":
                raise
            raise type(error)(f"timeout {text}") from None

    def _held(self, action: str) -> Lease:
        lease: Lease | None = getattr(self._local, "lease", None)
        if lease is None:
            raise LockError(f"Cannot {action}", name=self.name)
        return lease

    def _limited(self, verb: str) -> Lease:
        lease = self._held(f"{verb} an unlocked lock")
        if not self.timeout:
            raise LockError(f"Cannot {verb} a lock with no timeout: it is renewed in the background", name=self.name)
        return lease

    def _renew(self, lease: Lease) -> Literal[True]:
        with _their_errors(self.name):
            lease.renew()
        return True


class _Kept:
    """Leases that were not released: one whose Lock is forgotten keeps its key until its timeout, as in redis-py."""

    def __init__(self) -> None:
        self._leases: dict[int, tuple[Lease, bool]] = {}
        self._next_sweep = 64

    def keep(self, lease: Lease, *, ends_by_itself: bool) -> None:
        self._leases[id(lease)] = (lease, ends_by_itself)
        if len(self._leases) >= self._next_sweep:
            for key, (known, _) in list(self._leases.items()):
                if known.lost is not None:
                    self._leases.pop(key, None)
            self._next_sweep = max(64, 2 * len(self._leases))

    def drop(self, lease: Lease) -> None:
        self._leases.pop(id(lease), None)

    def leave(self) -> None:
        """At the end of the process: keys with a timeout stay until then, others are released or lapse."""
        import ctypes

        for lease, ends_by_itself in list(self._leases.values()):
            if ends_by_itself:
                # A lease that the end of the interpreter collects would be released; one that is referred to stays.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(lease))


_kept = _Kept()
atexit.register(_kept.leave)


@contextmanager
def _their_errors(name: str) -> Iterator[None]:
    """Lets callers of redis-py catch what they are used to."""
    try:
        yield
    except (LostError, NotHeldError) as error:
        raise LockNotOwnedError(str(error), name=name) from error
    except LockError:
        raise
    except UnavailableError as error:
        raise LockUnavailableError(str(error), name=error.name) from error
