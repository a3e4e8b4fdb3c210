"""Secrets: generated once, kept private, required in production, sealed for one row."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from gateway.env import SettingError
from gateway.home import (
    keep_private,
    private_folder,
    run_in_progress,
    secret,
    write_private,
)
from gateway.sealing import UnsealError, seal, unseal
from tests.support.bed import PROJECT
from tests.support.processes import dies_with_parent

NAME = "SOME_SECRET"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(NAME, raising=False)
    monkeypatch.setenv("GATEWAY_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_secret_is_generated_once_and_kept_private(home: Path) -> None:
    first = secret(NAME, production=False)

    assert len(first) >= 43
    assert secret(NAME, production=False) == first
    file = home / "secrets" / NAME.lower()
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)
    write_private(file, "two")
    assert (file.read_text(), mode(file)) == ("two", 0o600)
    assert list(file.parent.iterdir()) == [file]


def test_the_environment_comes_first_and_production_asks_for_a_strong_one_by_name(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingError, match=f"^{NAME}: "):
        secret(NAME, production=True)
    monkeypatch.setenv(NAME, " given ")
    assert secret(NAME, production=False) == "given"
    for weak in ("x", "a" * 64, "short-but-various-0123456789"):
        monkeypatch.setenv(NAME, weak)
        with pytest.raises(SettingError, match=r"32 random bytes .* python3 -c"):
            secret(NAME, production=True)
    for strong in (os.urandom(32).hex(), "5G1wXmPqRzT0aBcDeFgHiJkLmNoPqRsTuVwXyZ01234="):
        monkeypatch.setenv(NAME, strong)
        assert secret(NAME, production=True) == strong
    assert not home.exists()
    # An empty file is not taken for a secret.
    monkeypatch.delenv(NAME)
    write_private(home / "secrets" / NAME.lower(), "\n")
    with pytest.raises(SettingError, match=f"^{NAME}: "):
        secret(NAME, production=False)


def test_a_home_is_its_owners_whatever_it_was(tmp_path: Path) -> None:
    place = tmp_path / "parent" / "home"
    previous = os.umask(0o022)
    try:
        private_folder(place)
        assert [mode(each) for each in (place, place.parent)] == [0o700, 0o700]
        place.chmod(0o755)
        database = place / "gateway.sqlite3"
        database.touch(0o644)
        keep_private(place)
        (place / "later").touch()
        assert [mode(each) for each in (place, database, place / "later")] == [0o700, 0o600, 0o600]
    finally:
        os.umask(previous)


def test_a_run_that_lives_is_found(home: Path) -> None:
    assert run_in_progress() == {}
    facts = {"pid": os.getpid(), "broker_url": "unix:///run/broker.sock"}
    write_private(home / "run" / "ready.json", json.dumps(facts))
    assert run_in_progress() == facts
    # No process has this number.
    write_private(home / "run" / "ready.json", json.dumps(facts | {"pid": 2**22 + 1}))
    assert run_in_progress() == {}


def test_processes_that_start_together_agree_on_one_secret(home: Path) -> None:
    script = (
        "import sys; from gateway.home import secret; print('ready', flush=True);"
        f"sys.stdin.readline(); print(secret({NAME!r}, production=False))"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            cwd=PROJECT,
            env={**os.environ, "GATEWAY_HOME": str(home)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=dies_with_parent(),
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout
        process.stdout.readline()
    found = {process.communicate("go\n", timeout=90)[0].strip() for process in processes}

    assert found == {secret(NAME, production=False)}
    assert len(list((home / "secrets").iterdir())) == 1


def test_production_starts_with_its_secrets_only_and_binds_its_cookies(tmp_path: Path) -> None:
    names = ("SECRET_KEY", "VAULT_MASTER_KEY", "ROUTER_USER_HASH_SECRET")
    env = {name: value for name, value in os.environ.items() if name not in names}
    env |= {"GATEWAY_ENV": "production", "ALLOWED_HOSTS": "gateway.example"}
    script = "import gateway.settings as s; print(s.SESSION_COOKIE_NAME, s.CSRF_COOKIE_NAME)"
    starts = {
        missing: subprocess.Popen(
            [sys.executable, "-c", script],
            cwd=PROJECT,
            env=env
            | {"GATEWAY_HOME": str(tmp_path / missing)}
            | {name: os.urandom(32).hex() for name in names if name != missing},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=dies_with_parent(),
        )
        for missing in (*names, "nothing")
    }
    said = {missing: start.communicate(timeout=60) for missing, start in starts.items()}

    assert said.pop("nothing")[0].split() == ["__Host-sessionid", "__Host-csrftoken"]
    for missing, (_, refusal) in said.items():
        assert f"{missing}: required in production" in refusal
        assert starts[missing].returncode != 0
        assert not (tmp_path / missing).exists()


@given(plaintext=st.text(st.characters(codec="utf-8")), row=st.text(st.characters(codec="utf-8")))
def test_what_is_sealed_opens_for_its_row(plaintext: str, row: str) -> None:
    sealed = seal(plaintext, purpose="p", row=row)
    assert unseal(sealed, purpose="p", row=row) == plaintext
    assert len(plaintext) < 4 or plaintext not in sealed


def opens(sealed: str, purpose: str = "p", row: str = "r") -> bool:
    try:
        return unseal(sealed, purpose=purpose, row=row) == "secret"
    except UnsealError:
        return False


def test_what_was_copied_changed_or_never_sealed_does_not_open(settings: Settings) -> None:
    values = [seal("secret", purpose="p", row="r") for _ in range(100)]
    sealed = values[0]
    assert opens(sealed)
    assert len(set(values)) == 100, "sealing twice never looks the same"

    for purpose, row in (("p", "other"), ("other", "r"), ("p", ""), ("pr", "")):
        assert not opens(sealed, purpose, row)
    for at in range(3, len(sealed)):
        other = "A" if sealed[at] != "A" else "B"
        assert not opens(sealed[:at] + other + sealed[at + 1 :]), at
    for odd in ("", "v1:", "v1:AAAA", "v1:é", "v1:%%%", "v2:AAAA", "secret"):
        assert not opens(odd)
    settings.VAULT_MASTER_KEY = "another"
    assert not opens(sealed)
