"""Bodies that presets are made of: what is kept is checked as at inference, the rest not at all."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError
from typing_extensions import TypedDict

from gateway.http.validation import Issue, list_issues
from routing.formats.chat import schema as chat_rules
from routing.formats.chat.request import ChatInvalid, find_models_issues
from routing.formats.chat.schema import ChatBody
from routing.formats.fields import WHOLE, tolerant_checker
from routing.formats.messages import schema as messages_rules
from routing.formats.messages.schema import MessagesBody
from routing.formats.open_tools import move_tool_settings
from routing.formats.responses import schema as responses_rules
from routing.formats.responses.schema import ResponsesBody
from routing.presets.keys import OTHERS, SAME
from routing.selection.model_references import preset_of

CACHE_TTL_S_MAX: Final = 86_400
_OF_THE_CACHE: Final[Mapping[str, Any]] = {
    "cache_enabled": bool | None,
    "cache_ttl_seconds": Annotated[int, Field(ge=1, le=CACHE_TTL_S_MAX), WHOLE] | None,
}
# Where inference insists on a model a preset need not name one.
_OPTIONAL: Final[Mapping[str, Any]] = {"model": str}


def _schema(format: str, body: Any) -> Any:
    """The fields of an inference body that presets keep, none of them required."""
    known = {**body.__annotations__, **_OF_THE_CACHE, **_OPTIONAL}
    fields = {name: known[name] for name in (*SAME[format], *OTHERS[format])}
    make: Any = TypedDict
    return make(f"{format.capitalize()}Preset", fields, total=False)


SCHEMAS: Final[Mapping[str, Any]] = {
    "chat": _schema("chat", ChatBody),
    "responses": _schema("responses", ResponsesBody),
    "messages": _schema("messages", MessagesBody),
}
_CHECKS: Final[Mapping[str, Callable[[Any], tuple[Any, Any]]]] = {
    format: tolerant_checker(schema) for format, schema in SCHEMAS.items()
}
_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    format: frozenset((*SAME[format], *OTHERS[format])) for format in SCHEMAS
}


def checked_body(format: str, body: Mapping[str, Any], *, models_max: int) -> dict[str, Any]:
    """The fields that a preset keeps of a body in that format, with the caller's own values.

    Raises `ChatInvalid`.
    """
    kept: dict[str, Any] = {name: body[name] for name in body if name in _FIELDS[format]}
    kept = move_tool_settings(kept)
    try:
        kept, checked = _CHECKS[format](kept)
    except ValidationError as error:
        raise ChatInvalid(list_issues(error)) from None
    issues = [*_RULES[format](kept, checked, models_max), *_nesting(kept)]
    if issues:
        raise ChatInvalid(issues)
    return kept


def _nesting(kept: Mapping[str, Any]) -> Iterator[Issue]:
    """A preset that names another one."""
    named = [("model", kept.get("model"))]
    named += [(f"models.{place}", each) for place, each in enumerate(kept.get("models") or ())]
    named += [
        (f"fallbacks.{place}.model", each["model"])
        for place, each in enumerate(kept.get("fallbacks") or ())
    ]
    for path, model in named:
        if model is not None and preset_of(model) is not None:
            yield Issue(path, "Invalid input: a preset cannot name a preset")


def _of_chat(kept: dict[str, Any], checked: Any, models_max: int) -> list[Issue]:
    return find_models_issues(kept, models_max) + chat_rules.find_chat_issues(kept)


def _of_responses(kept: dict[str, Any], checked: Any, models_max: int) -> list[Issue]:
    # The rules read the conversation too, of which a preset keeps nothing.
    body = {**kept, "input": ""}
    return find_models_issues(kept, models_max) + responses_rules.find_responses_issues(body)


def _of_messages(kept: dict[str, Any], checked: Any, models_max: int) -> list[Issue]:
    return messages_rules.find_messages_issues(checked, models_max)


_RULES: Final[Mapping[str, Callable[[dict[str, Any], Any, int], list[Issue]]]] = {
    "chat": _of_chat,
    "responses": _of_responses,
    "messages": _of_messages,
}
