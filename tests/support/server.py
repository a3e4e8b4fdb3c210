"""A running gateway for tests: gunicorn, and if asked a Celery worker, on stores of its own."""

import json
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import requests

from tests.support import processes
from tests.support.fork_server import can_fork, fork
from tests.support.manage import PROJECT, ManageHost, Outcome

_BIN = Path(sys.executable).parent
# Four processes on a busy machine take their time; what a start may take is tested elsewhere.
START_S = 60.0
# gunicorn's own graceful_timeout and a little.
STOP_S = 12.0


class GatewayServer:
    """Listens on a socket this process opened, so a restart keeps its address.

    `env` is the whole environment of the server and its commands; `folder` takes the logs.
    `project` is the checkout that the next process runs. One that `is_forked` begins with the
    libraries imported; what is measured, or is about starts and stops, begins as it is deployed.
    """

    def __init__(
        self,
        *,
        env: Mapping[str, str],
        folder: Path,
        worker: bool = False,
        project: Path = PROJECT,
        is_forked: bool = False,
    ) -> None:
        self.folder = folder
        self.project = project
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        port = self._listener.getsockname()[1]
        self.root_url = f"http://127.0.0.1:{port}"
        self.base_url = f"{self.root_url}/api/v1"
        self.env = {**env, "HOST": "127.0.0.1", "PORT": str(port)}
        self._has_worker = worker
        self._is_forked = is_forked
        self._web: processes.Process | None = None
        self._worker: processes.Process | None = None
        self._commands: ManageHost | None = None

    @property
    def pid(self) -> int:
        """gunicorn's master."""
        assert self._web is not None
        return self._web.pid

    def start(self, *, until_ready: bool = True) -> None:
        """Start web (and worker); return once `/readyz` is 200, or at least answers."""
        bind = self._listener.fileno()
        self._web = self._begin(
            "web.log",
            "gunicorn.app.wsgiapp:run",
            [_BIN / "gunicorn", "-c", "gateway/gunicorn.conf.py"],
            env={**self.env, "GATEWAY_BIND": f"fd://{bind}"},
            pass_fds=[bind],
        )
        if self._has_worker:
            self.start_worker()
        self.wait_ready(expected={200} if until_ready else {200, 503})

    def start_worker(self) -> None:
        options = ["--concurrency", "1", "--without-mingle", "--without-gossip"]
        command = [_BIN / "celery", "--quiet", "-A", "gateway", "worker", *options]
        self._worker = self._begin("worker.log", "celery.__main__:main", command, env=self.env)

    def _begin(
        self,
        log_name: str,
        main: str,
        command: Sequence[object],
        *,
        env: Mapping[str, str],
        pass_fds: Sequence[int] = (),
    ) -> processes.Process:
        log = self.folder / log_name
        if not (self._is_forked and can_fork(env, self.project)):
            words = [str(each) for each in command]
            return processes.spawn(words, log=log, env=env, cwd=self.project, pass_fds=pass_fds)
        with log.open("ab") as out, Path(os.devnull).open("rb") as nothing:
            fds = {0: nothing.fileno(), 1: out.fileno(), 2: out.fileno()}
            return fork(main, command, env=env, fds=fds | {each: each for each in pass_fds})

    def wait_ready(self, *, expected: frozenset[int] | set[int] = frozenset({200})) -> None:
        def ready() -> bool:
            assert self._web is not None
            assert self._web.poll() is None, self.log()
            try:
                return requests.get(f"{self.root_url}/readyz", timeout=5).status_code in expected
            except requests.RequestException:
                return False

        log = self.folder / "web.log"
        processes.eventually(ready, within_s=START_S, what="readiness", log=log)

    def wait_until(self, holds: Callable[[], bool], *, within_s: float = 10) -> None:
        """Poll the running server until `holds()`."""
        log = self.folder / "web.log"
        processes.eventually(holds, within_s=within_s, what="what was waited for", log=log)

    def log(self) -> str:
        """Everything web and worker have logged."""
        files = [self.folder / name for name in ("web.log", "worker.log")]
        return "".join(file.read_text(errors="replace") for file in files if file.exists())

    def request(
        self, method: str, path: str, *, key: str = "", **options: Any
    ) -> requests.Response:
        """One HTTP call; `path` begins below the root. `key` becomes the Authorization header."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        headers |= options.pop("headers", {})
        timeout_s = options.pop("timeout", 120)
        return requests.request(
            method, self.root_url + path, headers=headers, timeout=timeout_s, **options
        )

    def get(self, path: str, *, key: str = "", **options: Any) -> requests.Response:
        return self.request("GET", path, key=key, **options)

    def post(self, path: str, *, key: str = "", **options: Any) -> requests.Response:
        return self.request("POST", path, key=key, **options)

    def chat(self, *, key: str, **body: Any) -> requests.Response:
        """POST /api/v1/chat/completions."""
        streams = bool(body.get("stream"))
        return self.post("/api/v1/chat/completions", key=key, json=body, stream=streams)

    def run_command(self, *arguments: str) -> Outcome:
        """A manage.py command under the server's environment."""
        if self._commands is None:
            self._commands = ManageHost(dict(self.env), self.project)
        return self._commands.run(*arguments)

    def manage(self, *arguments: str) -> dict[str, Any]:
        """A manage.py command with --json that must succeed; its JSON object."""
        outcome = self.run_command(*arguments, "--json")
        assert outcome.status == 0, f"{arguments}: {outcome}"
        return outcome.json()

    def check_books(self) -> None:
        """They add up, and nothing is held."""
        audit = self.manage("audit_ledger")
        assert (audit["mismatches"], audit["open_holds"]) == ([], 0), audit

    def kill(self) -> None:
        """SIGKILL web and worker, as a crash would."""
        for process in (self._web, self._worker):
            if process is not None:
                processes.kill(process)
        self._web = self._worker = None

    def stop(self) -> None:
        """End everything; the address is given up."""
        for process in (self._web, self._worker):
            if process is not None:
                processes.stop(process, grace_s=STOP_S)
        self._web = self._worker = None
        if self._commands is not None:
            self._commands.close()
            self._commands = None
        self._listener.close()


def as_json(response: requests.Response) -> Any:
    """The body as JSON; shown whole when it is none."""
    try:
        return json.loads(response.text)
    except ValueError:
        raise AssertionError(f"{response.status_code}: {response.text[:2000]}") from None
