"""Decisions as a caller format, under both of its paths: typed questions about a piece of state.

Here are the schema of a body, the chat request that it means, and how answers are written."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError
from typing_extensions import TypedDict

from gateway.http.errors import GatewayError, InvalidRequest
from gateway.http.jsonio import JsonObject
from gateway.http.responses import error_body
from gateway.http.validation import list_issues
from gateway.live_settings import settings
from routing.decisions.question import YES_NO, TypedQuestion, render_text
from routing.entities.ids import DECISIONS_PREFIX, tool_call_id
from routing.formats.caller import AnswerIdentity, CallerFormat, CompleteAnswer, StreamWriter
from routing.formats.chat.request import (
    ChatInvalid,
    ChatRequest,
    build_translated_request,
    find_header_issues,
)
from routing.formats.chat.schema import SESSION_ID_CHARS_MAX, Trace
from routing.formats.fields import ONE_KIND, REQUIRED, NonEmpty, Tagged, tolerant_checker
from routing.formats.provider_preferences import ProviderField

USER_CHARS_MAX: Final = 256
QUESTIONS_MAX: Final = 1_000
LABELS_MAX: Final = 255
LEVELS_MIN: Final = 2
LEVELS_MAX: Final = 10

State = Annotated[str | JsonObject | list[Any], ONE_KIND]
Instructions = Annotated[NonEmpty | JsonObject | list[Any], ONE_KIND]
Criterion = Annotated[str | JsonObject | list[Any], ONE_KIND]


class NoulCriteria(TypedDict, total=False):
    true: Annotated[Criterion, REQUIRED]
    false: Annotated[Criterion, REQUIRED]


class NoulQuestion(TypedDict, total=False):
    type: Annotated[Literal["noul"], REQUIRED]
    instructions: Annotated[Instructions, REQUIRED]
    criteria: NoulCriteria


class ChoiceQuestion(TypedDict, total=False):
    type: Annotated[Literal["choice"], REQUIRED]
    instructions: Annotated[Instructions, REQUIRED]
    criteria: Annotated[
        dict[str, Criterion | None], Field(min_length=1, max_length=LABELS_MAX), REQUIRED
    ]


class ScoreQuestion(TypedDict, total=False):
    type: Annotated[Literal["score"], REQUIRED]
    instructions: Annotated[Instructions, REQUIRED]
    criteria: Annotated[
        list[Criterion], Field(min_length=LEVELS_MIN, max_length=LEVELS_MAX), REQUIRED
    ]


QuestionField = Annotated[NoulQuestion | ChoiceQuestion | ScoreQuestion, Tagged("type")]
Questions = Annotated[
    dict[NonEmpty, QuestionField], Field(min_length=1, max_length=QUESTIONS_MAX), REQUIRED
]


class DecisionsBody(TypedDict, total=False):
    """Every named parameter; keys without a rule are allowed and ignored."""

    model: Annotated[str, Field(min_length=1), REQUIRED]
    state: Annotated[State, REQUIRED]
    questions: Questions
    provider: ProviderField | None
    preset: str
    session_id: Annotated[str, Field(max_length=SESSION_ID_CHARS_MAX)]
    trace: Trace
    user: Annotated[str, Field(max_length=USER_CHARS_MAX)]


check_decisions = tolerant_checker(DecisionsBody)

_SAME_FIELDS: Final = ("model", "session_id", "trace", "user")


def parse_decisions(
    body: JsonObject,
    *,
    session_header: str | None,
    beside: JsonObject | None = None,
) -> ChatRequest:
    """Check a parsed body and the `x-session-id` header. Raises `ChatInvalid`.

    The request's own body tells what is judged as a conversation, for whatever looks at texts; what
    upstreams are asked is made of `original`. `beside` are further models.
    """
    try:
        body, checked = check_decisions(body)
    except ValidationError as error:
        raise ChatInvalid(list_issues(error) + find_header_issues(session_header)) from None
    if issues := find_header_issues(session_header):
        raise ChatInvalid(issues)
    chat: JsonObject = {name: body[name] for name in _SAME_FIELDS if name in body}
    chat |= {
        "provider": checked.get("provider"),
        "messages": build_messages(body),
        **(beside or {}),
    }
    request = build_translated_request(
        chat, session_header=session_header, format="decisions", original=body
    )
    # What comes out is no text that a model would have to be made for.
    request.output_modalities = frozenset()
    # No prompt has more than one question, or more than its provider can take.
    request.prompt_text_chars = len(render_text(body["state"])) + max(
        map(len, map(render_text, body["questions"].values()))
    )
    return request


def build_messages(body: Mapping[str, Any]) -> list[JsonObject]:
    """State and questions as a conversation."""
    parts = (body["state"], body["questions"])
    return [{"role": "user", "content": render_text(each)} for each in parts]


def read_questions(body: Mapping[str, Any]) -> dict[str, TypedQuestion]:
    """The questions of a checked body, in order."""
    questions: dict[str, TypedQuestion] = {}
    for name, question in body["questions"].items():
        kind = question["type"]
        criteria: Any = question.get("criteria")
        if kind == "choice":
            labels, described = tuple(criteria), tuple(criteria.values())
        elif kind == "score":
            labels, described = tuple(map(str, range(len(criteria)))), tuple(criteria)
        else:
            labels = YES_NO
            described = (criteria["true"], criteria["false"]) if criteria else (None, None)
        questions[name] = TypedQuestion(kind, question["instructions"], labels, described)
    return questions


class DecisionsFormat:
    """See `CallerFormat`. The message of an answer holds `answers`, and its usage has the chat
    format's words."""

    name = "decisions"
    wire = "decisions"
    id_prefix = DECISIONS_PREFIX
    api_type = "decisions"
    finishing_errors: frozenset[str] = frozenset()
    new_call_id = staticmethod(tool_call_id)

    def parse(
        self,
        body: JsonObject,
        *,
        session_header: str | None,
        models_max: int,
        beside: JsonObject | None = None,
    ) -> ChatRequest:
        return parse_decisions(body, session_header=session_header, beside=beside)

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
    return f"~{namespace}/{model}" if model.endswith("-latest") else f"{namespace}/{model}"


DECISIONS: Final[CallerFormat] = DecisionsFormat()
SYSTEMONE: Final[CallerFormat] = SystemOneFormat()
