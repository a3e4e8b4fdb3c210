"""A decisions body: its schema, and the chat request that it means."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError
from typing_extensions import TypedDict

from gateway.http.jsonio import JsonObject
from gateway.http.validation import list_issues
from routing.decisions.question import YES_NO, TypedQuestion, render_text
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
    return {name: _read_question(each) for name, each in body["questions"].items()}


def _read_question(question: Mapping[str, Any]) -> TypedQuestion:
    kind, instructions = question["type"], question["instructions"]
    criteria: Any = question.get("criteria")
    if kind == "choice":
        return TypedQuestion(kind, instructions, tuple(criteria), tuple(criteria.values()))
    if kind == "score":
        return TypedQuestion(
            kind, instructions, tuple(map(str, range(len(criteria)))), tuple(criteria)
        )
    described = (criteria["true"], criteria["false"]) if criteria else (None, None)
    return TypedQuestion(kind, instructions, YES_NO, described)
