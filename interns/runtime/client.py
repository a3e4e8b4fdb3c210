"""The gateway's side of the agent's protocol (docs/reference/interns-agent.md), for every driver
whose runtimes listen somewhere. Waits are cooperative, and every call has a deadline of its own.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Final, TypeVar
from uuid import UUID

from pydantic import TypeAdapter

from gateway.http.errors import MalformedJson, forget_origin
from gateway.http.jsonio import dumps, loads
from gateway.outbound.errors import (
    BodyTooLarge,
    ConnectFailed,
    ConnectTimeout,
    DeadlineExceeded,
    DnsFailed,
    FirstByteTimeout,
    OutboundError,
)
from gateway.outbound.exchange import AbortHandle, Limits
from gateway.outbound.http_client import HttpClient, Origin
from gateway.outbound.reply import Reply as HttpReply
from interns.runtime.driver import (
    AgentAccess,
    ChatRefused,
    QuestionAnswer,
    RunEvent,
    RuntimeHealth,
    SessionTurn,
    TurnOrder,
)
from interns.runtime.events import BadEvent, is_last, read_event
from interns.runtime.tunnel import (
    ANSWER_HEADER,
    REASON_HEADER,
    REQUEST_HEADER,
    SignedRequest,
    is_proof,
)
from routing.upstreams.sse import EventTooLarge, SseParser

T = TypeVar("T")
_TURNS: Final = TypeAdapter(list[SessionTurn])
_CONNECT_S: Final = 5.0
# A runtime sends the head of a stream before it asks its model.
_HEAD_S: Final = 30.0
_NEVER_S: Final = 86_400.0
_EVENT_BYTES_MAX: Final = 1_048_576
_STREAM_BYTES_MAX: Final = 64 * 1_048_576
_REFUSAL_BYTES_MAX: Final = 65_536
_MESSAGE_CHARS_MAX: Final = 500
# A hundred turns, each character of them escaped.
_CONVERSATION_BYTES_MAX: Final = 8 * 1_048_576
_NOT_REACHED: Final = (ConnectFailed, ConnectTimeout, DnsFailed)
_TOO_LATE: Final = (DeadlineExceeded, FirstByteTimeout)
# What a runtime may say of a turn; everything else that it refuses is `intern_rejected`.
_REASONS: Final = {
    "bad_request": 400,
    "interaction_unknown": 404,
    "busy": 409,
    "interaction_not_pending": 409,
    "run_ended": 410,
}


@cache
def _get_client() -> HttpClient:
    """Keeps no connections: a runtime's address is a stranger's as soon as it stopped."""
    return HttpClient(pool_size_per_origin=0)


def build_origin(access: AgentAccess) -> Origin:
    address = access.address
    if address.tunnel is not None:
        return Origin.parse(address.tunnel.url)
    if address.socket_path is not None:
        return Origin.of_socket(str(address.socket_path))
    return Origin.parse(f"http://{address.host}:{address.port}")


class AgentClient(ABC):
    """What a driver needs not do itself, once it says where its runtimes are."""

    @abstractmethod
    def find_agent(self, intern_id: UUID) -> AgentAccess | None:
        """Where the runtime is talked to, None where none is known."""

    def turn(
        self, intern_id: UUID, turn: TurnOrder, *, deadline: float, abort: AbortHandle
    ) -> "AgentStream":
        body = {
            "run_id": str(turn.run_id),
            "session_id": turn.session_id,
            "text": turn.text,
            "approval_mode": turn.approval_mode,
            "question_s": turn.question_s,
            "retained_bytes": turn.retained_bytes,
            "traceparent": turn.traceparent,
        }
        return self._stream(intern_id, "/turns", body, deadline=deadline, abort=abort)

    def answer(
        self, intern_id: UUID, reply: QuestionAnswer, *, deadline: float, abort: AbortHandle
    ) -> "AgentStream":
        body = {"id": reply.tool_call_id, "answer": reply.content}
        path = f"/turns/{reply.run_id}/answer"
        return self._stream(intern_id, path, body, deadline=deadline, abort=abort)

    def read_conversation(
        self, intern_id: UUID, session_id: str, *, wait_s: float = 2.0
    ) -> list[SessionTurn] | None:
        deadline = time.monotonic() + wait_s
        content = b""
        try:
            body = {"session_id": session_id}
            reply = self._send(intern_id, "/conversation", body, deadline=deadline)
            with reply:
                while len(content) < _CONVERSATION_BYTES_MAX and (piece := reply.read_some()):
                    content += piece
            return _TURNS.validate_python(loads(content)["turns"])
        except (ChatRefused, OutboundError, MalformedJson, LookupError, TypeError, ValueError):
            return None

    def steer(self, intern_id: UUID, run_id: UUID, text: str, *, wait_s: float = 10.0) -> None:
        deadline = time.monotonic() + wait_s
        reply = self._send(intern_id, f"/turns/{run_id}/steer", {"text": text}, deadline=deadline)
        with reply:
            if reply.status != 202:
                raise _read_refusal(reply)

    def cancel(self, intern_id: UUID, run_id: UUID, *, wait_s: float = 2.0) -> bool:
        deadline = time.monotonic() + wait_s
        try:
            reply = self._send(intern_id, f"/turns/{run_id}/cancel", {}, deadline=deadline)
        except ChatRefused:
            return False
        with reply:
            return reply.status == 200

    def _stream(
        self, intern_id: UUID, path: str, body: object, *, deadline: float, abort: AbortHandle
    ) -> "AgentStream":
        reply = self._send(intern_id, path, body, deadline=deadline, abort=abort)
        if reply.status != 200 or "text/event-stream" not in reply.headers.get("content-type", ""):
            with reply:
                raise _read_refusal(reply)
        return AgentStream(reply)

    def _send(
        self,
        intern_id: UUID,
        path: str,
        body: object,
        *,
        deadline: float,
        abort: AbortHandle | None = None,
    ) -> HttpReply:
        access = self.find_agent(intern_id)
        if access is None:
            raise ChatRefused("intern_unreachable", "No runtime is known", retryable=True)
        headers = [
            ("Authorization", f"Bearer {access.token}"),
            ("Content-Type", "application/json"),
        ]
        return send_request(
            access,
            method="POST",
            path=path,
            headers=headers,
            body=dumps(body),
            deadline=deadline,
            abort=abort,
        )


def send_request(
    access: AgentAccess,
    *,
    method: str,
    path: str,
    headers: list[tuple[str, str]],
    body: bytes,
    deadline: float,
    abort: AbortHandle | None = None,
    body_bytes_max: int = _STREAM_BYTES_MAX,
) -> HttpReply:
    """One request to a runtime, up to the head of its answer. Raises `ChatRefused`."""
    limits = Limits(
        connect_s=_CONNECT_S, first_byte_s=_HEAD_S, idle_s=_NEVER_S, body_bytes_max=body_bytes_max
    )
    tunnel, signature = access.address.tunnel, ""
    if tunnel is not None:
        path = tunnel.write_path(path)
        wait_s = max(1, round(deadline - time.monotonic()))
        signature = SignedRequest(tunnel.host, method, path, body, wait_s).sign(time.time())
        # The token never leaves the runtime's machine.
        headers = [each for each in headers if each[0] != "Authorization"]
        headers.append((REQUEST_HEADER, signature))
    reply = _convert_errors(
        lambda: _get_client().send(
            build_origin(access),
            method=method,
            path=path,
            headers=headers,
            body=body,
            limits=limits,
            deadline=deadline,
            abort_handle=abort,
        )
    )
    if tunnel is not None:
        _check_tunnel(reply, signature)
    return reply


def _check_tunnel(reply: HttpReply, signature: str) -> None:
    """Raises `ChatRefused` where a stranger answered, or the other end had no answer."""
    reason: str | None = reply.headers.get(REASON_HEADER.lower())
    if not is_proof(reply.headers.get(ANSWER_HEADER.lower(), ""), signature):
        reason = "intern_unreachable"
    if reason is not None:
        reply.close()
        text = f"The machine of the intern says {reason}"
        raise ChatRefused(reason, text, retryable=True)


class AgentStream:
    """The events of one run, as they come. `close` it, whatever happened."""

    def __init__(self, reply: HttpReply) -> None:
        self._reply = reply
        self._parser = SseParser(_EVENT_BYTES_MAX)
        self._ended = False

    def read(self, wait_s: float) -> list[RunEvent]:
        """The events that came; none where nothing did within `wait_s`. Raises `ChatRefused`."""
        piece = _convert_errors(lambda: self._reply.read_some(wait_s))
        if piece is None:
            return []
        try:
            payloads = self._parser.feed_bytes(piece) if piece else self._parser.finish()
            events = [event for payload in payloads if (event := read_event(payload)) is not None]
        except (EventTooLarge, BadEvent) as error:
            raise ChatRefused("turn_failed", "The intern sent what is no event") from error
        self._ended = self._ended or any(map(is_last, events))
        if not piece and not self._ended:
            raise _build_severed()
        return events

    def close(self) -> None:
        self._reply.close()


def _convert_errors(work: Callable[[], T]) -> T:
    """What `work` returns; what the door says against it, in the API's words."""
    try:
        return work()
    except OutboundError as error:
        # A reply keeps what ended it, and that must not keep the reply in turn.
        forget_origin(error)
        if isinstance(error, _NOT_REACHED):
            text = "The intern could not be reached"
            raise ChatRefused("intern_unreachable", text, retryable=True) from None
        if isinstance(error, _TOO_LATE):
            raise ChatRefused("timeout", "The intern took too long", retryable=True) from None
        if isinstance(error, BodyTooLarge):
            raise ChatRefused("turn_failed", "The intern said too much") from None
        raise _build_severed() from None


def _build_severed() -> ChatRefused:
    return ChatRefused("stream_severed", "The connection to the intern was lost", retryable=True)


def _read_refusal(reply: HttpReply) -> ChatRefused:
    """What a runtime said instead of a stream."""
    content, body = b"", None
    try:
        while len(content) < _REFUSAL_BYTES_MAX and (piece := reply.read_some()):
            content += piece
        body = loads(content)["error"]
    except (OutboundError, MalformedJson, LookupError, TypeError):
        pass
    if not isinstance(body, dict):
        body = {}
    status, reason = reply.status, body.get("reason")
    message = str(body.get("message") or "")[:_MESSAGE_CHARS_MAX]
    retryable = body.get("retryable") is True
    if reason == "attachment_failed" and status in (409, 410):
        return ChatRefused(reason, message, status=status)
    if _REASONS.get(str(reason)) == status:
        return ChatRefused(str(reason), message, retryable=reason == "busy")
    if status == 503:
        return ChatRefused("busy", message, retryable=True, status=status)
    if status >= 500:
        return ChatRefused("turn_failed", message, retryable=retryable)
    return ChatRefused("intern_rejected", message)


ANSWER_BYTES_MAX: Final = 65_536


def ask_health(access: AgentAccess, boot_id: str, *, wait_s: float) -> RuntimeHealth:
    """What the agent says of itself. Never raises."""
    body = b""
    try:
        reply = send_request(
            access,
            method="GET",
            path="/health",
            headers=[("Authorization", f"Bearer {access.token}")],
            body=b"",
            deadline=time.monotonic() + wait_s,
            body_bytes_max=ANSWER_BYTES_MAX,
        )
        with reply:
            while piece := reply.read_some():
                body += piece
        health = loads(body)
    except (ChatRefused, OutboundError) as error:
        return RuntimeHealth(ok=False, detail=f"the agent does not answer: {error}")
    except MalformedJson:
        health = None
    facts = health if isinstance(health, dict) else {}
    if facts.get("status") != "ready" or facts.get("runtime_id") != boot_id:
        return RuntimeHealth(ok=False, detail="something else answers for the agent")
    return RuntimeHealth(ok=True, budget_ended=facts.get("budget_ended") is True)
