"""Any text is a name."""

from __future__ import annotations

from typing import Any

import pytest
import redlatch
from harness import MakeClient, Server

NAMES = [
    "a", " ", "with space", "tab\tand\nnewline\r\n", 'quotes " and \'', "back\\slash", "订单:17", "🔒🔑", "{braces}",
    "{a}b", "}{", "null\x00byte", "é" * 512, "x" * 1024, "*?[a-z]", "%s{0}", "$3\r\nDEL",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_made_another_key_than_its_own(each_server: Server, make_client: MakeClient, name: str) -> None:
    client, other = make_client(each_server.url, key_prefix="names:"), make_client(each_server.url, key_prefix="names:")
    lock = client.lock(name)
    assert lock.name == name
    with lock:
        assert each_server.call("GET", f"names:{name}") == lock.token
        assert not other.lock(name).acquire(blocking=False)
        info = other.inspect(name)
        assert info is not None and info.name == name and info.token == lock.token and info.fence == lock.fence
    assert each_server.call("EXISTS", f"names:{name}") == 0


@pytest.mark.parametrize("name", ["", "x" * 1025, "é" * 513, "a:redlatch:b"], ids=["empty", "1025", "1026", "sibling"])
def test_a_refused_name_was_sent(client: redlatch.Client, server: Server, prefix: str, name: str) -> None:
    for make in (client.lock, client.lease, client.inspect, client.force_release):
        with pytest.raises(redlatch.ConfigError, match="name"):
            make(name)
    with pytest.raises(redlatch.ConfigError, match="name"):
        client.adopt(name, "a@b:1")
    assert server.keys(f"{prefix}*") == []


@pytest.mark.parametrize("name", [None, 17, b"bytes", ["a"], "\ud800"], ids=ascii)
def test_a_name_that_is_no_text_is_refused(client: redlatch.Client, name: Any) -> None:
    # A lone surrogate is no text either: it has no UTF-8.
    with pytest.raises((TypeError, ValueError)):
        client.lock(name)
