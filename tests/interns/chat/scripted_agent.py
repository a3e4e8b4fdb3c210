"""A runtime that does what it is told: the agent's protocol over real HTTP, a script for a model.

`ScriptedAgent` listens on a Unix socket; each run takes the next script. `PointedDriver` is the
driver of gateways under test: it finds runtimes by a file each in `SCRIPTED_INTERN_PLACES`.
"""

import json
import os
import select
import socket
import socketserver
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from interns.runtime.client import AgentClient
from interns.runtime.driver import AgentAccess, AgentAddress
from tests.support.local_site import SiteHandler

PLACES = "SCRIPTED_INTERN_PLACES"
TOKEN = "scripted-token"
USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 5,
    "total_tokens": 12,
    "cost": 0.000012,
    "prompt_tokens_details": {"cached_tokens": 3},
}
MODEL = {"type": "model", "model": "acme/small"}
END = {"type": "end", "usage": USAGE}
PERMISSION = {
    "kind": "permission",
    "operation": "run `ls`",
    "options": ["allow_once", "allow_always", "reject_once", "reject_always"],
}
ELICITATION = {
    "kind": "elicitation",
    "message": "Which colour?",
    "fields": [
        {"name": "colour", "type": "string", "required": True, "options": ["red", "blue"]},
        {"name": "count", "type": "integer", "required": False},
    ],
}
SEVER = "sever"


def content(text: str) -> dict[str, Any]:
    return {"type": "content", "text": text}


def question(asked: dict[str, Any], *, id: str = "call-1") -> dict[str, Any]:
    return {"type": "question", "id": id, "question": asked}


class Gate:
    """A place where a script waits until the test opens it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def open(self) -> None:
        self.opened.set()

    def wait_reached(self, within_s: float = 10) -> None:
        assert self.reached.wait(within_s), "the script did not come so far"


@dataclass(frozen=True)
class Refusal:
    """Instead of a stream."""

    status: int
    reason: str
    retryable: bool = False
    message: str = "scripted"


Step = dict[str, Any] | Gate | Refusal | str


@dataclass
class Run:
    """One turn that it was told."""

    told: dict[str, Any]
    steps: deque[Step]
    pending: str = ""
    over: threading.Event = field(default_factory=threading.Event)
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def id(self) -> str:
        return str(self.told["run_id"])


class ScriptedAgent:
    """`bodies`, `answers`, `steered` and `cancelled` are what it heard, in order."""

    def __init__(self, path: Path, *, name: str = "research") -> None:
        self.path = path
        self.name = name
        self.runs: list[Run] = []
        self.answers: list[dict[str, Any]] = []
        self.steered: list[tuple[str, str]] = []
        self.cancelled: list[str] = []
        # The headers of requests for the public page.
        self.heads: list[dict[str, str]] = []
        self._scripts: deque[Sequence[Step]] = deque()
        self._lock = threading.Lock()
        self._server = _Server(str(path), type("Handler", (_Handler,), {"agent": self}))
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [run.told for run in self.runs]

    def script(self, *steps: Step) -> None:
        """What the next run does. Without a script it says a word and ends."""
        self._scripts.append(steps)

    def begin(self, told: dict[str, Any]) -> Run | Refusal:
        with self._lock:
            if any(not run.over.is_set() for run in self.runs):
                return Refusal(409, "busy", retryable=True)
            steps = deque(self._scripts.popleft() if self._scripts else (content("Hello"), END))
            if steps and isinstance(steps[0], Refusal):
                return steps[0]
            run = Run(told, steps)
            self.runs.append(run)
            return run

    def find(self, run_id: str) -> Run | None:
        return next((run for run in self.runs if run.id == run_id and not run.over.is_set()), None)

    def stop(self) -> None:
        for run in self.runs:
            run.cancelled.set()
        self._server.shutdown()
        self._server.server_close()
        self.path.unlink(missing_ok=True)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


class _Handler(SiteHandler):
    agent: ScriptedAgent

    def do_GET(self) -> None:
        if self.path == "/":
            self.agent.heads.append(dict(self.headers.items()))
            self._json(200, {"name": self.agent.name, "status": "running", "model": "acme/small"})
        else:
            self._json(401, {"error": {"reason": "unauthorized", "message": "no"}})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._json(401, {"error": {"reason": "unauthorized", "message": "no"}})
            return
        body = json.loads(raw)
        parts = self.path.strip("/").split("/")
        if parts == ["turns"]:
            run = self.agent.begin(body)
            self._refuse(run) if isinstance(run, Refusal) else self._play(run)
        else:
            getattr(self, f"_{parts[2]}")(parts[1], body)

    def _answer(self, run_id: str, body: dict[str, Any]) -> None:
        run = self.agent.find(run_id)
        if run is None:
            self._refuse(Refusal(410, "run_ended"))
        elif run.pending != body["id"]:
            self._refuse(Refusal(404, "interaction_unknown"))
        elif run.steps and isinstance(run.steps[0], Refusal):
            step = run.steps.popleft()
            assert isinstance(step, Refusal)
            self._refuse(step)
        else:
            self.agent.answers.append(body)
            run.pending = ""
            self._play(run)

    def _steer(self, run_id: str, body: dict[str, Any]) -> None:
        if self.agent.find(run_id) is None:
            self._refuse(Refusal(410, "run_ended"))
        else:
            self.agent.steered.append((run_id, body["text"]))
            self._json(202, {})

    def _cancel(self, run_id: str, body: dict[str, Any]) -> None:
        self.agent.cancelled.append(run_id)
        run = self.agent.find(run_id)
        if run is not None:
            run.cancelled.set()
            run.over.set()
        self._json(200, {})

    def _play(self, run: Run) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            self._steps(run)
        except OSError:
            run.over.set()

    def _steps(self, run: Run) -> None:
        while run.steps:
            step = run.steps.popleft()
            if isinstance(step, Gate):
                self._wait(step, run)
                if run.cancelled.is_set():
                    break
            elif step == SEVER:
                run.over.set()
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            elif isinstance(step, dict) and self._event(step, run):
                return
        run.over.set()
        failed = {"type": "failed", "reason": "run_ended", "message": "", "retryable": False}
        self._event(failed, run)

    def _event(self, event: dict[str, Any], run: Run) -> bool:
        """Whether it was the last of this stream."""
        if event["type"] in ("end", "failed"):
            run.over.set()
        if event["type"] == "question":
            run.pending = event["id"]
        last = event["type"] in ("end", "failed", "question")
        line = f"data: {json.dumps(event)}\n\n".encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line) + (b"0\r\n\r\n" if last else b""))
        return last

    def _wait(self, gate: Gate, run: Run) -> None:
        gate.reached.set()
        while not gate.opened.wait(0.01) and not run.cancelled.is_set():
            readable, _, _ = select.select([self.connection], [], [], 0)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                raise ConnectionError("the gateway left")

    def _refuse(self, refusal: Refusal) -> None:
        said = asdict(refusal)
        self._json(said.pop("status"), {"error": said})

    def _json(self, status: int, value: Any) -> None:
        with suppress(OSError):
            self.answer(json.dumps(value).encode(), status=status, Content_Type="application/json")


class PointedDriver(AgentClient):
    """Runtimes that somebody else started. It knows nothing but where they are."""

    name = "pointed"

    def find_agent(self, intern_id: UUID) -> AgentAccess | None:
        file = Path(os.environ[PLACES]) / str(intern_id)
        if not file.exists():
            return None
        return AgentAccess(AgentAddress(socket_path=Path(file.read_text(encoding="utf-8"))), TOKEN)
