"""The agent's HTTP server: `docs/reference/interns-agent.md` as routes."""

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from interns.agent.config import AgentConfig
from interns.agent.events import KEEPALIVE, JsonObject, frame_event
from interns.agent.runs import InternRun, RequestRefused, RunDesk, RunPrompt, is_last

BODY_BYTES_MAX = 1_048_576
KEEPALIVE_S = 10.0
BUSY_RETRY_S = "5"
_SSE = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class TurnBody(BaseModel):
    """`POST /turns`."""

    model_config = ConfigDict(extra="ignore")
    run_id: str = Field(min_length=1, max_length=64)
    session_id: str = Field(min_length=1, max_length=256)
    text: str = Field(min_length=1, max_length=32_000)
    approval_mode: str = Field(default="self-drive", pattern="^(self-drive|manual)$")
    question_s: float = Field(default=300.0, gt=0, le=86_400)
    traceparent: str = Field(default="", max_length=256)


class AnswerBody(BaseModel):
    """`POST /turns/{run_id}/answer`."""

    id: str = Field(min_length=1, max_length=128)
    answer: str = Field(max_length=131_072)


class SteerBody(BaseModel):
    """`POST /turns/{run_id}/steer`."""

    text: str = Field(min_length=1, max_length=32_000)


class ConversationBody(BaseModel):
    """`POST /conversation`."""

    session_id: str = Field(min_length=1, max_length=256)


class CancelBody(BaseModel):
    """`POST /turns/{run_id}/cancel`; the body may be left out."""

    because: str = Field(default="run_ended", pattern="^[a-z_]{1,40}$")


Handler = Callable[[Request], Awaitable[Response]]


class AgentServer:
    """The routes over one desk."""

    def __init__(self, config: AgentConfig, desk: RunDesk, tool_names: list[str]) -> None:
        self._config = config
        self._desk = desk
        self._tool_names = tool_names

    def app(self) -> Starlette:
        routes = [
            Route("/", self.page, methods=["GET"]),
            self._route("/health", self.health, "GET"),
            self._route("/conversation", self.conversation, "POST"),
            self._route("/turns", self.turn, "POST"),
            self._route("/turns/{run_id}/answer", self.answer, "POST"),
            self._route("/turns/{run_id}/steer", self.steer, "POST"),
            self._route("/turns/{run_id}/cancel", self.cancel, "POST"),
        ]
        return Starlette(routes=routes, exception_handlers={404: _answer_404, 405: _answer_404})

    def _route(self, path: str, handler: Handler, method: str) -> Route:
        async def answer_request(request: Request) -> Response:
            given = request.headers.get("authorization", "").encode()
            if not hmac.compare_digest(given, f"Bearer {self._config.token}".encode()):
                return _build_refusal(
                    RequestRefused(401, "unauthorized", "The runtime's token is needed.")
                )
            try:
                return await handler(request)
            except RequestRefused as refused:
                return _build_refusal(refused)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(str(part) for part in first["loc"])
                return _build_refusal(
                    RequestRefused(400, "bad_request", f"{where}: {first['msg']}")
                )
            except ClientDisconnect:
                return Response(status_code=400)

        return Route(path, answer_request, methods=[method])

    async def page(self, request: Request) -> Response:
        """What anyone may know who may see the intern."""
        status = "running" if self._desk.run is None else "busy"
        shown = {"name": self._config.name, "status": status, "model": self._desk.model}
        return JSONResponse(shown)

    async def health(self, request: Request) -> Response:
        run = self._desk.run
        turn = "idle" if run is None else "waiting" if run.waits else "running"
        return JSONResponse(
            {
                "status": "ready",
                "intern_id": self._config.intern_id,
                "runtime_id": self._config.runtime_id,
                "name": self._config.name,
                "model": self._desk.model,
                "turn": turn,
                "run_id": run.prompt.run_id if run else None,
                "isolation": self._config.isolation,
                "tools": self._tool_names,
                "budget_ended": self._desk.budget_ended,
            }
        )

    async def conversation(self, request: Request) -> Response:
        """What was said in a session."""
        body = ConversationBody.model_validate(await _read_json(request))
        return JSONResponse({"turns": self._desk.list_turns(body.session_id)})

    async def turn(self, request: Request) -> Response:
        body = TurnBody.model_validate(await _read_json(request))
        prompt = RunPrompt(
            run_id=body.run_id,
            session_id=body.session_id,
            text=body.text,
            manual=body.approval_mode == "manual",
            question_s=body.question_s,
            traceparent=body.traceparent,
        )
        run = self._desk.begin(prompt)
        if run is None:
            steered = {"session_id": body.session_id, "status": "steered"}
            return JSONResponse(steered, status_code=202)
        return self._stream(run)

    async def answer(self, request: Request) -> Response:
        body = AnswerBody.model_validate(await _read_json(request))
        return self._stream(self._desk.answer(request.path_params["run_id"], body.id, body.answer))

    async def steer(self, request: Request) -> Response:
        body = SteerBody.model_validate(await _read_json(request))
        self._desk.steer(request.path_params["run_id"], body.text)
        return JSONResponse({}, status_code=202)

    async def cancel(self, request: Request) -> Response:
        body = CancelBody.model_validate(await _read_json(request))
        run_id = request.path_params["run_id"]
        wanted = None if run_id == "current" else run_id
        was_open = await self._desk.cancel(wanted, because=body.because)
        return JSONResponse({"cancelled": was_open})

    def _stream(self, run: InternRun) -> Response:
        return StreamingResponse(
            self._events(run, run.stream), media_type="text/event-stream", headers=_SSE
        )

    async def _events(self, run: InternRun, stream: "asyncio.Queue[Any]") -> AsyncIterator[bytes]:
        is_over = False
        try:
            while not is_over:
                try:
                    event = await asyncio.wait_for(stream.get(), KEEPALIVE_S)
                except TimeoutError:
                    yield KEEPALIVE
                    continue
                is_over = is_last(event)
                yield frame_event(event)
        finally:
            if not is_over:
                self._desk.abandon(run)


async def _read_json(request: Request) -> JsonObject:
    """The body as an object. Raises `RequestRefused`."""
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > BODY_BYTES_MAX:
            raise RequestRefused(413, "payload_too_large", "The body is too large.")
    try:
        body = json.loads(content or b"{}")
    except ValueError as error:
        raise RequestRefused(400, "bad_request", "The body is not JSON.") from error
    if not isinstance(body, dict):
        raise RequestRefused(400, "bad_request", "The body must be an object.")
    return body


def _build_refusal(refused: RequestRefused) -> Response:
    details = {
        "reason": refused.reason,
        "message": str(refused),
        "retryable": refused.retryable,
    }
    headers = {"Retry-After": BUSY_RETRY_S} if refused.reason == "busy" else None
    return JSONResponse({"error": details}, status_code=refused.status, headers=headers)


async def _answer_404(request: Request, error: Exception) -> Response:
    return _build_refusal(RequestRefused(404, "not_found", "There is no such path."))
