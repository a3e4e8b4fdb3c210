"""One intern with a scripted runtime behind a running gateway, and a caller who talks to it."""

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import requests

from accounts.models import ApiKey
from interns.models import ChatInteraction, ChatRun, Intern, Status
from tests.interns.chat.scripted_agent import END, PERMISSION, Gate, ScriptedAgent, question
from tests.support.gateways import SeededAccount
from tests.support.server import GatewayServer

Orm = Callable[[GatewayServer], AbstractContextManager[None]]


def user(text: str = "Hi") -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def build_answer(call_id: str, answer: str) -> list[dict[str, Any]]:
    call = {
        "id": call_id,
        "type": "function",
        "function": {"name": "router.provide_input", "arguments": "{}"},
    }
    return [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": answer},
    ]


@dataclass
class Room:
    server: GatewayServer
    account: SeededAccount
    agent: ScriptedAgent
    intern_id: uuid.UUID
    orm: Orm

    @property
    def path(self) -> str:
        return f"/api/v1/interns/{self.intern_id}/chat/completions"

    def post(self, body: Any = None, *, key: str = "", **options: Any) -> requests.Response:
        """A request whose answer is not read yet where it is a stream."""
        return self.server.post(
            self.path, key=key or self.account.api_key, json=body, stream=True, **options
        )

    def say(self, text: str = "Hi", **more: Any) -> requests.Response:
        return self.post({"stream": True, "messages": user(text), **more})

    def answer(self, session_id: str, answer: str, *, call_id: str = "call-1") -> requests.Response:
        messages = build_answer(call_id, answer)
        return self.post({"stream": True, "messages": messages, "session_id": session_id})

    def pause(self, *then: Any, asked: Any = PERMISSION, **more: Any) -> list[Any]:
        """What a turn of session `s` tells, up to the question that it waits with."""
        self.agent.script(question(asked), *then, END)
        return list(events_of(self.say(session_id="s", **more)))

    def hold(self, *first: Any, then: Any = END, **more: Any) -> tuple[requests.Response, Gate]:
        """A turn that came as far as a gate."""
        gate = Gate()
        self.agent.script(*first, gate, then)
        response = self.say(**more)
        gate.wait_reached()
        return response, gate

    def rows(self) -> AbstractContextManager[None]:
        """Within, models are the gateway's."""
        return self.orm(self.server)

    def runs(self) -> list[ChatRun]:
        with self.rows():
            found = ChatRun.objects.filter(intern_id=self.intern_id)
            return list(found.select_related("session").order_by("started_at"))

    def questions(self) -> list[ChatInteraction]:
        with self.rows():
            return list(ChatInteraction.objects.filter(run__intern_id=self.intern_id))

    def set_intern(self, **changes: Any) -> None:
        with self.rows():
            Intern.objects.filter(pk=self.intern_id).update(**changes)

    def wait_open(self, state: str | None) -> None:
        """Until the intern's open run is in that state; None: until there is none."""

        def holds() -> bool:
            found = [run.state for run in self.runs() if run.state in ("running", "waiting")]
            return found == ([] if state is None else [state])

        self.server.wait_until(holds)


def make_intern(account: SeededAccount, *, name: str, status: str = Status.RUNNING) -> Intern:
    """A row as provisioning leaves it. Within `rows()`."""
    now = datetime.now(UTC)
    creator = ApiKey.objects.get(hash=account.api_key_hash).creator
    assert creator is not None
    return Intern.objects.create(
        workspace_id=account.workspace_id,
        creator=creator,
        name=name,
        hostname=f"{name}-{uuid.uuid4().hex[:8]}.interns.localhost",
        status=status,
        status_since=now,
        created_at=now,
        updated_at=now,
        booted_at=now,
        boot_id=uuid.uuid4(),
    )


def place(folder: Path, intern_id: uuid.UUID, agent: ScriptedAgent) -> None:
    (folder / str(intern_id)).write_text(str(agent.path), encoding="utf-8")


def events_of(response: requests.Response) -> Iterator[Any]:
    """The stream's `data:` payloads, parsed; `[DONE]` and comments as they are."""
    for line in response.iter_lines():
        if line.startswith(b"data: "):
            said = line[6:].decode()
            yield said if said == "[DONE]" else json.loads(said)
        elif line:
            yield line.decode()


def text_of(chunks: list[Any]) -> str:
    """What was said in them."""
    return "".join(
        choice["delta"].get("content") or ""
        for chunk in chunks
        if isinstance(chunk, dict)
        for choice in chunk["choices"]
    )


def ending_of(response: requests.Response) -> Any:
    return finish_of(list(events_of(response)))


def finish_of(chunks: list[Any]) -> Any:
    """The finish reason, which is in one chunk."""
    (reason,) = [
        choice["finish_reason"]
        for chunk in chunks
        if isinstance(chunk, dict)
        for choice in chunk["choices"]
        if choice["finish_reason"]
    ]
    return reason


def refusal_of(response: requests.Response) -> tuple[int, str | None, bool | None]:
    """Status, reason and retryable; the code in the body is the status."""
    error = response.json()["error"]
    assert error["code"] == response.status_code
    told = error.get("metadata", {})
    return response.status_code, told.get("reason"), told.get("retryable")
