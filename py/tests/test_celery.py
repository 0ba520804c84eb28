"""``redlatch.contrib.celery``: with a real worker whose children are forked, and without one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redlatch
from harness import eventually, needs_framework
from redlatch import AcquireTimeout, Client, ConfigError

needs_framework("celery", "redis")
import celery  # noqa: E402
from redlatch.contrib.celery import locked_task  # noqa: E402

PREFIX = "celery:"
SHOP = """
import os
import time

from celery import Celery
import redlatch
from redlatch.contrib.celery import locked_task

URL = os.environ["SHOP_URL"]
app = Celery("shop", broker=URL, backend=URL)
app.conf.update(worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True, result_expires=60)
client = redlatch.Client(URL, key_prefix="celery:")
made = []

with client.lock("made-before-the-fork"):  # its threads and connections are the parent's
    pass


def lazily():
    if not made:
        made.append(redlatch.Client(URL, key_prefix="celery:"))
    return made[0]


@app.task
@locked_task(client, "order:{order_id}", on_busy="skip")
def skips(order_id):
    redlatch.current_lock().check()
    return os.getpid()


@app.task
@locked_task(lazily, "order:{order_id}", on_busy="wait", wait=0.2)
def waits_briefly(order_id):
    return "paid"


@app.task
@locked_task(lazily, "order:{order_id}", on_busy="wait", wait=60)
def waits(order_id):
    return redlatch.current_lock().name


@app.task(bind=True, max_retries=None)
@locked_task(client, "order:{order_id}", on_busy="retry", countdown=0.1)
def retries(self, order_id):
    return self.request.retries


@app.task(max_retries=2)
@locked_task(client, "order:{order_id}", on_busy="retry", countdown=0.1)
def gives_up(order_id):
    return "paid"


@app.task
@locked_task(client, "sum", on_busy="wait", wait=60)
def add_one(path):
    # Without the lock two children would read the same number.
    with open(path) as file:
        number = int(file.read())
    time.sleep(0.01)
    with open(path, "w") as file:
        file.write(str(number + 1))
    return os.getpid()
"""


class Worker:
    """A Celery worker with two forked children, and a way to send it tasks."""

    def __init__(self, url: str, folder: Path) -> None:
        (folder / "shop.py").write_text(SHOP)
        self.folder = folder
        self.log = folder / "worker.log"
        self.app = celery.Celery("sender", broker=url, backend=url)
        command = [sys.executable, "-m", "celery", "-A", "shop", "worker", "--pool=prefork", "--concurrency=2"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "--loglevel=INFO", "--without-gossip", "--without-mingle"],
                cwd=folder,
                env={**os.environ, "SHOP_URL": url},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait_until_ready(self) -> None:
        ready = eventually(lambda: self.process.poll() is not None or " ready." in self.log.read_text(), 60)
        assert ready and self.process.poll() is None, self.log.read_text()

    def send(self, task: str, *args: Any) -> Any:
        return self.app.send_task(f"shop.{task}", args)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            self.process.wait(10)
            self.app.close()


@pytest.fixture(scope="module")
def worker(server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker(server.url, tmp_path_factory.mktemp("shop"))
    try:
        worker.wait_until_ready()
        yield worker
    finally:
        worker.stop()


@pytest.fixture
def shop(server: Any) -> Iterator[Client]:
    """A client of the tasks' locks."""
    with redlatch.Client(server.url, key_prefix=PREFIX) as client:
        yield client


def test_a_task_runs_under_its_lock_in_a_forked_child(worker: Worker, shop: Client) -> None:
    pid = worker.send("skips", 1).get(timeout=60)
    assert pid not in (os.getpid(), worker.process.pid)
    assert not shop.lock("order:1").locked()


def test_skip_ends_the_task_with_none(worker: Worker, shop: Client) -> None:
    with shop.lock("order:2"):
        assert worker.send("skips", 2).get(timeout=60) is None
    assert worker.send("skips", 2).get(timeout=60) is not None


def test_wait_fails_the_task_when_its_time_is_over(worker: Worker, shop: Client) -> None:
    with shop.lock("order:3"):
        result = worker.send("waits_briefly", 3)
        with pytest.raises(AcquireTimeout, match="order:3"):
            result.get(timeout=60)


def test_wait_runs_the_task_as_soon_as_the_lock_is_free(worker: Worker, shop: Client) -> None:
    with shop.lock("order:4"):
        result = worker.send("waits", 4)
        assert eventually(lambda: (found := shop.inspect("order:4")) and found.waiters == 1, 60)
    assert result.get(timeout=60) == "order:4"


def test_retry_sends_the_task_again_until_the_lock_is_free(worker: Worker, shop: Client) -> None:
    with shop.lock("order:5"):
        result = worker.send("retries", 5)
        assert eventually(lambda: result.state == "RETRY", 60)
    assert result.get(timeout=60) >= 1


def test_retry_fails_the_task_after_its_max_retries(worker: Worker, shop: Client) -> None:
    with shop.lock("order:6"):
        result = worker.send("gives_up", 6)
        with pytest.raises(AcquireTimeout, match="order:6"):
            result.get(timeout=60)
    assert worker.log.read_text().count("Retry in 0.1s") >= 2


def test_two_children_never_run_under_one_lock_at_once(worker: Worker) -> None:
    path = worker.folder / "sum"
    path.write_text("0")
    results = [worker.send("add_one", str(path)) for _ in range(40)]
    pids = {result.get(timeout=60) for result in results}
    assert path.read_text() == "40"
    assert len(pids) == 2, "one child did all the work, so nothing was shown"


# Without a worker


@pytest.fixture
def memory() -> Iterator[Client]:
    with Client("memory://") as client:
        yield client


@pytest.fixture
def app() -> Iterator[Any]:
    app = celery.Celery("local", broker="memory://", set_as_current=False)
    yield app
    app.close()


def test_a_call_outside_of_a_worker_raises_instead_of_a_retry(memory: Client, app: Any) -> None:
    @locked_task(memory, "order:{order_id}", on_busy="retry")
    def pay(self: Any, order_id: int) -> str:
        return f"{self.name} {order_id}"

    task = app.task(bind=True)(pay)
    assert task(17).endswith("pay 17")
    with memory.lease("order:17"), pytest.raises(AcquireTimeout, match="order:17"):
        task(17)


def test_a_function_that_is_no_task_yet_had_nothing_to_be_sent_again_by(memory: Client) -> None:
    @locked_task(memory, "order:{order_id}", on_busy="retry")
    def pay(order_id: int) -> str:
        return "paid"

    assert pay(17) == "paid"
    with memory.lease("order:17"), pytest.raises(AcquireTimeout, match="order:17"):
        pay(17)


def test_a_decorator_above_the_task_made_a_function_without_delay(memory: Client, app: Any) -> None:
    def pay(order_id: int) -> None: ...

    task = app.task(name="shop.pay")(pay)
    with pytest.raises(TypeError, match=r"^the task shop\.pay cannot .*: put locked_task below @app\.task$"):
        locked_task(memory, "order:{order_id}", on_busy="skip")(task)


def test_missing_arguments_are_still_refused_when_the_task_is_sent(memory: Client, app: Any) -> None:
    @locked_task(memory, "order:{order_id}", on_busy="skip")
    def pay(self: Any, order_id: int) -> None: ...

    with pytest.raises(TypeError, match="order_id"):
        app.task(bind=True)(pay).delay()


def test_a_body_that_timed_out_for_a_lock_of_its_own_was_sent_again(memory: Client, app: Any) -> None:
    @locked_task(memory, "outer", on_busy="skip")
    def pay(self: Any) -> None:
        with memory.lock("inner", wait=0):
            pytest.fail("two holders")

    with memory.lease("inner"), pytest.raises(AcquireTimeout, match="inner"):
        app.task(bind=True)(pay)()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"on_busy": "raise"}, 'on_busy = \'raise\': "skip", "wait" or "retry"'),
        ({"on_busy": "wait"}, "needs wait"),
        ({"on_busy": "skip", "countdown": 3}, "countdown is for"),
        ({"on_busy": "skip", "ttl": 0}, "ttl"),
    ],
)
def test_options_that_do_not_fit_are_refused(memory: Client, options: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        locked_task(memory, "order", **options)


def test_a_template_that_does_not_fit_the_task_is_refused_when_it_is_decorated(memory: Client) -> None:
    with pytest.raises(ConfigError, match=r"names \{order\}, which is no parameter"):

        @locked_task(memory, "order:{order}", on_busy="skip")
        def pay(self: Any, order_id: int) -> None: ...


def test_without_celery_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['celery'] = None; import redlatch.contrib.celery"
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False, capture_output=True, text=True)
    assert "needs Celery: pip install 'redlatch[celery]'" in done.stderr
