"""Clients: where locks come from."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, TypeAlias, TypeVar, overload

from redlatch import _native
from redlatch._locked import CallWhenBusy, OnBusy, RaiseWhenBusy, SkipWhenBusy, busy_callable, runs_locked
from redlatch._native import Lease, Lock
from redlatch._types import Finding, LockInfo, LostInfo, Seconds, Severity

T = TypeVar("T")

OnLost: TypeAlias = Callable[[LostInfo], object]
"""Gets a lost lease, on a thread of redlatch."""


class Client:
    """A way to one Redis or Valkey server, shared by all threads of a process and by its forked children.

    Making one opens nothing and starts no thread: connections and threads begin with the first lock, and end with
    ``close()``, the end of the ``with`` block, or the last reference. A forked child may go on using it: it holds
    nothing of what its parent held, and gets connections and threads of its own.
    """

    __slots__ = ("__weakref__", "_native")

    def __init__(
        self,
        url: str = _native.DEFAULT_URL,
        *,
        key_prefix: str = _native.KEY_PREFIX,
        pool_size: int = _native.POOL_SIZE,
        connect_timeout: Seconds = _native.CONNECT_TIMEOUT,
        io_timeout: Seconds = _native.IO_TIMEOUT,
        renewal_threads: int = _native.RENEWAL_THREADS,
        unavailable_after: Seconds = _native.UNAVAILABLE_AFTER,
        label: str | None = None,
        turn: Seconds = _native.TURN,
        fence_retention: Seconds = _native.FENCE_RETENTION,
        min_replicas: int = _native.MIN_REPLICAS,
        replica_timeout: Seconds = _native.REPLICA_TIMEOUT,
        tls_ca: str | os.PathLike[str] | None = None,
        tls_cert: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
    ) -> None:
        """Checks every option; a value out of bounds is a ``ConfigError`` that names it.

        ``url``: ``redis://``, ``rediss://`` (TLS), ``unix://``, ``redis+sentinel://host,host/service``,
        ``redis+cluster://host,host``, or ``memory://`` for a store inside this process.
        ``key_prefix``: stands before each name to make its key; at most 256 bytes.
        ``pool_size``: connections that callers share, 1 to 1024; a waiter that sleeps holds none.
        ``connect_timeout``: limit of opening a connection, with name lookup and login; 10 ms to 60 s.
        ``io_timeout``: limit of one request and its reply; 10 ms to 60 s.
        ``renewal_threads``: threads that renew, each with a connection of its own; 1 to 64.
        ``unavailable_after``: continuous outage after which an ``acquire`` without a limit gives up; 100 ms to 24 h.
        ``label``: a word that shows in tokens and in ``inspect``; 1 to 64 of ``A-Z a-z 0-9 . _ - /``.
        ``turn``: how long a released lock stays reserved for the first waiter; 500 ms to 10 s.
        ``fence_retention``: how long the server keeps a lock's last fence after a grant; 1 s to 30 days.
        ``min_replicas``: replicas that must acknowledge a grant within ``replica_timeout`` (10 ms to 60 s), or it is
        given back and ``NotReplicatedError`` raised; 0 asks none.
        ``tls_ca``, ``tls_cert``, ``tls_key``: PEM files for ``rediss://``: whom to trust instead of the system's store,
        and this client's certificate and key.
        """
        self._native = self._open(
            url,
            key_prefix=key_prefix,
            pool_size=pool_size,
            connect_timeout=connect_timeout,
            io_timeout=io_timeout,
            renewal_threads=renewal_threads,
            unavailable_after=unavailable_after,
            label=label,
            turn=turn,
            fence_retention=fence_retention,
            min_replicas=min_replicas,
            replica_timeout=replica_timeout,
            tls_ca=None if tls_ca is None else os.fspath(tls_ca),
            tls_cert=None if tls_cert is None else os.fspath(tls_cert),
            tls_key=None if tls_key is None else os.fspath(tls_key),
        )

    def _open(self, url: str, **options: Any) -> _native.NativeClient:
        """Where a client for tests puts in a clock of its own."""
        return _native.NativeClient(url, **options)

    def lock(
        self,
        name: str,
        *,
        ttl: Seconds = _native.TTL,
        auto_renew: bool = True,
        max_hold: Seconds | None = None,
        wait: Seconds | None = None,
        on_lost: OnLost | None = None,
    ) -> Lock:
        """The lock ``name``, of 1 to 1024 bytes of UTF-8. Asks no server.

        ``ttl``: how long the lease lives without renewal, so how long others wait after a crash of its holder; 100 ms
        to 24 h. ``auto_renew``: whether the background renews it, every third of the ttl. ``max_hold``: longest time
        that the lease is kept, whatever its holder does. ``wait``: longest time that ``with`` waits; ``None``: as
        long as someone else has it. ``on_lost``: called once when a lease is lost, with a ``LostInfo``, on a thread
        of redlatch; what it raises is logged.
        """
        return self._native.lock(name, ttl, auto_renew, max_hold, wait, on_lost)

    def lease(
        self,
        name: str,
        *,
        ttl: Seconds = _native.TTL,
        auto_renew: bool = True,
        max_hold: Seconds | None = None,
        wait: Seconds | None = None,
        on_lost: OnLost | None = None,
    ) -> Lease:
        """As ``lock``, for a hold that moves between threads, tasks and processes. Not acquired yet."""
        return self._native.lease(name, ttl, auto_renew, max_hold, wait, on_lost)

    def adopt(
        self,
        name: str,
        token: str,
        *,
        ttl: Seconds = _native.TTL,
        auto_renew: bool = True,
        max_hold: Seconds | None = None,
        wait: Seconds | None = None,
        on_lost: OnLost | None = None,
    ) -> Lease:
        """Takes over the lease that ``token`` proves, from ``Lease.into_token`` of this or another process.

        It becomes a new lease with a new token and a new, larger fence. One round trip. It is held already, which a
        ``with`` block would refuse: end it with ``release()`` in a ``finally``. Raises ``NotHeldError`` when the lock
        is not held by that token any more, and as ``Lock.acquire``.
        """
        return self._native.adopt(name, token, ttl, auto_renew, max_hold, wait, on_lost)

    @overload
    def locked(
        self,
        template: str,
        *,
        ttl: Seconds = _native.TTL,
        auto_renew: bool = True,
        max_hold: Seconds | None = None,
        wait: Seconds | None = None,
        on_lost: OnLost | None = None,
        on_busy: Literal["raise"] = "raise",
    ) -> RaiseWhenBusy: ...

    @overload
    def locked(
        self,
        template: str,
        *,
        ttl: Seconds = _native.TTL,
        auto_renew: bool = True,
        max_hold: Seconds | None = None,
        wait: Seconds | None = None,
        on_lost: OnLost | None = None,
        on_busy: Literal["skip"],
    ) -> SkipWhenBusy: ...

    @overload
    def locked(
        self,
        template: str,
        *,
        ttl: Seconds = _native.TTL,
        auto_renew: bool = True,
        max_hold: Seconds | None = None,
        wait: Seconds | None = None,
        on_lost: OnLost | None = None,
        on_busy: Callable[..., T],
    ) -> CallWhenBusy[T]: ...

    def locked(
        self,
        template: str,
        *,
        ttl: Seconds = _native.TTL,
        auto_renew: bool = True,
        max_hold: Seconds | None = None,
        wait: Seconds | None = None,
        on_lost: OnLost | None = None,
        on_busy: OnBusy = "raise",
    ) -> Any:
        """A decorator: the function runs under the lock whose name the template makes of its arguments.

        ``@client.locked("order:{order_id}")``, ``"{order.id}"``, ``"{ids[0]}"``: fields name parameters of the
        function, ``self`` among them, and defaults count. Inside, ``redlatch.current_lock()`` is the lock, to
        ``check()`` or to read its ``fence``. Options as of ``lock``.

        ``on_busy`` says what a call does when someone else still has the lock after ``wait``: ``"raise"``
        ``AcquireTimeout``; ``"skip"`` the function and return ``None``; or call this callable with the function's
        arguments and return what it returns. Without ``wait``, ``"raise"`` waits as long as someone else has the
        lock, the others ask once.

        The function without its lock is ``function.__wrapped__``.

        Raised when the function is decorated: ``ConfigError`` for a template that does not fit its parameters and for a
        refused option, ``TypeError`` for coroutine functions, generators and classes. A call raises ``ConfigError`` for
        arguments that make no usable name, ``TypeError`` when the function returns a coroutine or a generator, which
        would run without the lock, and as ``Lock.acquire`` and ``Lock.release``.
        """
        if callable(template):
            raise TypeError('locked() takes a template of the name: @client.locked("order:{order_id}")')
        busy = busy_callable(on_busy)
        wait = 0 if wait is None and busy is not None else wait

        def make_lock(name: str) -> Lock:
            return self.lock(name, ttl=ttl, auto_renew=auto_renew, max_hold=max_hold, wait=wait, on_lost=on_lost)

        make_lock("checks-the-options")
        return lambda function: runs_locked(function, template, make_lock, busy)

    def inspect(self, name: str) -> LockInfo | None:
        """What the server knows of the lock ``name`` now; ``None`` when nobody has it. Within ``io_timeout``."""
        found = self._native.inspect(name)
        return None if found is None else LockInfo(*found)

    def force_release(self, name: str) -> bool:
        """Takes the lock away from whoever has it, for operators: its holder finds it lost at its next renewal.

        ``False`` when nobody had it. Two round trips at most.
        """
        return self._native.force_release(name)

    def check_server(self) -> list[Finding]:
        """Whether the server is fit for locks, for the start of a program or by hand; the worst finding first.

        Its settings, state and version, the access rules, replicas, sentinels or nodes of a cluster, clocks, and how
        long a request takes from here. Where no finding is a ``Severity.PROBLEM`` or ``"not_checked"``, locks can be
        had, and are kept as long as the server runs as it does now, if the user has all access rules of
        ``docs/operations.md``: only a part of them is tried. What they do not let it ask is a finding of the kind
        ``"not_checked"``, never an exception. That page has the list of kinds.

        Writes nothing, and leaves no connection behind. Blocks, without the GIL, for at most 5 times
        ``connect_timeout`` and ``io_timeout`` together, one server for ``connect_timeout`` and 4 times
        ``io_timeout``; not on an event loop, so use ``asyncio.to_thread`` there.

        Raises ``UnavailableError``, ``AuthenticationError`` and what else keeps a connection from being opened, whose
        ``name`` is ``None``; ``ClosedError``.
        """
        found = self._native.check_server()
        return [Finding(Severity(severity), kind, server, message) for severity, kind, server, message in found]

    def stats(self) -> dict[str, Any]:
        """Counters, timings and gauges of this client since it was made, in a forked child since the fork.

        Counters by name, ``lost`` by reason, and what ``held_now``, ``waiting_now`` and ``background_now`` are now.
        ``wait_seconds``, ``hold_seconds``, ``hold_percent_of_ttl`` and ``renewal_delay_seconds`` each with ``count``,
        ``mean``, ``p50``, ``p99``, ``p999`` and ``max``. ``longest_hold_now``: the lock that is held for longest, or
        ``None``; ``hottest``: the locks that were waited for most. ``docs/operations.md`` says what each means. Asks
        no server.
        """
        return self._native.stats()

    def close(self) -> None:
        """Ends the client: waiters raise ``ClosedError``, held leases are lost as closed and lapse by their ttl.

        Within twice ``io_timeout``, and a callback that runs. Calling it again does nothing.
        """
        self._native.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._native)
