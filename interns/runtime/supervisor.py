"""The supervisor of one runtime: `python -m interns.runtime.supervisor`, orders as JSON on stdin.

It makes the sockets, starts the agent, relays the agent's calls to the gateway and ends with the
agent or the agent with it. It leaves the process that started it, so that the runtime outlives a
worker. It holds a lock on the intern's folder, so that there is never a second one. Once the agent
is begun it says so in one line of JSON on stdout and in `runtime.json`.

Standard library only: there is one supervisor beside every agent.
"""

import ctypes
import fcntl
import json
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from gateway.sandbox.unprivileged import INFO, LIFE, first_process, pipe
from interns.runtime.host_lease import LOOK_S, is_over
from interns.runtime.process_identity import ProcessIdentity, identify_process
from interns.runtime.proxies import GatewayProxy, ProxyTarget, SocketProxy

LOG_BYTES_MAX = 1_048_576
STOP_S = 3.0
WATCH_S = 1.0
# Only in case a signal came between the look and the wait.
WAKE_S = 5.0
# sockaddr_un has room for 108 bytes on Linux and 104 on macOS.
SOCKET_PATH_MAX = 100
SOCKETS_PREFIX = "gateway-intern-"
# The sweeper has perhaps another `TMPDIR` than the supervisor had.
SHORT = Path("/tmp")  # noqa: S108 - Only folders of our own, for nobody else.
# What a container is given: the way to the gateway, and where its agent listens.
DOOR, INSIDE = "door", "inside"
# How the orders write the places that only the supervisor knows.
SOCKETS = "{sockets}"
_PR_SET_PDEATHSIG = 1


class AgentSupervisor:
    """One runtime, from its sockets to its end, in the intern's folder."""

    def __init__(self, orders: dict[str, Any]) -> None:
        self._orders = orders
        self._folder = Path(orders["folder"])
        self._run = self._folder / "run"
        self._lock: IO[str] | None = None
        self._agent: subprocess.Popen[bytes] | None = None
        self._woken = threading.Event()
        self._was_asked = False
        self._was_fenced = False
        self._info = -1

    def run(self, report: Callable[[dict[str, Any]], None]) -> None:
        """Until the agent has ended."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGCHLD, lambda number, frame: self._woken.set())
        self._lock = (self._folder / "lock").open("a+", encoding="utf-8")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A process that meets the lock can find its owner before there is anything else to read.
        self._lock.truncate(0)
        json.dump(_describe_self(), self._lock)
        self._lock.flush()
        sockets = self._make_sockets_folder()
        try:
            self._serve(sockets, report)
        finally:
            status = self._agent.returncode if self._agent else None
            (self._run / "runtime.json").unlink(missing_ok=True)
            remove_boot_files(self._folder, sockets)
            end = {"was_asked": self._was_asked, "was_fenced": self._was_fenced}
            _write(self._folder / "end.json", {"status": status, **end})

    def _make_sockets_folder(self) -> Path:
        remove_boot_files(self._folder)
        # How the boot before this one ended says nothing about this one.
        (self._folder / "end.json").unlink(missing_ok=True)
        self._run.mkdir(mode=0o700)
        if len(os.fsencode(self._run / "gateway.sock")) <= SOCKET_PATH_MAX:
            return self._run
        place = short_sockets_folder(self._folder)
        try:
            place.mkdir(mode=0o700)
        except FileExistsError:
            # A stranger's: what is ours was swept.
            return Path(tempfile.mkdtemp(prefix=SOCKETS_PREFIX, dir=SHORT))
        return place

    def _serve(self, sockets: Path, report: Callable[[dict[str, Any]], None]) -> None:
        orders = self._orders
        target = ProxyTarget(
            orders["gateway_url"], orders["api_key"], [(m, p) for m, p in orders["allowed"]]
        )
        outside = sockets / "agent.sock"
        if orders.get("command"):
            gateway_proxy = GatewayProxy(_listen(sockets / "gateway.sock"), target)
            # The threads come after the agent, which is forked.
            with _listen(outside) as listener:
                self._agent = self._start_agent(sockets, listener)
        else:
            # A container has its own two folders, the first of which it cannot change.
            for name, mode in ((DOOR, 0o755), (INSIDE, 0o777)):
                (sockets / name).mkdir()
                (sockets / name).chmod(mode)
            gateway_proxy = GatewayProxy(_listen(sockets / DOOR / "gateway.sock"), target)
            socket_proxy = SocketProxy(_listen(outside), sockets / INSIDE, "agent.sock")
            threading.Thread(target=socket_proxy.serve_forever, daemon=True).start()
        threading.Thread(target=gateway_proxy.serve_forever, daemon=True).start()
        threading.Thread(target=self._watch_gateway, daemon=True).start()
        threading.Thread(target=self._watch_host_lease, daemon=True).start()
        facts = _describe_self() | {
            "intern_id": self._orders["intern_id"],
            "boot_id": self._orders["boot_id"],
            "sockets": str(sockets),
            "token": self._orders["agent"]["token"],
            "isolation": self._orders["agent"]["isolation"],
            "warning": self._orders.get("warning", ""),
            "gateway": self._orders.get("supervisor"),
            "begun_at": time.time(),
        }
        _write(self._run / "runtime.json", facts)
        report(facts)
        self._wait_for_end()

    def _start_agent(self, sockets: Path, listener: socket.socket) -> "subprocess.Popen[bytes]":
        orders = self._orders
        # A sandbox's: see `gateway.sandbox.unprivileged`.
        self._info, info = pipe()
        life, _ = pipe()
        # As those of the pipes, its number is none that a shell's redirections take.
        listening = fcntl.fcntl(listener, fcntl.F_DUPFD_CLOEXEC, info)
        os.set_blocking(self._info, False)
        places = {SOCKETS: str(sockets), INFO: str(info), LIFE: str(life)}
        command = [_replace(word, places) for word in orders["command"]]
        config = orders["agent"] | {"listen_fd": listening}
        config["gateway_socket"] = config["gateway_socket"].replace(SOCKETS, str(sockets))
        agent = subprocess.Popen(  # noqa: S603 - The driver's own words.
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=orders["environment"],
            cwd=orders["cwd"],
            pass_fds=(listening, info, life),
            preexec_fn=_build_limiter(orders["limits"]),
        )
        os.close(info)
        os.close(life)
        os.close(listening)
        assert agent.stdin is not None
        assert agent.stdout is not None
        with suppress(BrokenPipeError):
            agent.stdin.write(json.dumps(config).encode())
            agent.stdin.close()
        log = _AgentLog(self._folder / "agent.log")
        threading.Thread(target=log.keep, args=(agent.stdout,), daemon=True).start()
        return agent

    def _wait_for_end(self) -> None:
        while not self._was_asked:
            if self._agent is not None and self._agent.poll() is not None:
                break
            self._woken.wait(WAKE_S)
            self._woken.clear()
        if self._agent is None:
            return
        if self._agent.poll() is None:
            self._agent.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._agent.wait(STOP_S)
        if (inner := first_process(self._info, self._agent.pid)) is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(inner, signal.SIGKILL)
        self._agent.kill()
        self._agent.wait()

    def _stop(self, number: int = 0, frame: object = None) -> None:
        self._was_asked = True
        self._woken.set()

    def _watch_gateway(self) -> None:
        """Stop when the gateway process of the orders (`make run`) has ended."""
        given = self._orders.get("supervisor")
        if not given:
            return
        gateway = ProcessIdentity(given["pid"], given["began"])
        while gateway.is_alive():
            time.sleep(WATCH_S)
        self._stop()

    def _watch_host_lease(self) -> None:
        """Stop when this machine may run nothing any more: another one is about to."""
        while not is_over(Path(self._orders["host_lease"])):
            time.sleep(LOOK_S)
        self._was_fenced = True
        self._stop()


class _AgentLog:
    """The agent's output in a file of bounded size; the file before it is kept."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def keep(self, source: IO[bytes]) -> None:
        file = self._path.open("ab", buffering=0)
        while line := source.readline(4096):
            if file.tell() + len(line) > LOG_BYTES_MAX:
                file.close()
                self._path.replace(self._path.with_suffix(".log.1"))
                file = self._path.open("ab", buffering=0)
            with suppress(OSError):
                file.write(line)


def _replace(word: str, places: dict[str, str]) -> str:
    for name, place in places.items():
        word = word.replace(name, place)
    return word


def remove_boot_files(folder: Path, sockets: Path | None = None) -> None:
    """Remove a supervisor's files of one boot, also one that was killed."""
    run = folder / "run"
    if sockets is None:
        with suppress(OSError, ValueError, KeyError):
            sockets = Path(json.loads((run / "runtime.json").read_bytes())["sockets"])
    shutil.rmtree(run, ignore_errors=True)
    _remove_own_folder(short_sockets_folder(folder))
    if sockets and sockets.parent == SHORT and sockets.name.startswith(SOCKETS_PREFIX):
        _remove_own_folder(sockets)


def short_sockets_folder(folder: Path) -> Path:
    """Where the sockets are if the intern's folder has too long a path for them. It needs no
    record, since a supervisor may be killed before it makes one."""
    return SHORT / f"{SOCKETS_PREFIX}{folder.name}-{zlib.crc32(os.fsencode(folder)):08x}"


def _remove_own_folder(place: Path) -> None:
    """Anybody may make anything of any name there."""
    with suppress(OSError):
        found = place.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
            shutil.rmtree(place, ignore_errors=True)


def _describe_self() -> dict[str, Any]:
    me = identify_process(os.getpid())
    assert me is not None
    return {"pid": me.pid, "began": me.began}


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    # A sandbox may have another user; the folder lets nobody else in.
    path.chmod(0o666)
    listener.listen(64)
    return listener


def _build_limiter(limits: dict[str, int]) -> Callable[[], None]:
    """For `preexec_fn`: the agent's limits, and its end when the supervisor ends."""
    supervisor = os.getpid()
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
    wanted = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
    ]
    if sys.platform == "linux":
        wanted.append((resource.RLIMIT_AS, limits["memory_bytes"]))

    def bind() -> None:
        for kind, most in wanted:
            hard = resource.getrlimit(kind)[1]
            bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (bound, bound))
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(1)

    return bind


def _write(path: Path, facts: dict[str, Any]) -> None:
    """Whole or not at all, for the owner only."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(facts, file)
    temporary.replace(path)


def main() -> None:
    orders = json.load(sys.stdin.buffer)
    # Go on as a child of nobody who waits, in a session of its own.
    if os.fork():
        os._exit(0)
    os.setsid()
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)

    def report(facts: dict[str, Any]) -> None:
        # A worker that died meanwhile does not hear it; `runtime.json` says the same.
        with suppress(OSError):
            answer.write(json.dumps({"pid": facts["pid"]}) + "\n")
            answer.close()

    try:
        AgentSupervisor(orders).run(report)
    except BlockingIOError:
        with suppress(OSError):
            answer.write(json.dumps({"error": "another runtime of this intern runs"}) + "\n")


if __name__ == "__main__":
    main()
