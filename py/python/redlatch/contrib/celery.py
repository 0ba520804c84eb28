"""Celery tasks that run under a lock.

    @app.task(bind=True, max_retries=20)
    @locked_task(client, "order:{order_id}", on_busy="retry", countdown=3)
    def pay(self, order_id): ...

Inside, ``redlatch.current_lock()`` is the lock. A client made before the worker forks serves its children too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, ParamSpec, TypeVar

from redlatch._client import Client, OnLost
from redlatch._errors import AcquireTimeout, ConfigError
from redlatch._locked import Busy, runs_locked, skip
from redlatch._native import TTL, Lock
from redlatch._types import Seconds

try:
    from celery import Task, current_task
except ImportError as error:
    raise ImportError("redlatch.contrib.celery needs Celery: pip install 'redlatch[celery]'") from error

__all__ = ["locked_task"]

P = ParamSpec("P")
R = TypeVar("R")


def locked_task(
    client: Client | Callable[[], Client],
    template: str,
    *,
    on_busy: Literal["skip", "wait", "retry"],
    ttl: Seconds = TTL,
    auto_renew: bool = True,
    max_hold: Seconds | None = None,
    wait: Seconds | None = None,
    on_lost: OnLost | None = None,
    countdown: float | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R | None]]:
    """A decorator below ``@app.task``: the task runs under the lock whose name the template makes of its arguments.

    ``client``: a client, or a function that returns one when a task runs. ``template`` and the options are those of
    ``Client.locked``. The worker's process waits for ``wait`` seconds at most, by default not at all; then, by
    ``on_busy``:

    - ``"skip"``: the task succeeds with ``None``.
    - ``"wait"``: the task fails with ``AcquireTimeout``. Needs ``wait``.
    - ``"retry"``: the task is sent again, as by ``self.retry``, ``countdown`` seconds later (by default the task's
      ``default_retry_delay``), and fails with ``AcquireTimeout`` after the task's ``max_retries``. Called as a
      function, outside of a worker, it raises ``AcquireTimeout``.

    Raises ``ConfigError`` and ``TypeError`` as ``Client.locked``, and ``TypeError`` above ``@app.task``.
    """
    if on_busy not in ("skip", "wait", "retry"):
        raise ConfigError(f'on_busy = {on_busy!r}: "skip", "wait" or "retry"')
    if on_busy == "wait" and wait is None:
        raise ConfigError('on_busy = "wait" needs wait: a worker that waits without a limit does no other task')
    if countdown is not None and on_busy != "retry":
        raise ConfigError('countdown is for on_busy = "retry"')
    limit = 0 if wait is None else wait

    def make_lock(name: str) -> Lock:
        made = client if isinstance(client, Client) else client()
        return made.lock(name, ttl=ttl, auto_renew=auto_renew, max_hold=max_hold, wait=limit, on_lost=on_lost)

    def retry(timeout: AcquireTimeout, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        if not current_task:
            raise timeout
        raise current_task.retry(countdown=countdown, exc=timeout)

    def decorate(function: Callable[P, R]) -> Callable[P, R | None]:
        if isinstance(function, Task):
            raise TypeError(f"the task {function.name} cannot run under a lock: put locked_task below @app.task")
        return runs_locked(function, template, make_lock, busy[on_busy])

    busy: dict[str, Busy | None] = {"skip": skip, "wait": None, "retry": retry}
    if isinstance(client, Client):
        make_lock("checks-the-options")
    return decorate
