"""Settings are read typed; an odd value stops the start by the setting's name; and every system
check fires on the setting it is about."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks
from django.test import override_settings
from pytest_django import Settings

from gateway import apps, env
from gateway.env import SettingError
from gateway.environment.interns import archive_storage
from gateway.home import PROJECT
from gateway.live_settings import settings as live

NAME = "SOME_SETTING"


def read(monkeypatch: pytest.MonkeyPatch, value: str, reader: Any, *args: Any, **kw: Any) -> Any:
    monkeypatch.setenv(NAME, value)
    return reader(NAME, *args, **kw)


# What reads, with its default and bounds, and what becomes of the words.
READ: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (env.text, ("d",), {" a b ": "a b", "  ": "d"}),
    (env.boolean, (False,), {"1": True, "TRUE": True, "off": False, "": False}),
    (env.boolean, (True,), {"off": False, "": True}),
    (env.integer, (7,), {"12": 12, "": 7}),
    (partial(env.integer, minimum=0), (7,), {"0": 0}),
    (partial(env.integer, maximum=9), (7,), {"9": 9}),
    (env.optional_integer, (), {"": None, "5": 5}),
    (env.decimal, (1.5,), {"0.25": 0.25, "": 1.5}),
    (env.seconds, (10,), {"0.001": 0.001}),
    (env.choice, ("a", ("a", "b")), {"b": "b"}),
    (env.words, (), {" a, ,b ,": ["a", "b"]}),
    (env.words, ("x,y",), {"": ["x", "y"]}),
    (env.tool_backends, (), {"router:x=a.b.C, web-y=d.e": {"router:x": "a.b.C", "web-y": "d.e"}}),
    (env.import_path, (), {"": "", "package.module.hook": "package.module.hook"}),
    (env.model_patterns, (), {"": (), "a/b:free, small ,*/x-*": ("a/b:free", "small", "*/x-*")}),
    (env.networks, (), {"": (), "127.0.0.1, ::/8": (ip_network("127.0.0.1"), ip_network("::/8"))}),
    (env.base_url, (), {"": "", "https://gateway.example/": "https://gateway.example"}),
    (env.base_url, (), {"http://[::1]:8000/below": "http://[::1]:8000/below"}),
    (env.proxy, (), {"": "", "http://127.0.0.1:3128": "http://127.0.0.1:3128"}),
    (env.proxy, (), {"http://proxy.example:3128/": "http://proxy.example:3128"}),
    (env.key_prefix, ("sk-",), {"": "sk-", "-": "-", "acme_live.v1-": "acme_live.v1-"}),
    (env.key_prefix, ("sk-",), {"a" * 19 + "-": "a" * 19 + "-"}),
    (env.host_names, (), {"": frozenset(), "A.B, 127.0.0.1,::1": {"a.b", "127.0.0.1", "::1"}}),
    (env.archive_store, (), {"": "", "s3://bucket": "s3://bucket", "s3://bucket/": "s3://bucket"}),
    (env.archive_store, (), {"s3://my.bucket-1/some/prefix/": "s3://my.bucket-1/some/prefix"}),
    (env.vendors, ("openrouter",), {" ": ()}),
]


@pytest.mark.parametrize(("reader", "args", "values"), READ)
def test_what_is_read(
    monkeypatch: pytest.MonkeyPatch, reader: Any, args: tuple[Any, ...], values: dict[str, Any]
) -> None:
    for value, expected in values.items():
        found = read(monkeypatch, value, reader, *args)
        assert found == expected
        assert isinstance(expected, set) or type(found) is type(expected)


def test_a_setting_may_stand_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As engines of containers and systemd hand secrets out."""
    file = tmp_path / "secret"
    file.write_text(" 12\n")
    monkeypatch.setenv(f"{NAME}_FILE", str(file))
    assert env.integer(NAME, 7) == 12

    monkeypatch.setenv(NAME, "13")
    with pytest.raises(SettingError, match=f"^{NAME}: {NAME}_FILE is set too"):
        env.text(NAME)

    monkeypatch.delenv(NAME)
    monkeypatch.setenv(f"{NAME}_FILE", str(tmp_path / "absent"))
    with pytest.raises(SettingError, match=f"^{NAME}_FILE: cannot read .*No such file"):
        env.text(NAME)


ODD: list[tuple[Any, tuple[Any, ...], list[str]]] = [
    (env.boolean, (False,), ["maybe", "2"]),
    (env.integer, (7,), ["many", "1.5", "-1", "9" * 5000]),
    (partial(env.integer, minimum=1), (7,), ["0"]),
    (partial(env.integer, maximum=9), (7,), ["10"]),
    (partial(env.optional_integer, minimum=1), (), ["0"]),
    (env.decimal, (1.0,), ["much", "nan", "inf", "-0.1"]),
    (partial(env.decimal, maximum=1), (1.0,), ["1.01"]),
    (env.seconds, (1.0,), ["0", "1e9"]),
    (env.choice, ("a", ("a", "b")), ["c"]),
    (env.model_patterns, (), ["a/b;c/d", "a/b, ~a/b-latest", "a" * 201]),
    (env.import_path, (), ["package/module.py"]),
    (env.url, (("http",),), ["ftp://x", "http://x:port", "http://x:99999", "http://[::1", "non"]),
    (env.url, (("http",),), [f"{it}:pass-word@x" for it in ("ftp://me", "ws://me")]),
    (env.url, (("http",),), ["http://me:pass-word@x:port", "http://me:pass-word@[x"]),
    (env.base_url, (), ["gateway.example", "ftp://gateway.example", "https://", "https://a/a b"]),
    (env.base_url, (), ["https://me:pass-word@a", "https://a/?a=b", "https://a/#a"]),
    (env.base_url, (), ["https://gateway\n.example", "https://gateway.example:port"]),
    (env.proxy, (), ["https://proxy.example:3128", "http://proxy.example", "http://a:0"]),
    (env.proxy, (), ["http://:3128", "http://me:pass-word@a:3128", "http://a:3128/b", "a:3128"]),
    (env.key_prefix, ("sk-",), ["sk", "s k-", "clé-", "s\tk-", "a" * 20 + "-"]),
    (env.host_names, (), ["http://a.b", "a.b/c", "*.a", "a b", "a.b:80 c"]),
    (env.archive_store, (), ["s3://", "s3://B", "bucket", "gs://bucket", "s3://bucket/a b"]),
    (env.vendors, ("openrouter",), ["openruter"]),
]


@pytest.mark.parametrize(("reader", "args", "values"), ODD)
def test_what_is_odd_is_refused_by_name_and_no_password_is_repeated(
    monkeypatch: pytest.MonkeyPatch, reader: Any, args: tuple[Any, ...], values: list[str]
) -> None:
    for value in values:
        with pytest.raises(SettingError) as caught:
            read(monkeypatch, value, reader, *args)
        assert str(caught.value).startswith(f"{NAME}: ")
        assert caught.value.name == NAME
        assert "pass-word" not in str(caught.value)


@pytest.mark.parametrize("reader", [env.text, env.words])
def test_unset_and_empty_are_the_same(monkeypatch: pytest.MonkeyPatch, reader: Any) -> None:
    monkeypatch.delenv(NAME, raising=False)
    assert reader(NAME) == read(monkeypatch, "", reader)
    monkeypatch.delenv(NAME)
    assert env.vendors(NAME, "openrouter") == ("openrouter",)


def test_a_store_says_bucket_prefix_and_server(tmp_path: Path) -> None:
    local = archive_storage("", "", tmp_path, silence_s=2)
    assert local["OPTIONS"] == {"location": str(tmp_path / "archives"), "allow_overwrite": True}
    place = ("s3://bucket/a/b", "http://127.0.0.1:9000")
    told = archive_storage(*place, tmp_path, silence_s=2)["OPTIONS"]
    assert (told["bucket_name"], told["location"]) == ("bucket", "a/b")
    assert told["endpoint_url"] == "http://127.0.0.1:9000"
    amazon = archive_storage("s3://bucket", "", tmp_path, silence_s=2)["OPTIONS"]
    assert "endpoint_url" not in amazon
    for client in (told["client_config"], amazon["client_config"]):
        assert (client.connect_timeout, client.read_timeout) == (2, 2)


def test_an_override_is_seen_at_once_and_so_is_its_end() -> None:
    before = live.ROUTER_MAX_MODELS
    with override_settings(ROUTER_MAX_MODELS=before + 1):
        assert before + 1 == live.ROUTER_MAX_MODELS
    assert before == live.ROUTER_MAX_MODELS
    assert not hasattr(live, "NO_SUCH_SETTING")


# --- What stops the start -------------------------------------------------------------------------

STARTS: list[tuple[dict[str, str], str]] = [
    ({}, ""),
    ({"ROUTER_SEARCH_ENGINE": "searxng"}, "ROUTER_SEARCH_URL"),
    ({"ROUTER_SEARCH_ENGINE": "searxng", "ROUTER_SEARCH_URL": "http://10.0.0.1:8888/"}, ""),
    ({"ROUTER_SEARCH_ENGINE": "searxng", "ROUTER_SEARCH_URL": "ftp://a"}, "ROUTER_SEARCH_URL"),
    ({"ROUTER_SEARCH_ENGINE": "brave"}, "ROUTER_SEARCH_KEY"),
    ({"ROUTER_SEARCH_ENGINE": "tavily", "ROUTER_SEARCH_KEY": "canary-key"}, ""),
    ({"ROUTER_SEARCH_ENGINE": "altavista"}, "ROUTER_SEARCH_ENGINE"),
    ({"ROUTER_FETCH_PRIVATE_HOSTS": "http://a"}, "ROUTER_FETCH_PRIVATE_HOSTS"),
    ({"ROUTER_FETCH_BYTES": "5"}, "ROUTER_FETCH_BYTES"),
    ({"EMAIL_CONFIRMATION": "1"}, "EMAIL_CONFIRMATION"),
    # Else links would begin with whatever host a request names.
    ({"EMAIL_CONFIRMATION": "1", "EMAIL_URL": "smtp://mail"}, "EMAIL_CONFIRMATION"),
    ({"EMAIL_CONFIRMATION": "1", "EMAIL_URL": "smtp://m", "PUBLIC_URL": "https://g.test"}, ""),
    # A misspelt limit would hold nobody.
    ({"ROUTER_KEY_RPMS": "60"}, "ROUTER_KEY_RPMS"),
    ({"INTERN_MEMORY": "1"}, "INTERN_MEMORY"),
    ({"INTERN_PORT": "8001", "PORT": "8001"}, "INTERN_PORT"),
    ({"INTERN_PORT": "8001", "PORT": "8000"}, ""),
    ({"OTEL_EXPORTER_OTLP_ENDPIONT": "http://a:4318"}, "OTEL_EXPORTER_OTLP_ENDPIONT"),
    ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL"),
    ({"OTEL_EXPORTER_OTLP_HEADERS": "canary-key"}, "OTEL_EXPORTER_OTLP_HEADERS"),
    ({"OTEL_TRACES_SAMPLER_ARG": "10"}, "OTEL_TRACES_SAMPLER_ARG"),
    # Others on the same host send metrics and logs.
    ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://a:4318", "OTEL_LOG_LEVEL": "info"}, ""),
    # Kubernetes tells each container of the services beside it.
    ({"ROUTER_SERVICE_HOST": "10.0.0.1", "ROUTER_PORT_80_TCP": "tcp://10.0.0.1:80"}, ""),
]
SCRIPT = """
import importlib, json, os, sys
import gateway.settings
from gateway.env import SettingError
from gateway.environment import interns, notifications, process, sign_in, tools, traces
found, before = [], dict(os.environ)
for given in json.load(sys.stdin):
    os.environ.clear()
    os.environ.update(before | given)
    try:
        for each in (interns, notifications, process, sign_in, tools, traces):
            importlib.reload(each)
        importlib.reload(gateway.settings)
        found.append("")
    except SettingError as error:
        found.append(str(error))
print(json.dumps(found))
"""


def test_nothing_starts_on_a_missing_or_misspelt_setting(tmp_path: Path) -> None:
    clean = {name: each for name, each in os.environ.items() if not name.startswith("ROUTER_")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=PROJECT,
        env={**clean, "GATEWAY_HOME": str(tmp_path)},
        input=json.dumps([given for given, _ in STARTS]),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [problem.partition(":")[0] for problem in told] == [name for _, name in STARTS]
    assert "ROUTER_KEY_RPMS: there is no such setting; the nearest is ROUTER_KEY_RPM" in told
    assert "canary-key" not in done.stdout


SQLITE = {"default": {"ENGINE": "django.db.backends.sqlite3"}}
POSTGRES = {"default": {"ENGINE": "django.db.backends.postgresql"}}
Said = dict[str, Any]
SMALL, HOOK, NOWHERE = {"ROUTER_TOTAL_TIMEOUT": 600}, "gateway.apps.register", "gateway.nowhere.x"
PRODUCTION, MANY = {"PRODUCTION": True}, {"WEB_CONCURRENCY": 2, "REDIS_URL": ""}
# A check, its message, settings of which it tells, and what of these makes them good.
FIRING: list[tuple[Callable[..., list[CheckMessage]], str, Said, Said]] = [
    (
        apps.hold_outlives_request,
        "gateway.E001",
        SMALL | {"HOLD_LEASE_SECONDS": 600},
        {"HOLD_LEASE_SECONDS": 601},
    ),
    (
        apps.detectors_can_be_loaded,
        "gateway.E003",
        {"GUARDRAIL_DETECTORS": {"address": NOWHERE}},
        {"GUARDRAIL_DETECTORS": {"address": HOOK}},
    ),
    (
        apps.tool_backends_can_be_loaded,
        "gateway.E004",
        {"ROUTER_TOOL_BACKENDS": {"router:bash": NOWHERE}},
        {"ROUTER_TOOL_BACKENDS": {"router:bash": HOOK}},
    ),
    (
        apps.sqlite_serves_one_machine,
        "gateway.W001",
        PRODUCTION | {"DATABASES": SQLITE},
        {"DATABASES": POSTGRES},
    ),
    (
        apps.billing_is_enforced,
        "gateway.W002",
        PRODUCTION | {"BILLING_ENFORCED": False},
        {"BILLING_ENFORCED": True},
    ),
    (
        apps.first_byte_fits_the_deadline,
        "gateway.W003",
        {"ROUTER_TOTAL_TIMEOUT": 10, "ROUTER_FIRST_BYTE_TIMEOUT": 11},
        {"ROUTER_TOTAL_TIMEOUT": 11},
    ),
    (
        apps.webhook_secret_is_long,
        "gateway.W006",
        {"CREDITS_WEBHOOK_SECRET": "x" * 23},
        {"CREDITS_WEBHOOK_SECRET": ""},
    ),
    (
        apps.rates_are_counted_together,
        "gateway.W004",
        MANY | {"ROUTER_KEY_RPM": 60},
        {"REDIS_URL": "redis://hints"},
    ),
    (
        apps.rates_are_counted_together,
        "gateway.W004",
        MANY | {"RATE_SIGN_INS": 60},
        {"WEB_CONCURRENCY": 1},
    ),
    (
        apps.failures_have_an_address,
        "gateway.W005",
        PRODUCTION | {"TRUSTED_PROXIES": ()},
        {"TRUSTED_PROXIES": ("127.0.0.1",)},
    ),
]


def ids(messages: list[CheckMessage]) -> list[str | None]:
    return [message.id for message in messages]


@pytest.mark.parametrize(("check", "id", "bad", "good"), FIRING)
@pytest.mark.filterwarnings("ignore:Overriding setting DATABASES")
def test_a_check_fires_by_its_id(
    settings: Settings, check: Callable[..., list[CheckMessage]], id: str, bad: Said, good: Said
) -> None:
    for values, expected in ((bad, [id]), (good, [])):
        for name, value in values.items():
            setattr(settings, name, value)
        assert ids(check()) == expected


@pytest.mark.filterwarnings("ignore:Overriding setting DATABASES")
def test_an_old_sqlite_is_refused(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for version, databases, told in (
        ((3, 34, 9), SQLITE, ["gateway.E002"]),
        ((3, 34, 9), POSTGRES, []),
        ((3, 35, 0), SQLITE, []),
    ):
        monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
        settings.DATABASES = databases
        assert ids(apps.sqlite_is_new_enough()) == told


def test_all_of_them_are_registered_and_the_settings_of_the_tests_pass(settings: Settings) -> None:
    assert [each for each in ids(run_checks()) if str(each).startswith("gateway.")] == []
    settings.HOLD_LEASE_SECONDS = 1
    assert "gateway.E001" in ids(run_checks())
