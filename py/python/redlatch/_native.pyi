"""The extension: the Rust core with Python's habits. Import from ``redlatch``, not from here."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, final

from redlatch._types import LostInfo, LostReason, Seconds

__version__: Final[str]

# Where a client connects that is given no URL.
DEFAULT_URL: Final[str]
# Defaults, from the core's tables. Times are seconds.
KEY_PREFIX: Final[str]
POOL_SIZE: Final[int]
CONNECT_TIMEOUT: Final[float]
IO_TIMEOUT: Final[float]
RENEWAL_THREADS: Final[int]
UNAVAILABLE_AFTER: Final[float]
TURN: Final[float]
FENCE_RETENTION: Final[float]
MIN_REPLICAS: Final[int]
REPLICA_TIMEOUT: Final[float]
TTL: Final[float]

def after_fork() -> None:
    """For the at-fork hook: in a forked child every lease of the parent is inert from here on."""

def at_exit() -> None:
    """For ``atexit``: runs the callbacks and log records that are queued, for 2 s at most; nothing is said after it."""

def next_event(pid: int) -> tuple[str, Any] | None:
    """For the dispatcher's thread of the process ``pid``: waits for an event; ``None`` in a child forked from it."""

def report(error: BaseException, place: object) -> None:
    """Passes what nobody catches to ``sys.unraisablehook``."""

@final
class CancelToken:
    """Calls off waits from another thread; pass it to ``acquire(cancel=…)``.

    Once cancelled it stays so: a wait that begins with it fails at once. One token can call off many waits.
    """

    def __new__(cls) -> CancelToken: ...
    def cancel(self) -> None:
        """Wakes every wait that uses this token; each raises ``CancelledError`` and gives up its place in the queue.

        A request that is on its way is not interrupted: that takes ``io_timeout`` at most. Does not block.
        """
    @property
    def cancelled(self) -> bool:
        """Whether ``cancel()`` was called."""

@final
class Lock:
    """A lock by name, re-entrant like ``threading.RLock``, for all processes that use the same server.

    Made by ``Client.lock``; asks no server until it is acquired. What is held is known by client, holder and name, so
    two objects of one name are the same lock. The holder is the running thread; where greenlets or asyncio tasks run,
    the running one of them.

    A lease is not a proof: call ``check()`` before every step that must not happen twice, and let the protected
    resource refuse a lower ``fence`` than it has seen.
    """

    @property
    def name(self) -> str:
        """The lock's name."""
    def acquire(self, blocking: bool = True, timeout: Seconds = -1, *, cancel: CancelToken | None = None) -> bool:
        """Acquires the lock: ``True`` when this holder has it, ``False`` when someone else has.

        ``blocking=False`` asks once. ``timeout`` is the longest time to wait in seconds, everything included; -1
        waits as long as someone else has it, and while the server is away for ``unavailable_after`` at most. A nested
        call counts, and asks no server.

        Signals are handled at least every 50 ms while the main thread waits; a signal that raises gives up the place in
        the queue, or the lock if it was just granted, before it is raised here.

        Raises ``LostError`` when this holder had the lock and its lease was lost: release it first.
        ``UnavailableError``, ``AuthenticationError``, ``PermissionDeniedError``, ``KeyTypeError``,
        ``IncompatibleError``, ``NotReplicatedError`` from the server; ``CancelledError``; ``ClosedError``;
        ``ConfigError`` or ``TypeError`` for a refused argument; ``RuntimeError`` for a call that would block inside a
        running asyncio event loop.
        """
    def release(self) -> None:
        """Releases the lock; a nested one counts down and asks no server. Within ``io_timeout``.

        The hold is gone whatever is raised. A release that the server did not confirm is a warning in the log: the
        background goes on until the key has lapsed.

        Raises ``NotHeldError`` when this holder does not have the lock, and then touches nothing; ``LostError`` when
        the lease was lost on the way: the work may have overlapped with another holder's.
        """
    def __enter__(self) -> Lock:
        """Acquires within the lock's ``wait``, or raises ``AcquireTimeout``. Returns the lock."""
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """Releases. An exception of the body wins over what the release raises, which becomes a note of it."""
    @property
    def fence(self) -> int:
        """The fencing token of this holder's lease: larger for every later lease. ``NotHeldError`` without one."""
    @property
    def token(self) -> str:
        """The token of this holder's lease, which proves ownership: keep it secret. ``NotHeldError`` without one."""
    @property
    def hold_count(self) -> int:
        """How often this holder has the lock; 0 when it does not. Asks no server."""
    @property
    def held(self) -> bool:
        """Whether this holder's lease is valid now, by the clock of this machine. Asks no server."""
    @property
    def remaining(self) -> float:
        """Seconds until the deadline of this holder's lease; renewal moves it. 0.0 when it is over or there is none."""
    @property
    def lost(self) -> LostReason | None:
        """Why this holder's lease was lost; ``None`` while it is not, and after its release."""
    def check(self) -> None:
        """Returns while this holder's lease is valid, by the clock of this machine. Asks no server.

        Raises ``LostError``; ``NotHeldError`` when this holder does not have the lock.
        """
    def renew(self) -> None:
        """Resets the lease to its full ttl now, within ``io_timeout``. Only needed with ``auto_renew=False``.

        Raises as ``check()``, and as ``acquire()`` for what the server answers; the lease then still counts until its
        deadline.
        """
    def locked(self) -> bool:
        """Whether anyone has the lock now, by asking the server. Out of date as soon as it is returned."""

@final
class Lease:
    """A lock held by this object: any thread, greenlet or task may release it, and nobody re-enters it.

    Made by ``Client.lease`` (not yet acquired) and ``Client.adopt`` (held, so not for ``with``). Otherwise as ``Lock``.
    An object that is collected while it holds the lock has it released in the background.
    """

    @property
    def name(self) -> str:
        """The lock's name."""
    def acquire(self, blocking: bool = True, timeout: Seconds = -1, *, cancel: CancelToken | None = None) -> bool:
        """As ``Lock.acquire``, but never nested: ``RedlatchError`` when this object has the lock already."""
    def release(self) -> None:
        """As ``Lock.release``, from any thread."""
    def into_token(self) -> str:
        """Hands the lease over: renewal stops, nothing is released, and whoever gets the token can adopt the lease.

        Renews it first, within ``io_timeout``, so that a full ttl is left. Raises as ``renew()``, and then ends the
        lease as ``release()`` does: within another ``io_timeout``, or else in the background. ``RedlatchError`` while
        another thread uses this object; it keeps the lease then.
        """
    def __enter__(self) -> Lease:
        """Acquires within the lease's ``wait``, or raises ``AcquireTimeout``. Returns the lease.

        ``RedlatchError`` when this object has the lock already, as after ``Client.adopt``: end that by ``release()``.
        """
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """Releases, unless the body handed the lease over or released it. Exceptions as ``Lock.__exit__``."""
    @property
    def fence(self) -> int:
        """The fencing token: larger for every later lease. ``NotHeldError`` while this object holds nothing."""
    @property
    def token(self) -> str:
        """The token, which proves ownership: keep it secret. ``NotHeldError`` while this object holds nothing."""
    @property
    def held(self) -> bool:
        """Whether the lease is valid now, by the clock of this machine. Asks no server."""
    @property
    def remaining(self) -> float:
        """Seconds until the deadline; renewal moves it. 0.0 when it is over or there is none."""
    @property
    def lost(self) -> LostReason | None:
        """Why it was lost; ``None`` while it is not, and after its release."""
    def check(self) -> None:
        """Returns while the lease is valid. Raises ``LostError`` or ``NotHeldError``. Asks no server."""
    def renew(self) -> None:
        """As ``Lock.renew``."""
    def locked(self) -> bool:
        """As ``Lock.locked``."""

@final
class ManualClock:
    """The time of a ``memory://`` client in a test: it stands still until it is advanced."""

    def __new__(cls) -> ManualClock: ...
    def advance(self, seconds: Seconds) -> None:
        """Moves the time, letting the background do its work on the way: leases with automatic renewal survive.

        Blocks for as long as that work takes; a step in which a callback blocks ends after 2 s.
        """

@final
class NativeClient:
    """What ``redlatch.Client`` is made of."""

    def __new__(
        cls,
        url: str,
        *,
        key_prefix: str,
        pool_size: int,
        connect_timeout: Seconds,
        io_timeout: Seconds,
        renewal_threads: int,
        unavailable_after: Seconds,
        label: str | None,
        turn: Seconds,
        fence_retention: Seconds,
        min_replicas: int,
        replica_timeout: Seconds,
        tls_ca: str | None,
        tls_cert: str | None,
        tls_key: str | None,
        manual_clock: ManualClock | None = None,
    ) -> NativeClient: ...
    def lock(
        self,
        name: str,
        ttl: Seconds,
        auto_renew: bool,
        max_hold: Seconds | None,
        wait: Seconds | None,
        on_lost: Callable[[LostInfo], object] | None,
    ) -> Lock: ...
    def lease(
        self,
        name: str,
        ttl: Seconds,
        auto_renew: bool,
        max_hold: Seconds | None,
        wait: Seconds | None,
        on_lost: Callable[[LostInfo], object] | None,
    ) -> Lease: ...
    def adopt(
        self,
        name: str,
        token: str,
        ttl: Seconds,
        auto_renew: bool,
        max_hold: Seconds | None,
        wait: Seconds | None,
        on_lost: Callable[[LostInfo], object] | None,
    ) -> Lease: ...
    def inspect(self, name: str) -> tuple[str, str, str | None, float | None, int | None, int] | None: ...
    def force_release(self, name: str) -> bool: ...
    def check_server(self) -> list[tuple[str, str, str, str]]: ...
    def lose(self, name: str) -> bool: ...
    def stats(self) -> dict[str, Any]: ...
    def close(self) -> None: ...
