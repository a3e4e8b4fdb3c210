"""The wheel: what is in it, and that it runs away from any checkout."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from gateway.run.commands import PROCESSES
from tests.support.bed import Bed
from tests.support.debian import build_wheel, run
from tests.support.manage import PROJECT
from tests.support.running import Run, clean_environment, put_database

APPS = ("gateway", "accounts", "routing", "interns", "console")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user's own, with an empty home and nothing of a checkout."""
    free = {"PORT": "0", "METRICS_BIND": "127.0.0.1:0", "GATEWAY_HOME": str(tmp_path / "home")}
    return clean_environment() | free | {"HOME": str(tmp_path)}


@pytest.fixture
def runs() -> Iterator[list[Run]]:
    started: list[Run] = []
    yield started
    for each in started:
        each.clean_up()


def test_the_wheel_has_every_file_of_the_apps(wheel: Path) -> None:
    listing = subprocess.run(
        ["git", "ls-files", *APPS], cwd=PROJECT, capture_output=True, text=True, check=True
    )

    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
        lock = archive.read("interns/runtime/image/requirements.lock")

    assert set(listing.stdout.split()) <= packed
    assert lock == (PROJECT / "requirements.lock").read_bytes()


def test_the_procfile_says_what_the_commands_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Word for word, but for folders of this machine and the order of options."""
    lines = [line.split(": ", 1) for line in (PROJECT / "Procfile").read_text().splitlines()]
    shortened = {
        name: {Path(word).name if word.startswith("/") else word for word in process.build()}
        for name, process in PROCESSES.items()
    }

    assert [name for name, _ in lines] == list(PROCESSES)
    for name, line in lines:
        words = line.replace("${INTERN_JOBS:-4}", "4").split()
        if name == "release":
            assert words[2:] == PROCESSES[name].build()[4:]
        else:
            assert {Path(word).name if "/" in word else word for word in words} == shortened[name]


def use(gateway: Run) -> None:
    """What only files beside the code can answer, and a call."""
    gateway.wait_until(gateway.ready_file.exists, "readiness", within_s=120)
    facts = json.loads(gateway.ready_file.read_text())
    root_url, key = facts["root_url"], {"Authorization": f"Bearer {facts['api_key']}"}
    paths = ("/docs", "/static/console/console.css", "/static/admin/css/base.css")
    for path in (*paths, "/static/vendor/htmx/htmx-2.min.js", "/api/v1/openapi.json"):
        assert requests.get(root_url + path, timeout=20).status_code == 200, path
    assert "</main>" in requests.get(facts["console_link"], timeout=20).text
    body = {"model": "simulated/small", "messages": [{"role": "user", "content": "Hello"}]}
    answer = requests.post(
        f"{facts['base_url']}/chat/completions", json=body, headers=key, timeout=20
    )
    assert answer.status_code == 200, answer.text
    assert gateway.stop() == 0


@pytest.mark.thorough
def test_an_unpacked_wheel_runs_from_any_folder(
    wheel: Path, environment: dict[str, str], tmp_path: Path, runs: list[Run], stores: Bed
) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    logs = tmp_path / "logs"
    logs.mkdir()
    env = environment | {"PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"}
    asked = [sys.executable, "-c", "from gateway.home import home; print(home())"]
    usual = env | {"GATEWAY_HOME": "", "XDG_DATA_HOME": "/data"}
    place = subprocess.run(asked, env=usual, cwd="/", capture_output=True, text=True, check=True)
    assert place.stdout == "/data/routing-gateway\n"
    home = tmp_path / "home"
    put_database(home, stores.migrated_file())

    runs.append(Run(home, env, command=[sys.executable, "-m", "gateway", "run"], logs=logs))

    use(runs[0])


@pytest.mark.nightly
def test_pipx_or_a_fresh_environment_needs_the_wheel_alone(
    wheel: Path, environment: dict[str, str], tmp_path: Path, runs: list[Run]
) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = venv / "bin" / "pip"
    run([pip, "install", "--quiet", "--constraint", _without_hashes(tmp_path), wheel])
    logs = tmp_path / "logs"
    logs.mkdir()
    script = str(venv / "bin" / "routing-gateway")

    helped = subprocess.run([script, "manage", "help"], env=environment, capture_output=True)
    assert b"audit_ledger" in helped.stdout
    home = tmp_path / "home"
    runs.append(Run(home, environment, command=[script, "run"], logs=logs))

    use(runs[0])


def _without_hashes(folder: Path) -> Path:
    """The lock's versions: with hashes pip would want one of the wheel too."""
    lines = (PROJECT / "requirements.lock").read_text().splitlines()
    pins = [line.split(" \\")[0] for line in lines if line and line[0].isalnum()]
    file = folder / "constraints.txt"
    file.write_text("\n".join(pins))
    return file
