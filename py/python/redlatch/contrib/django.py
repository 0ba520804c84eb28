"""Clients from Django's settings.

    REDLATCH = {"URL": "redis://127.0.0.1:6379/0", "LABEL": "shop"}
    REDLATCH = {"default": {"URL": …}, "reports": {"URL": …, "POOL_SIZE": 2}}  # or several, by alias

    from redlatch.contrib.django import get_client

    with get_client().lock("order:17", wait=5):
        ...

Keys are the options of ``redlatch.Client`` in capitals; ``URL`` is required.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from redlatch._client import Client
from redlatch._errors import ConfigError

try:
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.signals import setting_changed
except ImportError as error:
    raise ImportError("redlatch.contrib.django needs Django: pip install 'redlatch[django]'") from error

__all__ = ["get_client"]

_OPTIONS = {name.upper(): name for name in inspect.signature(Client).parameters}

# Only read and written by single operations, so that a fork at any moment leaves it usable in the child.
_clients: dict[str, Client] = {}


def get_client(alias: str = "default") -> Client:
    """The client of ``alias``, the same one for all threads of the process; made at the first call.

    Raises ``ImproperlyConfigured`` when ``settings.REDLATCH`` does not make it. Opens no connection.
    """
    client = _clients.get(alias)
    # Two threads may both make one: nothing is opened, and both get the one that was first.
    return _clients.setdefault(alias, _make(alias)) if client is None else client


def _make(alias: str) -> Client:
    configured = getattr(settings, "REDLATCH", None)
    if not isinstance(configured, Mapping) or not configured:
        raise ImproperlyConfigured('settings.REDLATCH must be a dict: {"URL": "redis://…"}, or such dicts by alias')
    several = all(isinstance(value, Mapping) for value in configured.values())
    aliases = configured if several else {"default": configured}
    if alias not in aliases:
        raise ImproperlyConfigured(f"settings.REDLATCH has no alias {alias!r}; it has: {', '.join(map(str, aliases))}")
    where = f"settings.REDLATCH[{alias!r}]" if several else "settings.REDLATCH"
    chosen: Mapping[str, Any] = aliases[alias]
    unknown = [str(key) for key in chosen if key not in _OPTIONS]
    if unknown:
        raise ImproperlyConfigured(f"{where} has unknown keys {', '.join(unknown)}; known are {', '.join(_OPTIONS)}")
    if "URL" not in chosen:
        raise ImproperlyConfigured(f"{where} has no URL")
    try:
        return Client(**{_OPTIONS[key]: value for key, value in chosen.items()})
    except (ConfigError, TypeError) as error:
        raise ImproperlyConfigured(f"{where}: {error}") from error


def _forget(*, setting: str, **_: object) -> None:
    """For tests that override the setting. Clients that are in use live on until their last reference goes."""
    if setting == "REDLATCH":
        _clients.clear()


setting_changed.connect(_forget, dispatch_uid="redlatch.contrib.django")
