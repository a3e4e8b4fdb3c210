"""Decisions as a caller format, under both of its paths."""

from typing import Final

from gateway.http.errors import GatewayError, InvalidRequest
from gateway.http.jsonio import JsonObject
from gateway.http.responses import error_body
from gateway.live_settings import settings
from routing.entities.ids import DECISIONS_PREFIX, tool_call_id
from routing.formats.caller import AnswerIdentity, CallerFormat, CompleteAnswer, StreamWriter
from routing.formats.chat.request import ChatRequest
from routing.formats.decisions.request import parse_decisions

_LATEST: Final = "-latest"


class DecisionsFormat:
    """See `CallerFormat`. The message of an answer holds `answers`, and its usage has the chat
    format's words."""

    name = "decisions"
    wire = "decisions"
    id_prefix = DECISIONS_PREFIX
    api_type = "decisions"
    finishing_errors: frozenset[str] = frozenset()

    def parse(
        self,
        body: JsonObject,
        *,
        session_header: str | None,
        models_max: int,
        beside: JsonObject | None = None,
    ) -> ChatRequest:
        return parse_decisions(body, session_header=session_header, beside=beside)

    def new_call_id(self) -> str:
        return tool_call_id()

    def write_answer(self, answer: CompleteAnswer) -> JsonObject:
        served, ending = answer.served, answer.ending
        body: JsonObject = {
            "id": served.generation_id,
            "model": served.model,
            "provider": served.provider,
            "answers": answer.message["answers"],
            "usage": {
                "input_tokens": ending.usage["prompt_tokens"],
                "output_tokens": ending.usage["completion_tokens"],
                "cost": ending.usage["cost"],
            },
        }
        if ending.router_metadata is not None:
            body["router_metadata"] = ending.router_metadata
        return body

    def writer(self, served: AnswerIdentity, request: ChatRequest) -> StreamWriter:
        raise InvalidRequest("Decisions are not streamed")

    def error_body(
        self, error: GatewayError, *, generation_id: str | None, beside: JsonObject
    ) -> JsonObject:
        return error_body(error, **beside)


class SystemOneFormat(DecisionsFormat):
    """The compatible path, where a model may be named without its author."""

    def parse(
        self,
        body: JsonObject,
        *,
        session_header: str | None,
        models_max: int,
        beside: JsonObject | None = None,
    ) -> ChatRequest:
        chat = super().parse(
            body, session_header=session_header, models_max=models_max, beside=beside
        )
        model = chat.model or ""
        resolved = resolve_name(model, settings.ROUTER_SYSTEMONE_NAMESPACE)
        if resolved != model:
            chat.model, chat.named_as = resolved, model
            chat.candidates = [resolved, *chat.models]
        return chat


def resolve_name(model: str, namespace: str) -> str:
    """The model that a bare name means; other names are left alone."""
    if "/" in model or model.startswith("~") or not model:
        return model
    return f"~{namespace}/{model}" if model.endswith(_LATEST) else f"{namespace}/{model}"


DECISIONS: Final[CallerFormat] = DecisionsFormat()
SYSTEMONE: Final[CallerFormat] = SystemOneFormat()
