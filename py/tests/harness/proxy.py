"""A TCP proxy before a server, which breaks connections on demand."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable


class Proxy:
    """Forwards ``port`` to a server; every fault applies to all connections until it is taken back."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._open = threading.Event()
        self._open.set()
        self._delay = 0.0
        self._swallow = False
        self._meanwhile: Callable[[], object] | None = None
        self.swallowed = threading.Event()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._stopped = False
        threading.Thread(target=self._accept, daemon=True).start()

    def black_hole(self) -> None:
        """Passes nothing on in either direction, and keeps connections open."""
        self._open.clear()

    def delay(self, seconds: float) -> None:
        """Holds back each piece of a reply for so long."""
        self._delay = seconds

    def restore(self) -> None:
        """Ends black hole and delay; what was held back is passed on."""
        self._delay = 0.0
        self._open.set()

    def swallow_next_reply(self) -> None:
        """Drops the next piece that the server sends, and its connection with it; ``swallowed`` is set then."""
        self.swallowed.clear()
        self._swallow = True

    def hold_next_reply(self, meanwhile: Callable[[], object]) -> None:
        """Holds back the next piece that the server sends until ``meanwhile`` has run, on a thread of the proxy."""
        with self._lock:
            self._meanwhile = meanwhile

    def cut(self) -> None:
        """Closes every connection; new ones are welcome."""
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for each in sockets:
            _close(each)

    def stop(self) -> None:
        self._stopped = True
        _close(self._listener)
        self.cut()
        self._open.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                if self._stopped:
                    return
                client.close()
                continue
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # From here on another thread may close them.
            with self._lock:
                self._sockets |= {client, server}
            for source, sink, replies in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pump, args=(source, sink, replies), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, replies: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(65_536):
                self._open.wait()
                if replies and self._take_swallow():
                    break
                if replies and (meanwhile := self._take_meanwhile()) is not None:
                    meanwhile()
                if replies and self._delay:
                    time.sleep(self._delay)
                sink.sendall(piece)
        with self._lock:
            self._sockets -= {source, sink}
        _close(source)
        _close(sink)

    def _take_swallow(self) -> bool:
        with self._lock:
            swallow, self._swallow = self._swallow, False
        if swallow:
            self.swallowed.set()
        return swallow

    def _take_meanwhile(self) -> Callable[[], object] | None:
        with self._lock:
            meanwhile, self._meanwhile = self._meanwhile, None
        return meanwhile


def _close(each: socket.socket) -> None:
    # Shut down first, which also wakes the thread that reads from it.
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
