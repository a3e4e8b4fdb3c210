"""What somebody with a shell tries against the machine that gives it to him. Run as a program:
`attacks.py HOME` prints a JSON object of attack → what came of it."""

import json
import os
import platform
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

os.environ |= {"DJANGO_SETTINGS_MODULE": "gateway.settings", "GATEWAY_HOME": sys.argv[1]}

import django

django.setup()

from gateway.sandbox.seccomp import refused_calls  # noqa: E402 - Django's settings come first.
from routing.tools.sandbox.workspace import ToolWorkspace  # noqa: E402

CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]
# Each prints what it reached, and nothing else.
ATTACKS = {
    "sysctl": "echo 61 > /proc/sys/vm/swappiness && echo WROTE; ls /proc/sys",
    "core_pattern": "echo '|/workspace/x' > /proc/sys/kernel/core_pattern && echo WROTE",
    "proc": "for f in /proc/sysrq-trigger /proc/irq/*/smp_affinity /proc/1/oom_score_adj;"
    " do (echo 0 > $f) && echo WROTE $f; done; head -c1 /proc/kcore /proc/kmsg /proc/keys",
    "sys": "ls -A /sys; mkdir /sys/x && echo WROTE",
    "namespace": "unshare -Urm true && echo NESTED; unshare -n true && echo NESTED",
    "first_process": "cat /proc/1/environ /proc/1/maps /proc/1/fd/* | head -c 20;"
    " echo x > /proc/1/mem && echo WROTE; kill -9 1; kill -TERM 1; kill -INT 1;"
    " sleep 0.3; kill -0 1 && echo alive",
    "calls": f"""python3 - <<'END'
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
for name, number in {refused_calls(platform.machine())}.items():
    if libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != errno.EPERM:
        print("REACHED", name, ctypes.get_errno())
NEW_USER = 0x10000000
if libc.syscall({CLONE}, NEW_USER | 17, 0, 0, 0, 0) != -1:
    os.write(1, b"NESTED")
END""",
    "sockets": """python3 - <<'END'
import socket
RAW, STREAM, PACKETS = socket.SOCK_RAW, socket.SOCK_STREAM, socket.SOCK_SEQPACKET
# Packets, virtual machines, the kernel's ciphers, raw IP.
for family, kind in ((17, RAW), (40, STREAM), (38, PACKETS), (2, RAW)):
    try:
        socket.socket(family, kind)
        print("WORKED", family)
    except OSError:
        pass
END""",
    "set_user": "python3 -c 'import os; os.setuid(0); print(\"WORKED\")'",
    "device": "mknod /workspace/d b 8 0 && echo WROTE",
}
LEFT = "(setsid sleep 3171 &) ; echo left"


def run(workspace: ToolWorkspace, command: str) -> dict[str, Any]:
    order = {"do": "run", "command": command, "bytes": 4000, "time_s": 10.0}
    return workspace.ask(order, 10.0)


def members() -> dict[int, dict[str, int]]:
    """The sandbox's processes as the host sees them: those of this process' family that have a
    number of their own inside."""
    every = {}
    for place in Path("/proc").iterdir():
        with suppress(OSError):
            if place.name.isdigit():
                lines = (place / "status").read_text().splitlines()
                every[int(place.name)] = dict(line.split(":", 1) for line in lines)
    depth = len(every[os.getpid()]["NSpid"].split())
    family, found = {os.getpid()}, {}
    # Parents have not always the lower number, so this goes on until nobody is added.
    while more := {pid for pid in every if int(every[pid]["PPid"]) in family} - family:
        family |= more
    for pid in family:
        facts = every[pid]
        if len(facts["NSpid"].split()) > depth:
            rights = max(int(facts[name], 16) for name in ("CapEff", "CapPrm", "CapAmb"))
            found[pid] = {"user": int(facts["Uid"].split()[1]), "rights": rights}
    return found


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


def main() -> None:
    before = Path("/proc/sys/vm/swappiness").read_text()
    workspace = ToolWorkspace()
    result: dict[str, Any] = {}
    for name, command in ATTACKS.items():
        result[name] = run(workspace, command)["stdout"]
    result["left"] = run(workspace, LEFT)["stdout"]
    found = members()
    result["inside"] = list(found.values())
    workspace.close()
    until = time.monotonic() + 10
    while (still := [pid for pid in found if is_alive(pid)]) and time.monotonic() < until:
        time.sleep(0.05)
    result["after"] = still
    result["swappiness"] = Path("/proc/sys/vm/swappiness").read_text() == before
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main()
