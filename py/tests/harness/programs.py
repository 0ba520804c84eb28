"""Programs in processes of their own, on the interpreter and packages of the tests."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

_TESTS = Path(__file__).resolve().parents[1]


class Program:
    """A running program; leaving the block kills it if it still runs."""

    def __init__(self, command: Sequence[str], env: dict[str, str] | None = None) -> None:
        self.errors = ""
        self._process = subprocess.Popen(
            command, cwd=_TESTS, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(_TESTS), "PYTHONUNBUFFERED": "1", **(env or {})},
        )  # fmt: skip
        self.pid = self._process.pid
        # Lines of its output, and None behind the last one.
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        # Read all the time, so that a program that says much does not block.
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read_errors, self._read_output)]
        for reader in self._readers:
            reader.start()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.errors += line

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _join(self) -> None:
        for reader in self._readers:
            reader.join(10)

    def read(self, within: float = 30.0) -> str:
        """The next line of its output, without its end; an ``AssertionError`` with its errors when none comes in time."""
        try:
            line = self._lines.get(timeout=within)
        except queue.Empty:
            raise AssertionError(f"no output within {within} s:\n{self.errors}") from None
        if line is None:
            self._process.wait(10)
            self._join()
            raise AssertionError(f"no more output, exit code {self._process.returncode}:\n{self.errors}")
        return line

    def rest(self) -> list[str]:
        """The lines of a program that has ended, as far as they have not been read."""
        lines: list[str] = []
        # A child of it that lives on may keep the output open.
        with contextlib.suppress(queue.Empty):
            while (line := self._lines.get(timeout=10)) is not None:
                lines.append(line)
        return lines

    def expect(self, line: str) -> None:
        """Reads a line, which has to be this one."""
        found = self.read()
        assert found == line, f"{found!r} instead of {line!r}\n{self.errors}"

    def write(self, line: str) -> None:
        """Gives the program a line of input."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def finish(self, within: float = 60.0) -> int:
        """Waits for the end; the exit code."""
        code = self._process.wait(within)
        self._join()
        return code

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        self._process.wait(10)
        self._join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                # It may have ended before it had read all of its input.
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()


def start_program(name: str, *args: object, options: Sequence[str] = (), env: dict[str, str] | None = None) -> Program:
    """Starts ``programs/<name>.py``, with options of the interpreter such as ``-W error``."""
    file = _TESTS / "programs" / f"{name}.py"
    return Program([sys.executable, *options, str(file), *map(str, args)], env)


def run_program(
    name: str, *args: object, options: Sequence[str] = (), env: dict[str, str] | None = None, within: float = 60.0
) -> list[str]:
    """Runs a program to its end: the lines it printed. It has to exit with 0 and to write no errors."""
    with start_program(name, *args, options=options, env=env) as program:
        try:
            code = program.finish(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} runs for more than {within} s\n{program.errors}") from None
        lines = program.rest()
        assert code == 0 and not program.errors, f"exit code {code}: {lines}\n{program.errors}"
        return lines
