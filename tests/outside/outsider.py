"""Somebody with the checkout, its environment and a shell that holds nothing else.

Where root runs the tests it is another user, as on most machines: whatever only root may read or
write is out of reach.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.another_user import USER, as_user
from tests.support.manage import PROJECT, Outcome
from tests.support.running import MAKE, Run

PYTHON = str(PROJECT / ".venv" / "bin" / "python")


class Outsider:
    """`env` is the whole environment of what is started and run; the home in it is empty at first.

    At most one run is in progress: `ensure_run` begins it where there is none, and `run_and_stop`
    ends it.
    """

    def __init__(self, *, as_root: bool = False, **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="outside-", dir="/var/tmp"))
        self.home = self.folder / "home"
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.folder),
            "GATEWAY_HOME": str(self.home),
            **settings,
        }
        self._words: list[str] = []
        if not (as_root or os.geteuid()):
            os.chown(self.folder, USER, USER)
            self._words = as_user()
            _share_bytecode()
        self._run: Run | None = None
        # Only the owner of a checkout can install anything into it.
        install = [sys.executable, "-I", "gateway/run/install.py", "requirements.lock"]
        subprocess.run(install, cwd=PROJECT, check=True, umask=0o022)

    def start(
        self, *words: str, home: Path | None = None, logs: Path | None = None, **settings: str
    ) -> Run:
        """`make run` on a free port, or something else that goes on."""
        home = home or self.home
        # `make run` asks an interpreter whether the environment is complete.
        env = {**self.env, "PORT": "0", "PYTHON": sys.executable, "GATEWAY_HOME": str(home)}
        command = [*self._words, *(words or MAKE)]
        return Run(home, env | settings, command=command, logs=logs or self.folder)

    def ensure_run(self) -> tuple[Run, dict[str, Any]]:
        """The run, and its `ready.json`."""
        if self._run is None or self._run.process.poll() is not None:
            self._run = self.start()
        return self._run, self._run.ready()

    def run_and_stop(self) -> None:
        """Leave a home in which nothing runs, but something did."""
        run, facts = self.ensure_run()
        run.stop(pid=facts["pid"])

    def run(self, *words: str, **settings: str) -> Outcome:
        """A command to its end."""
        done = subprocess.run(
            [*self._words, *words],
            cwd=PROJECT,
            env={**self.env, **settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def manage(self, *arguments: str) -> Outcome:
        return self.run(PYTHON, "manage.py", *arguments)

    def leave(self) -> None:
        if self._run is not None:
            self._run.clean_up()
        shutil.rmtree(self.folder)


def _share_bytecode() -> None:
    """Another user cannot write it into this checkout, and a gateway writes it for itself. A
    command without it takes thrice as long."""
    packages = [PROJECT / name for name in ("gateway", "accounts", "routing", "interns")]
    command = [sys.executable, "-m", "compileall", "-q", *map(str, packages)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPYCACHEPREFIX"}
    subprocess.run(command, env=env, check=True)
    for package in packages:
        for cache in package.rglob("__pycache__"):
            cache.chmod(0o755)
            for file in cache.glob("*.pyc"):
                file.chmod(0o644)
