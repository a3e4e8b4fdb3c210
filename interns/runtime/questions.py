"""What an intern asks in the middle of a turn, and which answers it takes.

Pure: a question is the JSON object that `router.provide_input` carries, an answer is the content of
the caller's tool message.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from gateway.http.errors import MalformedJson
from gateway.http.jsonio import JsonObject, dumps, loads
from routing.formats.fields import REQUIRED, Tagged

TOOL: Final = "router.provide_input"
TOOL_CALL_ID_CHARS_MAX: Final = 128
CANCEL: Final = "cancel"
PERMISSION_OPTIONS: Final = ("allow_once", "allow_always", "reject_once", "reject_always")
FIELD_TYPES: Final = ("string", "number", "integer", "boolean")
_FIELDS_MAX: Final = 64
_OPTIONS_MAX: Final = 256
# A question is kept in a row until it is answered.
_BYTES_MAX: Final = 65_536
# What an answer to a form has, by its action.
_NAMES: Final = {"accept": ("action", "content"), "decline": ("action",), CANCEL: ("action",)}

Scalar = str | bool | int | float
_Name = Annotated[str, Field(min_length=1, max_length=128)]


class ElicitationField(TypedDict, total=False):
    """One value that an elicitation wants; `options` are all that it may be."""

    name: Annotated[_Name, REQUIRED]
    type: Annotated[Literal["string", "number", "integer", "boolean"], REQUIRED]
    required: Annotated[bool, REQUIRED]
    options: Annotated[list[Scalar], Field(min_length=1, max_length=_OPTIONS_MAX)]


class PermissionQuestion(TypedDict, total=False):
    kind: Annotated[Literal["permission"], REQUIRED]
    operation: Annotated[str | None, REQUIRED]
    options: Annotated[
        list[Literal["allow_once", "allow_always", "reject_once", "reject_always"]],
        Field(min_length=1, max_length=len(PERMISSION_OPTIONS)),
        REQUIRED,
    ]


class ElicitationQuestion(TypedDict, total=False):
    kind: Annotated[Literal["elicitation"], REQUIRED]
    message: Annotated[str, REQUIRED]
    fields: Annotated[list[ElicitationField], Field(max_length=_FIELDS_MAX), REQUIRED]


AnyQuestion = Annotated[PermissionQuestion | ElicitationQuestion, Tagged("kind")]


class AskedQuestion(NamedTuple):
    """A question with the id of the tool call that carries it."""

    tool_call_id: str
    question: JsonObject


class InvalidQuestion(Exception):
    """What a runtime sent is no question that a caller could answer."""


class AnswerRejected(Exception):
    """An answer that the question does not take; the text says what it would take."""


_check: Final = TypeAdapter[Any](AnyQuestion).validator.validate_python


def read_question(tool_call_id: Any, question: Any) -> AskedQuestion:
    """A runtime's question with nothing in it but what is described. Raises `InvalidQuestion`."""
    if not isinstance(tool_call_id, str) or not 1 <= len(tool_call_id) <= TOOL_CALL_ID_CHARS_MAX:
        raise InvalidQuestion("its id is not a string of 1 to 128 characters")
    try:
        _check(question, strict=True)
    except ValidationError as error:
        raise InvalidQuestion(
            f"{error.error_count()} of its fields are not as described"
        ) from error
    asked = AskedQuestion(tool_call_id, _strip_question(question))
    if len(dumps(asked.question)) > _BYTES_MAX:
        raise InvalidQuestion(f"it is over {_BYTES_MAX} bytes")
    return asked


def _strip_question(question: JsonObject) -> JsonObject:
    if question["kind"] == "permission":
        options = list(dict.fromkeys(question["options"]))
        return {"kind": "permission", "operation": question["operation"], "options": options}
    fields = [
        {name: field[name] for name in ("name", "type", "required", "options") if name in field}
        for field in question["fields"]
    ]
    names = [field["name"] for field in fields]
    if len(set(names)) != len(names):
        raise InvalidQuestion("two of its fields have one name")
    return {"kind": "elicitation", "message": question["message"], "fields": fields}


def check_answer(question: JsonObject, answer: str) -> None:
    """Raises `AnswerRejected`; the question is still to be answered then."""
    if question["kind"] == "permission":
        offered = [*question["options"], CANCEL]
        if answer not in offered:
            raise AnswerRejected(f"The answer must be one of {_format_options(offered)}")
        return
    try:
        given = loads(answer.encode("utf-8", "surrogatepass"))
    except MalformedJson:
        given = None
    if not isinstance(given, dict):
        raise AnswerRejected('The answer must be a JSON object with an "action", as a string')
    action = given.get("action")
    # A list or an object is no key.
    known = _NAMES.get(action) if isinstance(action, str) else None
    if known is None:
        raise AnswerRejected('action must be one of "accept", "decline", "cancel"')
    for name in given:
        if name not in known:
            raise AnswerRejected(f"{_quote(name)} is not expected here")
    if action == "accept":
        _check_content(question["fields"], given.get("content"))


def _check_content(fields: list[JsonObject], content: object) -> None:
    if not isinstance(content, dict):
        raise AnswerRejected("content must be an object")
    known = {field["name"]: field for field in fields}
    for name in content:
        if name not in known:
            raise AnswerRejected(f"content has no field {_quote(name)}")
    for name, field in known.items():
        if name not in content:
            if field["required"]:
                raise AnswerRejected(f"content.{name} is required")
            continue
        value, options = content[name], field.get("options")
        if not _IS[field["type"]](value):
            raise AnswerRejected(f"content.{name} must be of type {field['type']}")
        if options is not None and not any(_is_equal(value, option) for option in options):
            raise AnswerRejected(f"content.{name} must be one of {_format_options(options)}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    # JSON has one kind of number: 5.0 is the integer 5.
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


_IS: Final[dict[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": _is_integer,
    "boolean": lambda value: isinstance(value, bool),
}


def _is_equal(value: object, option: object) -> bool:
    """Equal as JSON: 1 is 1.0, and neither is true."""
    return value == option and isinstance(value, bool) == isinstance(option, bool)


def _format_options(options: list[Any]) -> str:
    return ", ".join(_quote(option) for option in options)


def _quote(value: object) -> str:
    text = str(value)
    return f'"{text[:64]}"'
