"""Makes `.venv` hold exactly what a lock file names. Plain Python: nothing is installed yet.

Usage: install.py LOCK. A stamp keyed on the lock's content and the interpreter lets later starts
skip everything.
"""

import fcntl
import hashlib
import re
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
VENV = PROJECT / ".venv"
OLDEST = (3, 11)
_LINES_PER_REPORT = 15
_BAR_CHARS = 30


def say(message: str) -> None:
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def stamp_text(lock: Path) -> str:
    """What the stamp must say for `lock` to be installed as it is."""
    return f"{hashlib.sha256(lock.read_bytes()).hexdigest()} {sys.version_info[:2]}\n"


def is_installed(stamp: Path, wanted: str) -> bool:
    return (VENV / "bin" / "python").exists() and stamp.exists() and stamp.read_text() == wanted


def draw_bar(done: int, total: int) -> None:
    """A bar on the terminal's current line, over the last one."""
    filled = _BAR_CHARS * done // total
    bar = "#" * filled + "." * (_BAR_CHARS - filled)
    sys.stderr.write(f"\r  [{bar}] {done} of {total}")
    sys.stderr.flush()


def report_count(done: int, total: int) -> None:
    """A line now and then, where nobody looks on."""
    if done % _LINES_PER_REPORT == 0:
        say(f"  {done} of {total}")


def run_pip(lock: Path) -> int:
    """Install, telling how far it is; pip's own words only when it fails."""
    total = len(re.findall(r"^[A-Za-z0-9]", lock.read_text(), re.MULTILINE))
    say(f"Installing up to {total} packages into .venv (first start only) ...")
    python = str(VENV / "bin" / "python")
    command = [python, "-m", "pip", "install", "--require-hashes", "-r", str(lock)]
    options = ["--no-input", "--progress-bar", "off", "--disable-pip-version-check"]
    pip = subprocess.Popen(  # noqa: S603 - Our own interpreter and our own lock.
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert pip.stdout
    output, seen = [], 0
    is_terminal = sys.stderr.isatty()
    report, break_line = (draw_bar, "\n") if is_terminal else (report_count, "")
    for line in pip.stdout:
        output.append(line)
        if line.startswith(("Collecting ", "Requirement already satisfied: ")):
            seen += 1
            report(min(seen, total), total)
        elif line.startswith("Installing collected packages"):
            # Fewer are collected than the lock names: some are for other platforms.
            report(total, total)
            say(f"{break_line}  unpacking")
    if pip.wait():
        say(break_line + "".join(output[-15:]).rstrip())
    return pip.returncode


def install(lock: Path) -> int:
    """Bring `.venv` to the lock; 0 when it is there."""
    stamp, wanted = VENV / f".installed-{lock.name}", stamp_text(lock)
    if is_installed(stamp, wanted):
        return 0
    VENV.mkdir(exist_ok=True)
    with (VENV / ".install-lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if is_installed(stamp, wanted):
            return 0
        if not (VENV / "bin" / "pip").exists():
            command = [sys.executable, "-m", "venv", str(VENV)]
            if subprocess.run(command, check=False).returncode:  # noqa: S603 - Our own words.
                say("Python's venv module could not make .venv; install it (python3-venv)")
                return 2
        if run_pip(lock):
            say(f"Installing {lock.name} failed")
            return 1
        stamp.write_text(wanted)
        # Other users of the machine run the environment too, whatever our umask is.
        stamp.chmod(0o644)
    return 0


if __name__ == "__main__":
    if sys.version_info < OLDEST:
        say("Python 3.11 or newer is needed; name one with PYTHON=python3.12 make ...")
        sys.exit(2)
    sys.exit(install(PROJECT / sys.argv[1]))
