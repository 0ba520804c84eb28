"""redlatch from Python's ctypes, as an example of any runtime that can call C. Python programs use `import redlatch`.

    python3 ctypes_lock.py LIBRARY URL NAME ROUNDS

Counts up the number in the file NAME.count, ROUNDS times, each time under the lock NAME.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

OK, BUSY, TIMED_OUT, UNCONFIRMED = 0, 1, 2, 4
NUL_TERMINATED = ctypes.c_size_t(-1).value


class LockOptions(ctypes.Structure):
    """redlatch_lock_options: fields, order and types as in the header."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("ttl_ms", ctypes.c_int64),
        ("max_hold_ms", ctypes.c_int64),
        ("auto_renew", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
    ]


OnLost = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_uint64,
    ctypes.c_int32,
    ctypes.c_void_p,
)


def load(path: str) -> ctypes.CDLL:
    """The library, with the types of what this program calls. Without them ctypes cuts pointers to 32 bits."""
    library = ctypes.CDLL(path)  # CDLL, not PyDLL: the GIL is released during a call, which may block.
    pointer, text, size, status = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32
    signatures = {
        "redlatch_client_open": (status, [text, size, pointer, ctypes.POINTER(pointer)]),
        "redlatch_client_free": (None, [pointer]),
        "redlatch_lock_options_init": (status, [ctypes.POINTER(LockOptions), size]),
        "redlatch_lock_new": (status, [pointer, text, size, ctypes.POINTER(LockOptions), ctypes.POINTER(pointer)]),
        "redlatch_lock_free": (None, [pointer]),
        "redlatch_lock_acquire": (status, [pointer, ctypes.c_int64]),
        "redlatch_lock_release": (status, [pointer]),
        "redlatch_lock_check": (status, [pointer]),
        "redlatch_lock_fence": (status, [pointer, ctypes.POINTER(ctypes.c_uint64)]),
        "redlatch_lock_on_lost": (status, [pointer, OnLost, pointer, pointer]),
        "redlatch_last_error_message": (status, [text, size, ctypes.POINTER(size)]),
        "redlatch_lost_reason_name": (text, [status]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class RedlatchError(Exception):
    """A call returned a negative status."""


class Lock:
    """One lock of one client. A hold belongs to the thread that acquired it."""

    def __init__(self, library: ctypes.CDLL, url: str, name: str, ttl_ms: int) -> None:
        self._library = library
        self._client, self._lock = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(library.redlatch_client_open(url.encode(), NUL_TERMINATED, None, ctypes.byref(self._client)))
        options = LockOptions()
        self._check(library.redlatch_lock_options_init(ctypes.byref(options), ctypes.sizeof(options)))
        options.ttl_ms = ttl_ms
        key = name.encode()
        self._check(
            library.redlatch_lock_new(self._client, key, len(key), ctypes.byref(options), ctypes.byref(self._lock))
        )
        # ctypes frees the machine code of a callback with this object: it must live as long as the client may call it.
        self._on_lost = OnLost(self._lost)
        self._check(library.redlatch_lock_on_lost(self._lock, self._on_lost, None, None))

    def _lost(self, name: int, name_len: int, _token: int, _len: int, fence: int, reason: int, _data: int) -> None:
        """Runs on a thread of the client's, which ctypes makes known to Python."""
        word = self._library.redlatch_lost_reason_name(reason).decode()
        print(f"lost {ctypes.string_at(name, name_len).decode()}, fence {fence}: {word}", file=sys.stderr)

    def _check(self, status: int) -> int:
        if status < 0:
            # Of this thread's last call that failed; nothing else was called in between.
            message = ctypes.create_string_buffer(512)
            self._library.redlatch_last_error_message(message, len(message), None)
            raise RedlatchError(message.value.decode(errors="replace"))
        return status

    def acquire(self, wait_ms: int) -> bool:
        """False: somebody else has it. The status is compared with OK, not only looked at for errors."""
        return self._check(self._library.redlatch_lock_acquire(self._lock, wait_ms)) == OK

    def release(self) -> bool:
        """False: the server did not confirm it in time."""
        return self._check(self._library.redlatch_lock_release(self._lock)) != UNCONFIRMED

    def check(self) -> None:
        """An exception unless the lease is valid now."""
        self._check(self._library.redlatch_lock_check(self._lock))

    def fence(self) -> int:
        """The fencing token."""
        fence = ctypes.c_uint64()
        self._check(self._library.redlatch_lock_fence(self._lock, ctypes.byref(fence)))
        return fence.value

    def close(self) -> None:
        """Frees both handles. Freeing a lock releases nothing."""
        self._library.redlatch_lock_free(self._lock)
        self._library.redlatch_client_free(self._client)
        self._lock = self._client = None


def main() -> int:
    """Counts."""
    library, url, name, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    lock = Lock(load(library), url, name, ttl_ms=10_000)
    count = Path(f"{name}.count")
    for _ in range(rounds):
        if not lock.acquire(30_000):
            print("somebody else has it", file=sys.stderr)
            return 1
        # A database would note lock.fence() first, and refuse a lower one.
        value = int(count.read_text()) if count.exists() else 0
        lock.check()
        count.write_text(str(value + 1))
        lock.release()
    lock.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
