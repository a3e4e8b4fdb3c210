"""The parts of a run that can be looked at without starting one; and who loses a parent below the
supervisor is ended by it."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.run import install, plan, ready, signals
from gateway.run.plan import CannotStart, Plan


def a_plan(**changes: Any) -> Plan:
    usual: dict[str, Any] = {
        "home": Path("/home/gateway"),
        "host": "127.0.0.1",
        "port": 8000,
        "simulator": True,
        "simulator_port": 0,
        "valkey_binary": None,
        "valkey_socket": Path("/home/gateway/run/valkey.sock"),
        "version": "1.2.3",
    }
    return Plan(**usual | changes)


NAMES = (
    *("account_id", "workspace_id", "api_key", "management_key"),
    *("admin_user", "admin_password", "console_link"),
)
DEMO = {name: f"the-{name}" for name in NAMES}


def test_valkey_listens_in_the_home_where_the_path_is_short(tmp_path: Path) -> None:
    short, deep = Path("/srv/gateway/run"), tmp_path / ("x" * 100)

    assert plan.socket_path(short) == short / "valkey.sock"
    elsewhere = plan.socket_path(deep)
    assert len(str(elsewhere)) <= plan.SOCKET_PATH_MAX
    assert elsewhere.parent.stat().st_mode & 0o777 == 0o700
    elsewhere.parent.rmdir()


def test_children_inherit_the_plan_and_the_root_url_is_one_that_answers_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REDIS_URL", "")
    environment = a_plan(port=4711, valkey_binary=Path("/bin/valkey")).environment()
    assert environment["PORT"] == "4711"
    assert environment["REDIS_URL"] == "unix:///home/gateway/run/valkey.sock"
    urls = {
        "127.0.0.1": "http://127.0.0.1:8000",
        "0.0.0.0": "http://127.0.0.1:8000",  # noqa: S104 - Nothing is bound.
        "::": "http://[::1]:8000",
        "gateway.example": "http://gateway.example:8000",
    }
    assert {host: a_plan(host=host).root_url for host in urls} == urls


def test_a_port_or_a_home_in_use_is_refused(tmp_path: Path) -> None:
    refused = r"^SIMULATOR_PORT: cannot listen on 127\.0\.0\.1:"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(CannotStart, match=refused):
            plan.listen("127.0.0.1", port, name="SIMULATOR_PORT")
    (tmp_path / "run").mkdir()
    with plan.take_home(tmp_path), pytest.raises(CannotStart, match="another gateway runs in"):
        plan.take_home(tmp_path)
    plan.take_home(tmp_path).close()


@pytest.mark.parametrize("simulator_url", ["http://127.0.0.1:9100", ""])
def test_the_banner_shows_all_it_takes_to_begin(simulator_url: str) -> None:
    facts = ready.facts(a_plan(), DEMO, simulator_url)
    banner = ready.banner(facts)
    for name in ("base_url", "api_key", "console_link", "admin_url", "admin_password"):
        assert facts[name] in banner
    assert (ready.DEMO_MODEL in banner) == bool(simulator_url)
    # The request, and a failover where there is a provider that can be made to fail.
    assert banner.count("curl -s") == (3 if simulator_url else 1)
    assert (f"-X PUT {simulator_url}/_outage/thrifty" in banner) == bool(simulator_url)


def test_another_process_than_the_parent_counts_as_gone_and_nobody_never_leaves() -> None:
    assert (signals.Parent(os.getpid()).is_gone(), signals.Parent(None).is_gone()) == (True, False)


def test_an_install_is_known_by_its_stamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, stamp = tmp_path / "requirements.lock", tmp_path / "stamp"
    lock.write_text("one==1\n")
    monkeypatch.setattr(install, "VENV", tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    wanted = install.stamp_text(lock)

    assert not install.is_installed(stamp, wanted)
    stamp.write_text(wanted)
    assert install.is_installed(stamp, wanted)
    lock.write_text("one==2\n")
    assert not install.is_installed(stamp, install.stamp_text(lock))


# A process that hears no SIGTERM, begun by one that ends at once.
ADOPTING = """
import os, signal, subprocess, sys, time
from gateway.run.child import adopt_orphans, end_orphans, reap_orphans

adopt_orphans()
begin = 'trap "" TERM; (while :; do sleep 1; done) >&- 2>&- & echo $!'
begun = subprocess.run(["sh", "-c", begin], stdout=subprocess.PIPE, check=True)
reap_orphans(())
end_orphans(0.2, time.sleep)
print(os.path.exists(f"/proc/{int(begun.stdout)}"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems hand no orphans on")
def test_an_orphan_that_hears_no_sigterm_is_killed_and_reaped() -> None:
    done = subprocess.run([sys.executable, "-c", ADOPTING], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"False\n"
