"""The redlatch client for what redis-py's users have at hand."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from redlatch._client import Client
from redlatch._errors import ConfigError


class Endpoint(NamedTuple):
    """A server and how to log in. Holds the password: never shown."""

    url: str
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None

    def __repr__(self) -> str:
        return "Endpoint(…)"


# Only read and written by single operations, so that a fork at any moment leaves it usable in the child.
_clients: dict[Endpoint, Client] = {}

# Others, as those of Sentinel or of fakes, do not connect to the host in their options.
_CONNECTIONS = {f"redis.connection.{kind}" for kind in ("Connection", "SSLConnection", "UnixDomainSocketConnection")}

# Options of redis-py that redlatch cannot follow, with the values that ask for what it does anyway.
_FINE: dict[str, tuple[Any, ...]] = {
    "credential_provider": (None,),
    "ssl_cert_reqs": (None, "required", 2),
    "ssl_ca_data": (None,),
    "ssl_ca_path": (None,),
    "ssl_password": (None,),
}


def client_for(source: Any) -> Client:
    """The client for a URL or a ``redis.Redis``, shared by the process and without a key prefix; a client is its own.

    Raises ``ConfigError`` for a ``redis.Redis`` whose server cannot be told or used, ``TypeError`` for anything else.
    """
    if isinstance(source, Client):
        return source
    endpoint = Endpoint(source) if isinstance(source, str) else endpoint_of(source)
    client = _clients.get(endpoint)
    if client is None:
        made = Client(
            endpoint.url,
            key_prefix="",
            tls_ca=endpoint.tls_ca,
            tls_cert=endpoint.tls_cert,
            tls_key=endpoint.tls_key,
        )
        client = _clients.setdefault(endpoint, made)
    return client


def endpoint_of(source: Any) -> Endpoint:
    """Where a ``redis.Redis`` connects to. Raises as ``client_for``."""
    pool = getattr(source, "connection_pool", None)
    kind = getattr(pool, "connection_class", None)
    options = getattr(pool, "connection_kwargs", None)
    if kind is None or not isinstance(options, dict):
        raise TypeError(f"redis = a {type(source).__name__}: a URL, a redis.Redis or a redlatch.Client is needed")
    if "asyncio" in kind.__module__:
        raise TypeError(
            "redis = a client for asyncio: this lock blocks; give a URL, a redis.Redis or a redlatch.Client"
        )
    shown = f"{kind.__module__}.{kind.__qualname__}"
    if shown not in _CONNECTIONS:
        raise ConfigError(f"redis = a client with connections of {shown}: their server cannot be told; give a URL")
    for name, fine in _FINE.items():
        if options.get(name) not in fine:
            raise ConfigError(f"redis = a client with {name}: redlatch cannot follow that; give a redlatch.Client")
    if kind.__name__ == "UnixDomainSocketConnection":
        login = {"db": options.get("db") or 0, "user": options.get("username"), "pass": options.get("password")}
        query = urlencode({key: value for key, value in login.items() if value is not None}, quote_via=quote)
        return Endpoint(f"unix://{quote(options['path'])}?{query}")
    if kind.__name__ == "SSLConnection":
        files = (options.get(f"ssl_{name}") for name in ("ca_certs", "certfile", "keyfile"))
        return Endpoint(f"rediss://{_address(options)}", *files)
    return Endpoint(f"redis://{_address(options)}")


def _address(options: dict[str, Any]) -> str:
    host = options.get("host") or "localhost"
    host = f"[{host}]" if ":" in host else host
    user, password = options.get("username") or "", options.get("password") or ""
    login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user or password else ""
    return f"{login}{host}:{options.get('port') or 6379}/{options.get('db') or 0}"
