"""What the tests are made of: servers, a proxy that breaks connections, programs in processes of their own."""

from __future__ import annotations

from harness.clients import MakeClient
from harness.frameworks import needs_framework
from harness.programs import Program, run_program, start_program
from harness.proxy import Proxy
from harness.resp import Connection, Monitor, ReplyError
from harness.servers import Kind, Server, installed_kinds
from harness.threads import in_thread
from harness.waiting import eventually

__all__ = [
    "Connection",
    "Kind",
    "MakeClient",
    "Monitor",
    "Program",
    "Proxy",
    "ReplyError",
    "Server",
    "eventually",
    "in_thread",
    "installed_kinds",
    "needs_framework",
    "run_program",
    "start_program",
]
