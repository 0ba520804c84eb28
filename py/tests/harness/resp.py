"""A plain client of the server's protocol, so that what tests see does not pass through redlatch."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Any


class ReplyError(Exception):
    """The server answered with an error."""


class Connection:
    """One connection; a call sends a command and reads its reply. Not for several threads at once."""

    def __init__(self, port: int, timeout: float = 5.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout)
        self._file = self._socket.makefile("rb")

    def call(self, *words: object) -> Any:
        """The reply to a command: ``None``, ``int``, ``str`` or a list of them; ``ReplyError`` for an error."""
        parts = [str(word).encode() for word in words]
        message = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        self._socket.sendall(message)
        return self._read()

    def _read(self) -> Any:
        line = self._file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            raise ReplyError(rest.decode())
        if kind == b":":
            return int(rest)
        size = int(rest)
        if size < 0:
            return None
        if kind == b"$":
            return self._file.read(size + 2)[:-2].decode(errors="replace")
        return [self._read() for _ in range(size)]

    def read_line(self) -> str:
        """The next line that the server sends by itself; empty when the connection ended."""
        return self._file.readline().decode(errors="replace").strip()

    def no_timeout(self) -> None:
        self._socket.settimeout(None)

    def close(self) -> None:
        # The server may have been quicker.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self._socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Monitor:
    """Every command that clients send while the block runs, as the server's MONITOR prints it."""

    def __init__(self, port: int) -> None:
        self._connection = Connection(port)
        self._port = port
        self._end = f"end-of-monitor-{id(self)}"
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self.lines: list[str] = []

    def _collect(self) -> None:
        while (line := self._connection.read_line()) and self._end not in line:
            self.lines.append(line)

    def __enter__(self) -> Monitor:
        assert self._connection.call("MONITOR") == "OK"
        self._connection.no_timeout()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # What was sent before this mark has been read when the mark has been.
        with Connection(self._port) as connection:
            connection.call("ECHO", self._end)
        self._thread.join(5)
        self._connection.close()
        assert not self._thread.is_alive()
