"""Two lives of one home, as root where root runs the tests. A SIGKILL ends each, and nothing is
left."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from gateway.env import sandbox_users
from tests.outside.outsider import Outsider

pytestmark = pytest.mark.thorough

STOP_S = 10.0
INTERN_S = 60.0


@pytest.fixture
def root() -> Iterator[Outsider]:
    root = Outsider(as_root=True, INTERN_PUBLISH_SECONDS="10")
    yield root
    root.leave()


def agents_of(keeper: str) -> dict[Path, int]:
    """Processes inside the sandbox of the intern whose keeper has these words: place → user."""
    lines = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = (place / "stat").read_text().rpartition(")")[2].split()[1]
            lines[place] = (parent, (place / "cmdline").read_bytes(), place.stat().st_uid)
        except OSError:
            continue
    inside = [place for place, (_, line, _) in lines.items() if keeper.encode() in line]
    for place in inside:
        inside += [child for child, (parent, *_) in lines.items() if parent == place.name]
    return {each: lines[each][2] for each in inside if b"interns.agent" in lines[each][1]}


@pytest.mark.timeout(180)  # Two starts.
def test_who_is_killed_leaves_nothing_and_a_run_starts_again(root: Outsider) -> None:
    """First the supervisor, with an intern at work, then make."""
    run, facts = root.ensure_run()
    secrets = {name: facts[name] for name in ("api_key", "management_key", "admin_password")}
    made = requests.post(
        f"{facts['base_url']}/interns",
        headers={"Authorization": f"Bearer {facts['api_key']}"},
        json={"name": "asked"},
        timeout=30,
    )
    assert root.manage("provision_intern", "demo/asked", "--json").status == 0
    keeper = f"interns.runtime.supervisor {made.json()['id']}".replace(" ", "\0")
    run.wait_until(lambda: len(agents_of(keeper)) == 3, "a running intern", within_s=INTERN_S)
    agents = agents_of(keeper)
    if os.geteuid() == 0:
        assert "running as root; shells, interns and file readers run as users" in run.stderr
        # Bubblewrap itself is the keeper's.
        assert len({uid for uid in agents.values() if uid in sandbox_users()}) == 1
        assert list(agents.values()).count(0) == 1

    os.kill(facts["pid"], signal.SIGKILL)

    assert run.process.wait(STOP_S) != 0
    run.wait_gone(within_s=15)
    run.wait_until(lambda: not any(place.exists() for place in agents), "the agent's end")
    again, found = root.ensure_run()
    assert found["pid"] != facts["pid"]
    assert {name: found[name] for name in secrets} == secrets
    assert (root.home / "secrets" / "demo.json").stat().st_mode & 0o777 == 0o600

    again.process.kill()
    again.process.wait(STOP_S)

    again.wait_gone()
    assert not again.ready_file.exists()
