"""``redlatch.contrib.django``."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest
import redlatch
from harness import needs_framework

needs_framework("django")
from django.conf import settings  # noqa: E402
from django.core.exceptions import ImproperlyConfigured  # noqa: E402
from django.test import override_settings  # noqa: E402

if not settings.configured:
    settings.configure(REDLATCH={"URL": "memory://"})
from redlatch.contrib import django as contrib  # noqa: E402
from redlatch.contrib.django import get_client  # noqa: E402


def configured(value: Any) -> override_settings:
    return override_settings(REDLATCH=value)


def test_one_dict_is_the_default_client() -> None:
    with configured({"URL": "memory://"}):
        client = get_client()
        assert isinstance(client, redlatch.Client)
        assert get_client("default") is client
        with client.lock("order"):
            assert client.inspect("order") is not None


def test_several_dicts_are_clients_by_alias() -> None:
    with configured({"default": {"URL": "memory://"}, "reports": {"URL": "memory://", "POOL_SIZE": 2}}):
        assert get_client("reports") is get_client("reports")
        assert get_client("reports") is not get_client()


def test_options_reach_the_client() -> None:
    with configured({"URL": "memory://", "LABEL": "shop", "IO_TIMEOUT": 0.5}), get_client().lock("order"):
        found = get_client().inspect("order")
        assert found is not None and found.owner is not None
        assert found.owner.endswith(":shop")


def test_overriding_the_setting_gives_other_clients_and_ends_with_them() -> None:
    with configured({"URL": "memory://"}):
        outer = get_client()
        with configured({"URL": "memory://"}):
            assert get_client() is not outer
        assert get_client() is not outer
        with override_settings(DEBUG=True):
            assert get_client() is get_client()


def test_another_setting_keeps_the_clients() -> None:
    with configured({"URL": "memory://"}):
        client = get_client()
        with override_settings(USE_TZ=True):
            assert get_client() is client


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, r"settings\.REDLATCH must be a dict"),
        ({}, r"settings\.REDLATCH must be a dict"),
        ("redis://x", r"settings\.REDLATCH must be a dict"),
        (
            {"URL": "memory://", "POOLSIZE": 3},
            r"settings\.REDLATCH has unknown keys POOLSIZE; known are URL, KEY_PREFIX",
        ),
        ({"url": "memory://"}, r"unknown keys url"),
        ({"LABEL": "shop"}, r"settings\.REDLATCH has no URL"),
        ({"default": {"LABEL": "shop"}}, r"settings\.REDLATCH\['default'\] has no URL"),
        ({"default": {"URL": "memory://", "X": 1}}, r"settings\.REDLATCH\['default'\] has unknown keys X"),
        ({"reports": {"URL": "memory://"}}, r"no alias 'default'; it has: reports"),
        ({"default": {"URL": "memory://"}, "URL": "memory://"}, r"unknown keys default"),
        ({"URL": "memory://", "POOL_SIZE": 0}, r"settings\.REDLATCH: .*pool_size"),
        ({"URL": "memory://", "POOL_SIZE": "many"}, r"settings\.REDLATCH: "),
    ],
)
def test_a_setting_that_makes_no_client_is_improperly_configured(value: Any, says: str) -> None:
    with configured(value), pytest.raises(ImproperlyConfigured, match=says):
        get_client()


def test_a_missing_setting_is_improperly_configured() -> None:
    with override_settings():
        del settings.REDLATCH
        contrib._forget(setting="REDLATCH")
        with pytest.raises(ImproperlyConfigured, match=r"settings\.REDLATCH must be a dict"):
            get_client()


def test_a_refused_url_does_not_show_its_password() -> None:
    with configured({"URL": "http://me:s3cret@host"}), pytest.raises(ImproperlyConfigured) as caught:
        get_client()
    assert "s3cret" not in str(caught.value)


def test_threads_that_ask_at_once_got_a_client_each(monkeypatch: pytest.MonkeyPatch) -> None:
    both_made = threading.Barrier(2)
    make = contrib._make

    def make_with_the_other(alias: str) -> redlatch.Client:
        client = make(alias)
        both_made.wait(10)
        return client

    monkeypatch.setattr(contrib, "_make", make_with_the_other)
    with configured({"URL": "memory://"}):
        found: list[redlatch.Client] = []
        threads = [threading.Thread(target=lambda: found.append(get_client())) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert len(found) == 2
        assert found[0] is found[1] is get_client()


def test_without_django_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['django'] = None; import redlatch.contrib.django"
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False, capture_output=True, text=True)
    assert "needs Django: pip install 'redlatch[django]'" in done.stderr
