"""docs/reference/driving.md as a script: a user with a bare environment drives one gateway by
commands, whose answers have the fields that the page lists."""

import os
import re
import shlex
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from tests.outside.outsider import PYTHON, Outsider
from tests.support.another_user import USER, processes_of
from tests.support.manage import PROJECT, Outcome
from tests.support.promptness import in_time
from tests.support.running import Run

# The first one waits for the start.
pytestmark = [pytest.mark.timeout(180), pytest.mark.thorough]
PAGE = (PROJECT / "docs" / "reference" / "driving.md").read_text(encoding="utf-8")
INTERN_S = 15.0
STOP_S = 10.0
# Words, and the exit status.
REFUSED = {
    "load_catalogue": 2,
    "suspend_interns": 2,
    "load_catalogue /nonexistent.yaml": 1,
    "route --model no/such": 1,
    "credits_add --account nobody --usd 5 --ref r": 1,
    "usage_reverse --generation gen-none --usd 0.01 --ref r": 1,
    "add_provider lost --base-url http://127.0.0.1:9/v1 --free --no-input": 1,
    "release_intern demo/nobody": 1,
}
READS = ("audit_ledger", "dump_catalogue", "route --model simulated/small", "interns")


def fields_of(command: str) -> list[str]:
    """What the page says that a command answers: the names in the braces beside it."""
    rows = (line for line in PAGE.splitlines() if line.startswith("| `"))
    row = next(line for line in rows if f"`{command}" in line.split(" | ")[0])
    commands, _, answers = row.partition(" | ")
    braces = re.findall(r"`\{(.*?)\}`", answers)
    # A row of two commands has two answers.
    which = [name.split()[0] for name in re.findall(r"`(.*?)`", commands)].index(command)
    inner = re.sub(r"\[.*?\]|\{.*?\}", "", braces[min(which, len(braces) - 1)])
    return [part.split(":")[0].strip() for part in inner.split(",")]


def answer_of(outsider: Outsider, words: str, *, status: int = 0) -> dict[str, Any]:
    """One JSON object on standard output, and nothing else there, with exactly these fields."""
    command, *rest = shlex.split(words)
    done: Outcome = outsider.manage(command, *rest, "--json")
    assert done.status == status, (words, done)
    answer = done.json()
    if status and "error" in answer:
        assert list(answer) == ["error"], (words, done)
        assert answer["error"].splitlines()[-1] in done.stderr
    else:
        assert sorted(answer) == sorted(fields_of(command)), words
        assert status or done.stderr == "", (words, done)
    assert done.stdout.count("\n") <= 1, words
    assert "Traceback" not in done.stderr, words
    return answer


def all_answers(outsider: Outsider, wanted: dict[str, int]) -> None:
    """Several at once, as scripts do."""
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda each: answer_of(outsider, each[0], status=each[1]), wanted.items()))


def ask(facts: dict[str, Any], method: str, path: str, key: str = "", **options: Any) -> Any:
    headers = {"Authorization": f"Bearer {key or facts['api_key']}"}
    url = facts["base_url"] + path
    return requests.request(method, url, headers=headers, timeout=30, **options)


def test_what_is_there_once_it_is_ready(outsider: Outsider) -> None:
    run, facts = outsider.ensure_run()

    (ready_file,) = (line for line in PAGE.splitlines() if line.startswith("| ready file |"))
    listed = set(re.findall(r"`(\w+)`", ready_file.partition("The demo")[0]))
    assert facts.keys() == listed
    assert facts["pid"] in run.children("gateway.run")
    assert facts["base_url"] == f"{facts['root_url']}/api/v1"
    for name in ("base_url", "api_key", "management_key", "admin_url", "admin_password"):
        assert facts[name] in run.stdout
    assert requests.get(facts["admin_url"], timeout=5).status_code == 200
    assert requests.get(f"{facts['root_url']}/healthz", timeout=5).json() == {"status": "ok"}
    ready = requests.get(f"{facts['root_url']}/readyz", timeout=5).json()
    assert ready["status"] == "ok"
    assert ready["checks"].keys() >= {"database", "catalogue", "hints", "worker"}
    assert ready["checks"]["catalogue"].keys() >= {"ok", "version", "endpoints"}
    curl = next(line for line in run.stdout.splitlines() if line.startswith("curl "))
    assert '"cost":' in outsider.run("sh", "-c", curl).stdout


def test_nobody_else_reads_its_home(outsider: Outsider) -> None:
    run, _ = outsider.ensure_run()

    assert outsider.home.stat().st_mode & 0o777 == 0o700
    open_to_others = [
        path
        for path in (run.ready_file, outsider.home / "secrets", *outsider.home.rglob("*.*"))
        if path.exists()
        and not path.is_symlink()
        and path.lstat().st_mode & 0o077
        # What an intern works with has modes of its own, below a folder that nobody else enters.
        and "interns" not in path.parts
    ]
    assert open_to_others == []


def test_every_command_while_it_runs(outsider: Outsider) -> None:
    _, facts = outsider.ensure_run()
    seed = "seed_keys --account acme --workspace main --credits 5"
    rotated = answer_of(outsider, f"{seed} --rotate")
    assert (answer_of(outsider, seed)["api_key"], rotated["total_credits"]) == (None, 5)
    served = ask(
        facts,
        "POST",
        "/chat/completions",
        rotated["api_key"],
        json={"model": "simulated/small", "messages": [{"role": "user", "content": "Hello"}]},
    )
    generation, cost = served.headers["X-Generation-Id"], served.json()["usage"]["cost"]
    (entry,) = answer_of(outsider, f"ledger --generation {generation}")["entries"]
    assert entry["amount_nano"] == round(cost * 1e9)
    recorded = ask(facts, "GET", f"/generation?id={generation}", rotated["api_key"]).json()
    assert recorded["data"]["total_cost"] == cost

    back = f"usage_reverse --generation {generation} --usd {cost:.9f} --ref back-{generation}"
    assert answer_of(outsider, back)["created"] is True
    file = outsider.home / "run" / "demo-catalogue.yaml"
    all_answers(
        outsider,
        {
            **dict.fromkeys(READS, 0),
            **REFUSED,
            "create_management_key --account acme": 0,
            "credits_add --account acme --usd 5 --ref r": 0,
            f"load_catalogue {file} --check": 0,
            "reconcile_interns --dry-run": 0,
            "simulate_upstream --faults": 0,
            f"add_provider again --base-url {facts['simulator_url']}/steady/v1"
            " --free --no-input --no-probe": 0,
        },
    )
    version = answer_of(outsider, f"load_catalogue {file} --wait")["version"]
    ready = requests.get(f"{facts['root_url']}/readyz", timeout=5).json()
    assert ready["checks"]["catalogue"]["version"] == version


def test_an_intern_asked_for_by_a_command_runs_soon(outsider: Outsider) -> None:
    run, facts = outsider.ensure_run()
    made = ask(facts, "POST", "/interns", json={"name": "asked"}).json()["id"]

    def status() -> int | str:
        answer = ask(facts, "GET", f"/interns/{made}")
        return answer.json()["status"] if answer.ok else answer.status_code

    asked = time.monotonic()
    assert answer_of(outsider, "provision_intern demo/asked")["provisioning"] is True
    run.wait_until(lambda: status() == "running", "a running intern", within_s=60)
    in_time(time.monotonic() - asked, INTERN_S)
    assert answer_of(outsider, "suspend_interns demo/asked")["suspended"] == [made]
    assert answer_of(outsider, f"delete_intern {made}")["deleting"] is True
    run.wait_until(lambda: status() == 404, "its end", within_s=60)


def test_what_it_refuses_to_start_with(outsider: Outsider) -> None:
    """One line, exit 2, and nothing in the home of whoever tried."""
    outsider.ensure_run()
    supervisor = (PYTHON, "-m", "gateway.run")
    elsewhere = {"GATEWAY_HOME": str(outsider.folder / "elsewhere")}
    closed = str(outsider.folder / "closed")
    assert outsider.run("mkdir", "-m", "0", closed).status == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for settings, line in (
            ({"PORT": "0"}, "GATEWAY_HOME: another gateway runs in"),
            ({"PORT": str(taken.getsockname()[1]), **elsewhere}, "PORT: cannot listen on"),
            ({"WEB_CONCURRENCY": "0", **elsewhere}, "WEB_CONCURRENCY: "),
            ({"GATEWAY_HOME": closed}, f"GATEWAY_HOME: this user may not read {closed}"),
        ):
            done = outsider.run(*supervisor, **settings)
            assert (done.status, done.stdout) == (2, "")
            assert done.stderr.startswith(f"gateway: {line}")
            assert done.stderr.count("\n") == 1
    assert not (outsider.folder / "elsewhere" / "gateway.sqlite3").exists()


def test_a_stop_waits_for_no_stream_and_leaves_nothing(outsider: Outsider) -> None:
    run, facts = outsider.ensure_run()
    ask(facts, "POST", "/interns", json={"name": "left", "provision": True})
    catalogue = outsider.folder / "slow.json"
    catalogue.write_text(SLOW.replace("SIMULATOR", facts["simulator_url"]))
    catalogue.chmod(0o644)
    answer_of(outsider, f"load_catalogue {catalogue} --wait")
    body = {"model": "slow/model", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
    stream = ask(facts, "POST", "/chat/completions", json=body, stream=True)
    assert next(stream.iter_lines(chunk_size=1))
    asked = time.monotonic()

    assert run.stop(pid=facts["pid"]) == 0

    in_time(time.monotonic() - asked, STOP_S)
    assert not run.ready_file.exists()
    # Without root it is the user of everything else here.
    assert os.geteuid() or list(processes_of(USER)) == []
    stream.close()


SLOW = """{"providers": [{"slug": "slow", "name": "Slow", "base_url": "SIMULATOR/slow/v1"}],
"models": [{"id": "slow/model", "name": "Slow", "context_length": 1000, "endpoints": [
{"provider": "slow", "upstream_model": "sim/silence-mid-stream",
"pricing": {"prompt": "0.000001", "completion": "0.000001"}}]}]}"""


def test_every_command_while_nothing_runs(outsider: Outsider) -> None:
    outsider.run_and_stop()

    answer_of(outsider, "seed_keys --account later --workspace main --credits 5")
    file = outsider.home / "run" / "demo-catalogue.yaml"
    all_answers(
        outsider,
        {
            **dict.fromkeys(READS, 0),
            "create_management_key --account later": 0,
            "credits_add --account later --usd 5 --ref later": 0,
            f"load_catalogue {file} --wait": 0,
            # Nobody would hear of it.
            "suspend_interns demo/left": 1,
            "suspend_interns --all --here": 0,
        },
    )


# What is in the home of each line of the Procfile once it has begun.
BEGUN = {
    "release": "gateway.sqlite3",
    "web": "gateway.sqlite3",
    "worker": "queue/control/celery.exchange",
    "events": "queue/control/events.exchange",
    "interns": "queue/control/interns.exchange",
    "intern-control": "queue/control/intern-control.exchange",
    "destinations": "queue/control/destinations.exchange",
    "beat": "run/beat-schedule.dat",
}


def test_every_line_of_the_procfile_begins_in_an_empty_home(outsider: Outsider) -> None:
    lines = [line.split(": ", 1) for line in (PROJECT / "Procfile").read_text().splitlines()]
    places = {name: outsider.folder / "procfile" / name for name, _ in lines}
    assert outsider.run("mkdir", "-p", *map(str, places.values())).status == 0
    path = f"{PROJECT / '.venv' / 'bin'}:{outsider.env['PATH']}"
    runs: dict[str, Run] = {}
    try:
        for name, line in lines:
            words = ("sh", "-c", f"exec {line}")
            home = places[name] / "home"
            runs[name] = outsider.start(*words, home=home, logs=places[name], PATH=path)
        for name, run in runs.items():
            sign = run.home / BEGUN[name]
            run.wait_until(sign.exists, f"the beginning of {name}", within_s=40)
        assert runs["release"].process.wait(90) == 0
        for name, run in runs.items():
            assert name == "release" or run.process.poll() is None, run.stderr
            assert "Traceback" not in run.stderr, name
    finally:
        for run in runs.values():
            run.clean_up()
