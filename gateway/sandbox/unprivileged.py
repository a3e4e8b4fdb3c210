"""Runs what is not trusted with no rights on the host. Standard library only: sandboxes and readers
get this file alone.

`unprivileged.py init LIMITS COMMAND...` is the first process of a sandbox. It starts the command,
reaps orphans and ends with the command; the kernel then kills everything else in the sandbox.
`unprivileged.py script UID PACKAGES SCRIPT...` gives up root's rights before a script begins.

LIMITS is JSON: `uid` (the host's user to become, null to stay), `processes` (at most so many) and
the `folder` to begin in. `life` is the number of a pipe: all ends when its other end closes.
"""

import ctypes
import encodings
import fcntl
import importlib
import importlib.util
import json
import os
import pkgutil
import resource
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 4, 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4

# These stand in a sandbox's command for the numbers of pipes, which whoever starts it fills in. On
# INFO bubblewrap names the first process; LIFE ends it when it closes.
INFO, LIFE = "{info}", "{life}"
_INFO_BYTES_MAX = 4096
_HIGH = 20


def pipe() -> tuple[int, int]:
    """Both ends of a pipe for a sandbox: numbers that a shell's redirections leave alone."""
    low = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _HIGH) for end in low]
    for end in low:
        os.close(end)
    return high[0], high[1]


def become(uid: int) -> None:
    """Be that user for good: no group, no capability, nothing that another program could regain."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def start_init(limits: dict[str, Any], command: list[str]) -> NoReturn:
    """Be the first process of a sandbox."""
    prctl = ctypes.CDLL(None).prctl
    # The kernel keeps from it what nobody handles, and Python handles this one.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if (uid := limits["uid"]) is not None:
        become(uid)
    # The gateway's own keeps others out of its files; in here there is nobody else.
    os.umask(0o022)
    # After the change of user, which resets it.
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NPROC, (limits["processes"], limits["processes"]))
    # Only now: a private folder of that user's is closed to a root without its rights.
    os.chdir(limits["folder"])
    life = int(limits["life"])
    os.set_inheritable(life, False)
    child = os.fork()
    if not child:
        os.execv(command[0], command)  # noqa: S606 - This is what an init is for.
    # The command's socket and pipes must close when it ends, so nothing of them stays open here.
    os.dup2(life, 0)
    os.closerange(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    _reap_until_end(child)


def _reap_until_end(child: int) -> NoReturn:
    """Until the command has ended, or nobody holds the other end of the pipe on file 0. No signal
    can report its owner's death: one between different users is lost."""
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    waiting.register(woken, select.POLLIN)
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(128 - code if code < 0 else code)
        if ended:
            continue
        for file, _ in waiting.poll():
            if file == 0:
                os._exit(1)
            with suppress(BlockingIOError):
                os.read(woken, 4096)


def first_process(info: int, bubblewrap: int) -> int | None:
    """A handle (pidfd) of a sandbox's first process. Its number, which bubblewrap wrote to the pipe
    `info`, has not become another's: bubblewrap is still its parent."""
    try:
        pid = int(json.loads(os.read(info, _INFO_BYTES_MAX))["child-pid"])
        handle = os.pidfd_open(pid)
        # The name in brackets may hold spaces.
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        if int(state[1]) == bubblewrap:
            return handle
        os.close(handle)
    except (OSError, ValueError, KeyError):
        pass
    return None


def run_script(uid: int, packages: list[str], script: list[str]) -> None:
    """Run a Python script's `main` as that user. Where its libraries lie in somebody's private
    folder, it gets all of these packages first: it could not load any part of them later."""
    places = (Path(encodings.__file__), Path(sys.prefix, "lib"))
    folders = [folder for place in places for folder in place.resolve().parents]
    if not all(folder.stat().st_mode & 0o001 for folder in folders):
        for package in ("encodings", *packages):
            _load_whole(package)
    name, *_ = sys.argv[:] = script
    spec = importlib.util.spec_from_file_location("script", name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # It does nothing yet, and could not be read later either.
    spec.loader.exec_module(module)
    become(uid)
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    module.main()


def _load_whole(package: str) -> None:
    module = importlib.import_module(package)
    for found in pkgutil.iter_modules(getattr(module, "__path__", ())):
        # Parts for other systems, and for libraries that are not there, cannot be loaded.
        with suppress(ImportError, OSError):
            _load_whole(f"{package}.{found.name}")


def main() -> None:
    mode, given, *rest = sys.argv[1:]
    if mode == "init":
        start_init(json.loads(given), rest)
    run_script(int(given), json.loads(rest[0]), rest[1:])


if __name__ == "__main__":
    main()
