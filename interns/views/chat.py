"""POST /interns/{internId}/chat/completions."""

from collections.abc import Callable, Mapping
from typing import Final

from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from pydantic import TypeAdapter

from accounts.caller import Caller
from gateway.http.body import BodyTooSlow
from gateway.http.errors import GatewayError, Unavailable
from gateway.http.jsonio import JsonObject
from gateway.http.responses import EventStream, json_response
from gateway.openapi.components import (
    FLAG,
    REF_TEMPLATE,
    TEXT,
    WHOLE,
    Component,
    ModelSchemas,
    add_description,
    array,
    obj,
    words,
)
from interns.access import authorize_caller, get_visible_intern, read_json_object
from interns.chat.body import (
    PROMPT_CHARS_MAX,
    ChatBody,
    ChatPrompt,
    ChatReply,
    InvalidChatBody,
    read_chat_body,
)
from interns.chat.chunks import InternChatChunk
from interns.chat.errors import ChatError, PreparationTimedOut, build_bad_request, build_overloaded
from interns.chat.runs import SteeredRun
from interns.chat.turns import TurnRequest
from interns.errors import InternForbidden, InvalidBody
from interns.models import Intern, Status
from interns.reach import reach_agents
from interns.views.base import InternViewSet
from routing.formats.chat.schema import SESSION_ID_CHARS_MAX
from routing.serving.request.process import slots
from routing.views.openapi.inference import request_component

_SESSION_HEADER: Final = "HTTP_X_SESSION_ID"
Find = Callable[[Caller], Intern]
_REFUSALS: Final = {
    400: "The body breaks the schema, or the question does not take the answer: `bad_request`.",
    401: "No key, or one that may not talk to interns.",
    403: "A regional host, the creator left, or the intern's own key.",
    404: "No such intern (`not_found`), or no such question (`interaction_unknown`).",
    408: "The request itself came too slowly: `timeout`.",
    409: "`intern_not_ready`, `busy` (with `Retry-After`), `interaction_not_pending`, "
    "`attachment_failed`.",
    410: "`run_ended`, or a paused run that said more than is kept: `attachment_failed`.",
    413: "Over 1048576 bytes: `payload_too_large`.",
    415: "`unsupported_media_type`.",
    429: "Too many turns of this user, or too many wrong keys.",
    500: "A fault of the gateway: `internal_error`.",
    502: "`intern_unreachable`, `stream_severed`, `intern_rejected`, `turn_failed`.",
    503: "No place for it now: `busy`, with `Retry-After`.",
    504: "The intern took too long: `timeout`.",
}
_ERROR: Final = Component(
    "InternChatError",
    obj(
        {
            "error": obj(
                {
                    "code": add_description(WHOLE, "The HTTP status."),
                    "message": TEXT,
                    "metadata": obj(
                        {
                            "reason": TEXT,
                            "retryable": FLAG,
                            "issues": array(obj({"path": TEXT, "message": TEXT})),
                        },
                        optional=("reason", "retryable", "issues"),
                        additionalProperties=True,
                    ),
                },
                optional=("metadata",),
            )
        }
    ),
)


def _describe_chunk() -> tuple[JsonObject, Mapping[str, JsonObject]]:
    schema = TypeAdapter(InternChatChunk).json_schema(
        ref_template=REF_TEMPLATE, schema_generator=ModelSchemas
    )
    return schema, schema.pop("$defs")


_REQUEST: Final = request_component(
    "InternChatRequest",
    ChatBody,
    {
        "stream": "Interns answer as streams only.",
        "messages": "Only the last is read: the user's is a prompt, a tool's an answer, "
        "to the question that its `tool_call_id` names. "
        f"A prompt has 1 to {PROMPT_CHARS_MAX} characters.",
        "session_id": "The session to go on with; a new one without.",
        "approval_mode": "Whether the intern asks before it acts.",
        "model": "Ignored: an intern has a model of its own.",
    },
)
_CHUNK: Final = Component("InternChatChunk", later=_describe_chunk)
_STEERED: Final = Component("InternSteered", obj({"session_id": TEXT, "status": words("steered")}))
_STREAM: Final = (
    "One chunk per `data:` line, `: keepalive` while nothing comes, `data: [DONE]` at the end. "
    "The chunk before that has no choices, but `session_id` and `usage`. A pause is one tool call "
    "`router.provide_input` and ends the stream with `tool_calls`; the run waits."
)
_SESSION_ID: Final = OpenApiParameter(
    "x-session-id",
    {"type": "string", "maxLength": SESSION_ID_CHARS_MAX},
    OpenApiParameter.HEADER,
    description="The session, where the body names none.",
)
_EXAMPLE: Final = OpenApiExample(
    "A prompt",
    value={"stream": True, "messages": [{"role": "user", "content": "What is new today?"}]},
    request_only=True,
)


class InternChatViewSet(InternViewSet):
    """Streams only. Refusals come before the stream, reasons of failure at its end."""

    outage_error = staticmethod(build_overloaded)

    @extend_schema(
        operation_id="createInternChatCompletion",
        summary="Talk to an intern",
        description=(
            "Begins a turn, goes on with one that asked something, or says more to one that is "
            "running. One turn at a time; leaving a stream cancels its run."
        ),
        tags=["Interns"],
        parameters=[_SESSION_ID],
        request={"application/json": _REQUEST},
        examples=[_EXAMPLE],
        responses={
            (200, "text/event-stream"): OpenApiResponse(_CHUNK, description=_STREAM),
            202: OpenApiResponse(_STEERED, description="The text went into the running turn."),
            **{
                status: OpenApiResponse(_ERROR, description=meaning)
                for status, meaning in _REFUSALS.items()
            },
        },
    )
    def create(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        return self.chat(request, lambda caller: get_visible_intern(caller, intern_id))

    def chat(self, request: HttpRequest, find: Find) -> HttpResponseBase:
        """A turn with the intern that `find` finds for the caller."""
        caller = authorize_caller(request)
        body = _read_body(request)
        intern = find(caller)
        if caller.intern_id is not None:
            # It would answer its own questions.
            raise InternForbidden
        if intern.status != Status.RUNNING or intern.lease_id is not None:
            raise ChatError("intern_not_ready")
        slot = slots.take()
        try:
            who = caller.creator_key
            turn = TurnRequest(
                intern.pk,
                acting=f"key-{caller.key_id}" if who is None else str(who),
                by=who,
                client=request.META.get("gunicorn.socket"),
                driver=reach_agents(intern),
            )
            stream = turn.prompt(body) if isinstance(body, ChatPrompt) else turn.reply(body)
            if isinstance(stream, SteeredRun):
                return json_response(
                    {"session_id": stream.session_id, "status": "steered"}, status=202
                )
            slot.keep()
            return EventStream(stream, [stream.close, slot.release], headers={})
        finally:
            slot.release_unless_streaming()

    def refusal(self, request: HttpRequest, error: GatewayError) -> HttpResponseBase:
        shown = build_overloaded() if isinstance(error, Unavailable) else error
        return super().refusal(request, shown)


def _read_body(request: HttpRequest) -> ChatPrompt | ChatReply:
    header = str(request.META.get(_SESSION_HEADER, ""))
    try:
        return read_chat_body(read_json_object(request), session_header=header)
    except InvalidChatBody as error:
        raise build_bad_request(error.issues) from error
    except InvalidBody as error:
        if isinstance(error.__context__, BodyTooSlow):
            raise PreparationTimedOut from error
        raise ChatError("bad_request", error.text) from error
