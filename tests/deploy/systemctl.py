"""A stand-in for `systemctl` where systemd does not run: it starts units as they are written.

It knows what this project's units use: what they require and want, a socket, the user, the
environment, and folders. What runs before a start counts. Started once, a unit stays.
"""

import os
import pwd
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

PLACES = (Path("/etc/systemd/system"), Path("/lib/systemd/system"))
STARTED = Path("/run/started-units")


def read(unit: str) -> list[tuple[str, str]]:
    """The settings of a unit and its drop-ins, in order, with the instance put in."""
    template = re.sub("@.*?\\.", "@.", unit)
    instance = unit.partition("@")[2].partition(".")[0]
    file = next(place / template for place in PLACES if (place / template).exists())
    files = [file, *sorted((PLACES[0] / f"{unit}.d").glob("*.conf"))]
    lines = [line for each in files for line in each.read_text().splitlines()]
    pairs = [line.split("=", 1) for line in lines if "=" in line and line[0] not in "#;"]
    return [(key, value.replace("%%", "%").replace("%i", instance)) for key, value in pairs]


def start(unit: str) -> None:
    unit = unit if "." in unit else f"{unit}.service"
    mark = STARTED / unit
    if mark.exists():
        return
    mark.touch()
    settings = read(unit)
    for key, value in settings:
        if key in ("Requires", "Wants"):
            for other in value.split():
                if other.startswith("gateway"):
                    start(other)
    if unit.endswith(".service"):
        run(settings)
        if dict(settings).get("Type") == "oneshot":
            mark.unlink()


def run(settings: list[tuple[str, str]]) -> None:
    one = dict(settings)
    environment = {"PATH": os.environ["PATH"], "HOME": "/root"}
    for key, value in settings:
        if key == "Environment":
            environment |= dict(pair.split("=", 1) for pair in shlex.split(value))
        if key == "EnvironmentFile":
            lines = Path(value).read_text().splitlines()
            environment |= dict(line.split("=", 1) for line in lines)
    user = pwd.getpwnam(one["User"]) if one.get("User", "").startswith("gateway") else None
    folders = [Path("/var/lib") / name for name in one.get("StateDirectory", "").split()]
    for folder in folders:
        folder.mkdir(mode=0o700, exist_ok=True)
        if user:
            os.chown(folder, user.pw_uid, user.pw_gid)
    if folders:
        environment["STATE_DIRECTORY"] = ":".join(map(str, folders))
    listeners = [listen(one["Sockets"])] if "Sockets" in one else []
    pid = os.fork()
    if pid == 0:
        os.setsid()
        log = os.open("/var/log/units.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if listeners:
            os.dup2(listeners[0], 3)
            # The duplicate of itself would stay closed for what is executed.
            os.set_inheritable(3, True)
            environment |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
        if user:
            os.initgroups(user.pw_name, user.pw_gid)
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
        os.chdir(one.get("WorkingDirectory", "/"))
        words = shlex.split(one["ExecStart"])
        os.execve(words[0], words, environment)  # noqa: S606 - A unit's own command, without a shell.
    if one.get("Type") == "oneshot":
        if os.waitpid(pid, 0)[1]:
            sys.exit(f"{one['ExecStart']} failed")
    elif after := one.get("ExecStartPost"):
        words = shlex.split(after.replace("$MAINPID", str(pid)))
        owner, group = (user.pw_uid, user.pw_gid) if user else (None, None)
        subprocess.run(words, env=environment, check=True, user=owner, group=group)


_listeners: dict[str, socket.socket] = {}


def listen(unit: str) -> int:
    """A descriptor of the unit's socket, which every service of it shares."""
    if unit not in _listeners:
        host, port = dict(read(unit))["ListenStream"].split(":")
        _listeners[unit] = socket.create_server((host, int(port)), backlog=2048)
    return _listeners[unit].fileno()


def main() -> None:
    STARTED.mkdir(exist_ok=True)
    verb, *units = [word for word in sys.argv[1:] if word != "--now"]
    if verb in ("enable", "start", "restart"):
        for unit in units:
            start(unit)


if __name__ == "__main__":
    main()
