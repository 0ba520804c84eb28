"""A client that is made before gunicorn forks its workers."""

from __future__ import annotations

import signal
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import Program, Server, eventually, needs_framework
from harness.servers import free_port


@pytest.mark.parametrize("workers", ["sync", "gthread", "gevent"])
@pytest.mark.parametrize("before", ["made", "used", "held"])
def test_workers_of_a_preloaded_application_share_locks(server: Server, prefix: str, workers: str, before: str) -> None:
    needs_framework("gunicorn", *(["gevent"] if workers == "gevent" else []))
    port = free_port()
    # The master of a gevent worker is not patched when it preloads.
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "2", "--worker-class", workers]
    command += ["--threads", "4", "--bind", f"127.0.0.1:{port}", "--chdir", "programs"]
    command += ["gunicorn_application:application"]
    env = {"REDIS_URL": server.url, "PREFIX": prefix, "BEFORE": before, "PYTHONWARNINGS": "ignore"}
    with Program(command, env) as gunicorn:

        def get() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as reply:
                return str(reply.read(), "ascii")

        assert eventually(lambda: "Booting worker" in gunicorn.errors, 15), gunicorn.errors
        with ThreadPoolExecutor(8) as pool:
            pids = list(pool.map(lambda _: get(), range(100)))
        assert server.call("GET", f"{prefix}count") == "100", gunicorn.errors
        assert "Traceback" not in gunicorn.errors, gunicorn.errors
        assert len(set(pids)) == 2 and str(gunicorn.pid) not in pids
        if before == "held":
            assert server.call("EXISTS", f"{prefix}of the master") == 1
        gunicorn.signal(signal.SIGTERM)
        assert gunicorn.finish(20) == 0, gunicorn.errors
    server.call("DEL", f"{prefix}count")
