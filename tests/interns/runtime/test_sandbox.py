"""What an intern's commands find in their sandbox: not the host."""

import os
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gateway.sandbox import host_users
from gateway.sandbox.isolation import try_isolation
from interns.runtime import disk
from interns.runtime.sandbox import SANDBOXES, _build_trial
from tests.interns.runtime.bench import Bench, calls, family, read_pss_kib, wait_until
from tests.support.manage import PROJECT

IDLE_KIB_MAX = 120 * 1024
SYSTEMS_TEMPORARY = Path("/tmp")  # noqa: S108 - The very folder that is hidden inside.

LOOK = """
echo "user $(id -u)"
echo "processes $(ls /proc | grep -c '^[0-9]')"
ls /etc/passwd /var {project}/manage.py {project}/interns {home} 2>/dev/null && echo SEEN
cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -E 'GATEWAY|sk-simulated' && echo SEEN
touch /usr/x 2>/dev/null && echo WROTE
touch /gateway/interns/agent/x 2>/dev/null && echo WROTE
ln -s / outside && ls outside{project}/manage.py 2>/dev/null && echo SEEN
unshare -U true 2>/dev/null && echo NESTED
ls /run
"""
FILL = """
for place in / /etc /run /dev /intern /gateway /var /usr; do
    (echo x > $place/fill) 2>/dev/null && echo "WROTE $place"
    mkdir $place/filled 2>/dev/null && echo "WROTE $place"
done
dd if=/dev/zero of=/dev/shm/fill bs=1M count=100 2>/dev/null && echo "WROTE /dev/shm"
rm /dev/shm/fill
dd if=/dev/zero of=/tmp/fill bs=1M count=300 2>/dev/null && echo "WROTE /tmp"
rm /tmp/fill
for place in . /tmp /dev/shm; do
    echo x > $place/fits && cat $place/fits >/dev/null && echo "kept $place"
done
echo x > /dev/null && echo "kept /dev/null"
"""
NETWORK = """
import socket
for address in (("127.0.0.1", {port}), ("192.0.2.1", 80)):
    try:
        socket.create_connection(address, 1)
        print("REACHED", address)
    except OSError as error:
        print("refused")
"""
SOCKET = """
import http.client, socket
class Door(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("/run/gateway.sock")
def ask(method, path, body=b"{{}}", **headers):
    door = Door("gateway")
    door.request(method, path, body=body if method == "POST" else None, headers=headers)
    return door.getresponse().status
print(ask("GET", "/{persona}/v1/models"), ask("POST", "/{persona}/v1/interns/other/fetch"),
      ask("POST", "/{persona}/v1/chat/completions/../keys"), ask("GET", "/_log"),
      ask("POST", "/{persona}/v1/chat/completions", **{{"Transfer-Encoding": "chunked"}}),
      ask("POST", "/{persona}/v1/keys", body=b" " * 4_000_000))
"""


def python(source: str) -> str:
    return f"python3 - <<'END'\n{source}\nEND"


@pytest.mark.thorough
@pytest.mark.timeout(120)
@pytest.mark.parametrize("bench", ["sandboxed"], indirect=True)
def test_commands_find_nothing_of_the_host(bench: Bench, runtime_home: Path) -> None:
    plan, runtime = bench.boot()
    # One that is idle is small.
    shares_kib = [read_pss_kib(pid) for pid in family(int(runtime.facts["pid"]))]
    assert sum(shares_kib) <= IDLE_KIB_MAX, shares_kib

    def run_command(command: str) -> str:
        bench.says(calls("run_shell", command=command), {"text": "Done."})
        bench.turn(plan, "Run it")
        return list(bench.results())[-1]

    # No host files, no other processes, no privileges.
    found = run_command(LOOK.format(home=runtime_home, project=PROJECT))
    user = disk.disk_folder(plan.intern_id).stat().st_uid if host_users.is_root() else 1000
    assert user != 0
    assert f"user {user}\n" in found
    processes = int(next(w for w in found.splitlines() if w.startswith("processes")).split()[1])
    assert processes < 10
    for mark in ("SEEN", "WROTE", "NESTED", "agent.sock"):
        assert mark not in found, found
    assert "gateway.sock" in found
    # No memory beyond the bounds.
    found = run_command(FILL)
    assert "WROTE" not in found, found
    for place in (".", "/tmp", "/dev/shm", "/dev/null"):  # noqa: S108 - Its own, inside.
        assert f"kept {place}\n" in found, found
    # No network, and the gateway's socket leads only where it should.
    found = run_command(python(NETWORK.format(port=bench.simulator.port)))
    assert found.count("refused") == 2, found
    found = run_command(python(SOCKET.format(persona=bench.persona)))
    assert found.startswith("404 404 404 404 404 404"), found
    # The key is added outside.
    asked = bench.simulator.requests(bench.persona)[-1]
    assert asked["authorization_present"]
    assert "intern" not in asked["headers"].get("authorization", "")
    found = run_command("for i in $(seq 400); do sleep 5 & done 2>&1 | tail -1; echo over")
    assert "over" in found or "fork" in found.lower(), found

    # What a command leaves behind is killed.
    naps = [str(300_000 + 2 * os.getpid() + number) for number in (0, 1)]
    command = f"sleep {naps[0]} & echo started; (setsid sleep {naps[1]} &) ; exit 3"
    assert "exit status 3" in run_command(command)
    bench.driver.stop(plan.intern_id)
    assert wait_until(lambda: not any(map(is_slept, naps)))


def is_slept(seconds: str) -> bool:
    """Whether any process of the machine does."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if place.read_bytes() == f"sleep\0{seconds}\0".encode():
                return True
    return False


@pytest.fixture
def below_tmp() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=SYSTEMS_TEMPORARY) as folder:
        yield Path(folder)


def test_the_gateway_may_be_below_the_folder_for_temporary_files(
    below_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if SANDBOXES.look().is_none:
        pytest.skip("no sandbox works on this machine")
    # As an installer makes it; the gateway itself makes files for its owner only.
    before = os.umask(0o022)
    try:
        below_tmp.chmod(0o755)
        venv.create(below_tmp / "env", symlinks=True)
    finally:
        os.umask(before)
    name = next((below_tmp / "env" / "bin").glob("python3")).name
    monkeypatch.setattr(sys, "prefix", str(below_tmp / "env"))
    monkeypatch.setattr(sys, "executable", str(below_tmp / "env" / "bin" / name))

    found = try_isolation(_build_trial)

    assert not found.is_none, found.reason
