"""The redlatch client for what redis-py's users have at hand."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from redlatch._client import Client
from redlatch._errors import ConfigError

# By URL and TLS files: one client for each in the process. Only single operations, so that a fork at any moment is safe.
_clients: dict[tuple[str, str | None, str | None, str | None], Client] = {}

# What redlatch cannot do, or does otherwise than asked; by the name of redis-py's option, with the values that are fine.
_REFUSED: dict[str, tuple[Any, ...]] = {
    "credential_provider": (None,),
    "ssl_cert_reqs": (None, "required", 2),
    "ssl_ca_data": (None,),
    "ssl_ca_path": (None,),
    "ssl_password": (None,),
}


# Others, as those of Sentinel or of fakes, do not connect to the host in their options.
_CONNECTIONS = {f"redis.connection.{kind}" for kind in ("Connection", "SSLConnection", "UnixDomainSocketConnection")}


def client_for(source: Any) -> Client:
    """The client for a URL or a ``redis.Redis``, shared by the process and without a key prefix; a client is its own.

    Raises ``ConfigError`` for a ``redis.Redis`` whose server cannot be told or used, ``TypeError`` for anything else.
    """
    if isinstance(source, Client):
        return source
    if isinstance(source, str):
        return _shared(source, None, None, None)
    pool = getattr(source, "connection_pool", None)
    kind = getattr(pool, "connection_class", None)
    if pool is None or kind is None or not isinstance(getattr(pool, "connection_kwargs", None), dict):
        raise TypeError(f"a URL, a redis.Redis or a redlatch.Client is needed, not a {type(source).__name__}")
    shown = f"{kind.__module__}.{kind.__qualname__}"
    options: dict[str, Any] = pool.connection_kwargs
    if "asyncio" in kind.__module__:
        raise TypeError("redis = a client for asyncio: this lock blocks, so it needs a redis.Redis, a URL or a redlatch.Client")
    if shown not in _CONNECTIONS:
        raise ConfigError(f"redis = a client with connections of {shown}: their server cannot be told, give a URL")
    for name, fine in _REFUSED.items():
        if options.get(name) not in fine:
            raise ConfigError(f"redis = a client with {name}: redlatch cannot use that, give a redlatch.Client")
    if kind.__name__ == "UnixDomainSocketConnection":
        login = {"db": options.get("db") or 0, "user": options.get("username"), "pass": options.get("password")}
        query = urlencode({key: value for key, value in login.items() if value is not None}, quote_via=quote)
        return _shared(f"unix://{quote(options['path'])}?{query}", None, None, None)
    if kind.__name__ == "SSLConnection":
        return _shared(
            "rediss://" + _address(options),
            options.get("ssl_ca_certs"),
            options.get("ssl_certfile"),
            options.get("ssl_keyfile"),
        )
    return _shared("redis://" + _address(options), None, None, None)


def _address(options: dict[str, Any]) -> str:
    host = options.get("host") or "localhost"
    host = f"[{host}]" if ":" in host else host
    login = ""
    if options.get("username") or options.get("password"):
        login = f"{quote(options.get('username') or '', safe='')}:{quote(options.get('password') or '', safe='')}@"
    return f"{login}{host}:{options.get('port') or 6379}/{options.get('db') or 0}"


def _shared(url: str, tls_ca: str | None, tls_cert: str | None, tls_key: str | None) -> Client:
    key = (url, tls_ca, tls_cert, tls_key)
    client = _clients.get(key)
    if client is None:
        made = Client(url, key_prefix="", tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key)
        client = _clients.setdefault(key, made)
    return client
