"""The body of a chat request: a prompt or an answer, and what it says."""

from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, Field, ValidationError, WithJsonSchema
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from gateway.http.jsonio import JsonObject
from gateway.http.validation import ISSUES_MAX, Issue, list_issues, name_json_type
from interns.runtime.questions import TOOL_CALL_ID_CHARS_MAX
from routing.formats.chat.schema import SESSION_ID_CHARS_MAX
from routing.formats.fields import ONE_KIND, REQUIRED, Tagged, tolerant_checker

PROMPT_CHARS_MAX: Final = 32_000
MODEL_CHARS_MAX: Final = 256
ApprovalMode = Literal["self-drive", "manual"]


class InvalidChatBody(Exception):
    """The body breaks the schema, as the issues say."""

    def __init__(self, issues: list[Issue]) -> None:
        super().__init__(len(issues))
        self.issues = issues[:ISSUES_MAX]


class ChatPrompt(NamedTuple):
    """What starts a run, or goes into one. `session_id` None wants a new session."""

    text: str
    session_id: str | None
    approval_mode: ApprovalMode


class ChatReply(NamedTuple):
    """The answer to a question that a run asked."""

    session_id: str
    tool_call_id: str
    content: str


def _require_true(value: bool) -> bool:
    if not value:
        raise PydanticCustomError(
            "not_true", "Invalid input: expected true, interns answer as streams only"
        )
    return value


class PromptPart(TypedDict, total=False):
    type: Annotated[Literal["text"], REQUIRED]
    text: Annotated[str, REQUIRED]


_Text = Annotated[str | list[Annotated[PromptPart, Tagged("type")]], ONE_KIND]
# Only the last message needs one, which `_read_reply` checks.
_CallId = Annotated[
    Any,
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": TOOL_CALL_ID_CHARS_MAX}),
]


class PromptMessage(TypedDict, total=False):
    role: Annotated[Literal["system", "developer", "user"], REQUIRED]
    content: Annotated[_Text, REQUIRED]


class EarlierAnswer(TypedDict, total=False):
    role: Annotated[Literal["assistant"], REQUIRED]
    content: _Text | None


class QuestionAnswer(TypedDict, total=False):
    role: Annotated[Literal["tool"], REQUIRED]
    content: Annotated[_Text, REQUIRED]
    tool_call_id: _CallId


_Message = Annotated[PromptMessage | EarlierAnswer | QuestionAnswer, Tagged("role")]


class ChatBody(TypedDict, total=False):
    """The body as it is checked and described."""

    stream: Annotated[
        bool,
        AfterValidator(_require_true),
        REQUIRED,
        Field(json_schema_extra={"const": True}),
    ]
    messages: Annotated[list[_Message], Field(min_length=1), REQUIRED]
    session_id: Annotated[str, Field(min_length=1, max_length=SESSION_ID_CHARS_MAX)] | None
    approval_mode: Annotated[ApprovalMode, Field(json_schema_extra={"default": "self-drive"})]
    model: Annotated[str, Field(min_length=1, max_length=MODEL_CHARS_MAX)]


_check: Final = tolerant_checker(ChatBody)


def read_chat_body(body: JsonObject, *, session_header: str = "") -> ChatPrompt | ChatReply:
    """The last message and what it is for; the header's session counts where the body names none.

    Raises `InvalidChatBody`.
    """
    try:
        body, _ = _check(body)
    except ValidationError as error:
        raise InvalidChatBody(list_issues(error)) from error
    session_id = body.get("session_id") or _read_session_header(session_header)
    at = len(body["messages"]) - 1
    last = body["messages"][at]
    if last["role"] == "user":
        text = _join_text(last)
        _check_length(text, f"messages.{at}.content", PROMPT_CHARS_MAX)
        return ChatPrompt(text, session_id, body.get("approval_mode", "self-drive"))
    if last["role"] == "tool":
        return _read_reply(last, at, session_id)
    raise InvalidChatBody(
        [Issue(f"messages.{at}.role", 'Invalid option: the last message is "user" or "tool"')]
    )


def _read_session_header(header: str) -> str | None:
    if len(header) > SESSION_ID_CHARS_MAX:
        text = f"Too big: expected string to have <={SESSION_ID_CHARS_MAX} characters"
        raise InvalidChatBody([Issue("x-session-id", text)])
    return header or None


def _read_reply(message: JsonObject, at: int, session_id: str | None) -> ChatReply:
    call_id = message.get("tool_call_id")
    issues = []
    if not isinstance(call_id, str):
        kind = name_json_type(call_id) if "tool_call_id" in message else "undefined"
        text = f"Invalid input: expected string, received {kind}"
        issues.append(Issue(f"messages.{at}.tool_call_id", text))
    if session_id is None:
        issues.append(Issue("session_id", "Invalid input: expected string, received undefined"))
    if issues:
        raise InvalidChatBody(issues)
    assert isinstance(call_id, str)
    assert session_id is not None
    _check_length(call_id, f"messages.{at}.tool_call_id", TOOL_CALL_ID_CHARS_MAX)
    return ChatReply(session_id, call_id, _join_text(message))


def _check_length(text: str, path: str, chars_max: int) -> None:
    if not text:
        raise InvalidChatBody([Issue(path, "Too small: expected string to have >=1 characters")])
    if len(text) > chars_max:
        raise InvalidChatBody(
            [Issue(path, f"Too big: expected string to have <={chars_max} characters")]
        )


def _join_text(message: JsonObject) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
