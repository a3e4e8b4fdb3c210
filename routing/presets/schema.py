"""The fields of a request body that a preset keeps, their checks, and the resulting content."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field, ValidationError
from typing_extensions import TypedDict

from gateway.http.jsonio import JsonObject
from gateway.http.validation import Issue, list_issues
from routing.formats.chat.request import ChatInvalid, convert_offer, find_models_issues
from routing.formats.chat.schema import ChatBody, find_chat_issues
from routing.formats.fields import WHOLE, tolerant_checker
from routing.formats.messages.read import read_reasoning
from routing.formats.messages.schema import MessagesBody, find_messages_issues
from routing.formats.open_tools import move_tool_settings
from routing.formats.responses.schema import ResponsesBody, find_responses_issues
from routing.selection.model_references import preset_of

# The output cap has two names in chat; either one overrides both of the preset.
CAPS: Final = ("max_tokens", "max_completion_tokens")
# How answers are cached; no upstream gets these.
CACHE_KEYS: Final = ("cache_enabled", "cache_ttl_seconds")
# JSON has one kind of number; these are whole.
INTEGER_KEYS: Final = frozenset(
    {*CAPS, "top_k", "top_logprobs", "seed", "max_tool_calls", "cache_ttl_seconds"}
)
_EVERYWHERE: Final = ("model", "models", "provider", "temperature", "top_p", "top_k")
_LATER: Final = ("tools", "tool_choice", "stop_server_tools_when", "plugins", "service_tier")

# What a format has under the very name that the config has.
SAME_NAME: Final[Mapping[str, tuple[str, ...]]] = {
    "chat": (
        *_EVERYWHERE,
        *("min_p", "top_a", "repetition_penalty", "seed", "logit_bias", "logprobs"),
        *("frequency_penalty", "presence_penalty", "top_logprobs", *CAPS, "stop"),
        *("response_format", "verbosity", "reasoning", *_LATER, "parallel_tool_calls"),
        *("max_tool_calls", "modalities", "image_config", "cache_control"),
        *("prompt_cache_options", *CACHE_KEYS),
    ),
    "responses": (
        *_EVERYWHERE,
        *("frequency_penalty", "presence_penalty", "top_logprobs", "reasoning", *_LATER),
        *("parallel_tool_calls", "max_tool_calls", "modalities", "image_config"),
        *("cache_control", "prompt_cache_options", "truncation", *CACHE_KEYS),
    ),
    "messages": (*_EVERYWHERE, "max_tokens", *_LATER, "speed", "cache_control", *CACHE_KEYS),
}
# The other fields, which a config has under another name or in parts.
OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "chat": ("reasoning_effort", "functions", "function_call"),
    "responses": ("max_output_tokens", "text", "instructions", "previous_response_id"),
    "messages": ("fallbacks", "stop_sequences", "thinking", "output_config", "system"),
}


SLUG_PATTERN: Final = r"^[A-Za-z0-9._~-]{1,100}$"
_SLUG: Final = re.compile(SLUG_PATTERN[1:-1])


def is_slug(text: str) -> bool:
    """Unreserved characters of a URL. The two that mean a folder are no names."""
    return _SLUG.fullmatch(text) is not None and text not in (".", "..")


CACHE_TTL_S_MAX: Final = 86_400
_OF_THE_CACHE: Final[Mapping[str, Any]] = {
    "cache_enabled": bool | None,
    "cache_ttl_seconds": Annotated[int, Field(ge=1, le=CACHE_TTL_S_MAX), WHOLE] | None,
}
# Where inference insists on a model a preset need not name one.
_OPTIONAL: Final[Mapping[str, Any]] = {"model": str}


def _build_schema(format: str, body: object) -> Any:
    """The fields of an inference body that presets keep, none of them required."""
    known = {**body.__annotations__, **_OF_THE_CACHE, **_OPTIONAL}
    fields = {name: known[name] for name in (*SAME_NAME[format], *OTHER_NAMES[format])}
    make: Any = TypedDict
    return make(f"{format.capitalize()}Preset", fields, total=False)


SCHEMAS: Final[Mapping[str, Any]] = {
    "chat": _build_schema("chat", ChatBody),
    "responses": _build_schema("responses", ResponsesBody),
    "messages": _build_schema("messages", MessagesBody),
}
_CHECKS: Final[Mapping[str, Callable[[Any], tuple[Any, Any]]]] = {
    format: tolerant_checker(schema) for format, schema in SCHEMAS.items()
}
_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    format: frozenset((*SAME_NAME[format], *OTHER_NAMES[format])) for format in SCHEMAS
}


def check_body(format: str, body: Mapping[str, Any], *, models_max: int) -> JsonObject:
    """The fields that a preset keeps of a body in that format, with the caller's own values.

    Raises `ChatInvalid`.
    """
    fields: JsonObject = {name: body[name] for name in body if name in _FIELDS[format]}
    fields = move_tool_settings(fields)
    try:
        fields, checked = _CHECKS[format](fields)
    except ValidationError as error:
        raise ChatInvalid(list_issues(error)) from None
    issues = _RULES[format](fields, checked, models_max)
    models = [("model", fields.get("model"))]
    models += [(f"models.{place}", each) for place, each in enumerate(fields.get("models") or ())]
    models += [
        (f"fallbacks.{place}.model", each["model"])
        for place, each in enumerate(fields.get("fallbacks") or ())
    ]
    issues += [
        Issue(path, "Invalid input: a preset cannot name a preset")
        for path, model in models
        if model is not None and preset_of(model) is not None
    ]
    if issues:
        raise ChatInvalid(issues)
    return fields


_RULES: Final[Mapping[str, Callable[[JsonObject, Any, int], list[Issue]]]] = {
    "chat": lambda fields, _, models_max: (
        find_models_issues(fields, models_max) + find_chat_issues(fields)
    ),
    # The rules read the conversation too, of which a preset keeps nothing.
    "responses": lambda fields, _, models_max: (
        find_models_issues(fields, models_max) + find_responses_issues({**fields, "input": ""})
    ),
    "messages": lambda _, checked, models_max: find_messages_issues(checked, models_max),
}


_INSTRUCTION_ROLES: Final = frozenset({"system", "developer"})
_BETWEEN: Final = "\n\n"


class PresetContent(NamedTuple):
    """What a version is made of."""

    config: JsonObject
    system_prompt: str


def build_content(format: str, body: Mapping[str, Any], *, models_max: int) -> PresetContent:
    """The content of a body in "chat", "responses" or "messages". Raises `ChatInvalid`."""
    fields = check_body(format, body, models_max=models_max)
    config = {name: fields[name] for name in SAME_NAME[format] if fields.get(name) is not None}
    config |= _RENAMED[format](fields)
    if not config.get("models", True):
        del config["models"]
    config |= {name: int(config[name]) for name in INTEGER_KEYS.intersection(config)}
    if config.get("reasoning", {}).get("max_tokens") is not None:
        budget = int(config["reasoning"]["max_tokens"])
        config["reasoning"] = {**config["reasoning"], "max_tokens": budget}
    if format == "responses":
        return PresetContent(config, body.get("instructions") or "")
    if format == "messages":
        contents = [body.get("system")]
    else:
        # The conversation itself is not kept, and not checked.
        messages = body.get("messages")
        contents = [
            message.get("content")
            for message in (messages if isinstance(messages, list) else ())
            if isinstance(message, dict) and is_instruction(message)
        ]
    texts = []
    for content in contents:
        for part in content if isinstance(content, list) else [content]:
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(text, str) and text:
                texts.append(text)
    return PresetContent(config, _BETWEEN.join(texts))


def _rename_chat_fields(fields: JsonObject) -> JsonObject:
    effort, renamed = fields.get("reasoning_effort"), convert_offer(fields)
    if effort and "reasoning" not in fields:
        renamed["reasoning"] = {"effort": effort}
    return renamed


def _rename_responses_fields(fields: JsonObject) -> JsonObject:
    text = fields.get("text", {})
    renamed = {
        "max_tokens": fields.get("max_output_tokens"),
        "response_format": text.get("format"),
        "verbosity": text.get("verbosity"),
    }
    return {name: value for name, value in renamed.items() if value is not None}


def _rename_messages_fields(fields: JsonObject) -> JsonObject:
    output = fields.get("output_config", {})
    models = [entry["model"] for entry in fields.get("fallbacks") or ()]
    renamed: JsonObject = {
        "stop": fields.get("stop_sequences"),
        "response_format": output.get("format"),
        "reasoning": read_reasoning(fields.get("thinking"), output.get("effort")) or None,
        "models": models or None,
    }
    return {name: value for name, value in renamed.items() if value is not None}


# What a config calls otherwise than the format.
_RENAMED: Final[Mapping[str, Callable[[JsonObject], JsonObject]]] = {
    "chat": _rename_chat_fields,
    "responses": _rename_responses_fields,
    "messages": _rename_messages_fields,
}


def is_instruction(message: Mapping[str, Any]) -> bool:
    """Whether a message tells the model how to behave."""
    role = message.get("role")
    return type(role) is str and role in _INSTRUCTION_ROLES
