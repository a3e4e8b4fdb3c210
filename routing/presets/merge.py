"""Merging a preset into a request: the preset fills in what the request leaves open.

The result is a body in the caller's own format, so that an upstream of the same format receives
the preset's settings unchanged. Settings that the format cannot express go into a second dict, in
the words of chat.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from gateway.http.jsonio import JsonObject
from routing.presets.schema import CACHE_KEYS, CAPS, SAME_NAME, is_instruction
from routing.presets.tools import (
    chat_response_format,
    convert_choice,
    convert_tools,
    forbids_parallel_calls,
    merge_tools,
    text_format,
)

# Fields of chat that the other formats accept too, though they are not their own.
_CHAT_WORDS_TOO: Final[Mapping[str, tuple[str, ...]]] = {
    "responses": ("min_p", "top_a", "repetition_penalty", "logit_bias", "seed", "stop"),
    "messages": (
        *("min_p", "top_a", "repetition_penalty", "logit_bias", "seed"),
        *("frequency_penalty", "presence_penalty", "image_config"),
    ),
}
# The keys of the config that each field of a body overrides.
_OVERRIDES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "chat": {
        **{name: (name,) for name in SAME_NAME["chat"]},
        **dict.fromkeys(CAPS, CAPS),
        "reasoning_effort": ("reasoning",),
        "function_call": ("tool_choice",),
    },
    "responses": {
        **{name: (name,) for name in (*SAME_NAME["responses"], *_CHAT_WORDS_TOO["responses"])},
        "max_output_tokens": CAPS,
    },
    "messages": {
        **{name: (name,) for name in (*SAME_NAME["messages"], *_CHAT_WORDS_TOO["messages"])},
        "max_tokens": CAPS,
        "fallbacks": ("models",),
        "stop_sequences": ("stop",),
        "thinking": ("reasoning",),
    },
}
# An inner object, and the key that each field in it overrides.
_INNER_OVERRIDES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "responses": ("text", {"format": "response_format", "verbosity": "verbosity"}),
    "messages": ("output_config", {"format": "response_format", "effort": "reasoning"}),
}
# Tools are merged one by one; caching is not sent to upstreams.
_MERGED_SEPARATELY: Final = frozenset({"tools", "tool_choice", "parallel_tool_calls", *CACHE_KEYS})
# Keys of the config that go into a chat body as they are, under one name only.
_UNCHANGED: Final = (
    frozenset(SAME_NAME["chat"])
    - _MERGED_SEPARATELY
    - {
        *("model", "models", *CAPS, "reasoning", "response_format", "service_tier"),
    }
)
_TIERS: Final = {"standard_only": "default"}
_RESPONSES_MODALITIES: Final = frozenset({"text", "image"})


class MergedBody(NamedTuple):
    """`body` is in the caller's format; `beside` has the settings that only chat can express.
    `before` is the number of messages inserted before the caller's. `missing` has the types of the
    preset's tools that this caller's format does not offer."""

    body: JsonObject
    beside: JsonObject
    before: int = 0
    missing: tuple[str, ...] = ()


def chat_defaults(config: Mapping[str, Any], system_prompt: str) -> JsonObject | None:
    """The preset's fields, if `{**fields, **body}` is all there is to merging it into a chat body;
    None for any other preset."""
    return dict(config) if not system_prompt and _UNCHANGED.issuperset(config) else None


def merge_preset(
    format: str, body: Mapping[str, Any], config: Mapping[str, Any], system_prompt: str
) -> MergedBody:
    """Merge a preset into a request. `body` no longer names the preset, is not changed, and need
    not be valid.
    """
    if format in ("decisions", "embeddings"):
        # Neither takes more than the models and provider preferences of a preset.
        result = {name: config[name] for name in ("model", "provider") if name in config} | dict(
            body
        )
        models = [] if "model" in body else list(config.get("models", ()))
        if models and "model" not in result:
            result["model"] = models[0]
        return MergedBody(result, {"models": models} if models else {})
    overrides = _OVERRIDES[format]
    given_keys = {key for name in overrides.keys() & body.keys() for key in overrides[name]}
    if format in _INNER_OVERRIDES:
        field, keys = _INNER_OVERRIDES[format]
        inner = body.get(field)
        if type(inner) is dict:
            given_keys.update([key for name, key in keys.items() if name in inner])
        elif inner is None and field in body:
            # Null overrides all of them.
            given_keys.update(keys.values())
    defaults = {
        name: config[name]
        for name in config
        if name not in given_keys and name not in _MERGED_SEPARATELY
    }
    result, beside = dict(body), JsonObject()
    _MERGES[format](result, beside, defaults)
    missing: tuple[str, ...] = ()
    preset_tools, own_tools = config.get("tools", ()), result.get("tools", [])
    if preset_tools and type(own_tools) is list:
        tools, missing_types = convert_tools(format, preset_tools)
        result["tools"] = merge_tools(tools, own_tools)
        missing = tuple(dict.fromkeys(missing_types))
    _put_choice(format, result, config, given_keys)
    before = _put_prompt(format, result, system_prompt) if system_prompt else 0
    return MergedBody(result, beside, before, missing)


def _merge_chat(body: JsonObject, beside: JsonObject, defaults: JsonObject) -> None:
    """Chat can express every setting."""
    _put_tier(body, defaults)
    _put_truncation(body, defaults)
    if "response_format" in defaults:
        defaults["response_format"] = chat_response_format(defaults["response_format"])
    body |= defaults


def _merge_responses(body: JsonObject, beside: JsonObject, defaults: JsonObject) -> None:
    _put_tier(body, defaults)
    _put_cap(body, defaults, "max_output_tokens")
    text = {}
    if "response_format" in defaults:
        form = defaults.pop("response_format")
        if (converted := text_format(form)) is not None:
            text["format"] = converted
        else:
            beside["response_format"] = form
    if "verbosity" in defaults:
        text["verbosity"] = defaults.pop("verbosity")
    if text:
        given = body.get("text")
        body["text"] = {**given, **text} if isinstance(given, dict) else text
    if "reasoning" in defaults:
        reasoning = defaults["reasoning"]
        defaults["reasoning"] = {name: reasoning[name] for name in reasoning if name != "exclude"}
        beside["reasoning"] = reasoning
    if not _RESPONSES_MODALITIES.issuperset(defaults.get("modalities", ())):
        beside["modalities"] = defaults.pop("modalities")
    _put_rest(body, beside, defaults, _OVERRIDES["responses"])


def _merge_messages(body: JsonObject, beside: JsonObject, defaults: JsonObject) -> None:
    _put_cap(body, defaults, "max_tokens")
    _put_truncation(beside, defaults)
    if "stop" in defaults:
        stop = defaults.pop("stop")
        body["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if "response_format" in defaults:
        beside["response_format"] = chat_response_format(defaults.pop("response_format"))
    if defaults.get("top_k", 0) < 0:
        beside["top_k"] = defaults.pop("top_k")
    _put_rest(body, beside, defaults, _OVERRIDES["messages"])


def _put_rest(
    body: JsonObject,
    beside: JsonObject,
    defaults: Mapping[str, Any],
    overrides: Mapping[str, tuple[str, ...]],
) -> None:
    for name, value in defaults.items():
        (body if overrides.get(name) == (name,) else beside)[name] = value


def _put_cap(body: JsonObject, defaults: JsonObject, name: str) -> None:
    older, newer = (defaults.pop(cap, None) for cap in CAPS)
    if newer or older:
        body[name] = newer or older


def _put_tier(body: JsonObject, defaults: JsonObject) -> None:
    """Write the service tier. `speed: fast` of messages means priority, but a named tier wins."""
    if "service_tier" not in defaults and "speed" not in defaults:
        return
    tier, speed = defaults.pop("service_tier", None), defaults.pop("speed", None)
    if tier in (None, "auto") and speed == "fast" and body.get("service_tier") in (None, "auto"):
        tier = "priority"
    if tier is not None:
        body["service_tier"] = _TIERS.get(tier, tier)


def _put_truncation(body: JsonObject, defaults: JsonObject) -> None:
    how = defaults.pop("truncation", None)
    if how is not None and "transforms" not in body:
        body["transforms"] = ["middle-out"] if how == "auto" else []


def _put_choice(
    format: str, body: JsonObject, config: Mapping[str, Any], given_keys: set[str]
) -> None:
    """Write `tool_choice` and `parallel_tool_calls` unless the request has them."""
    chosen, parallel = config.get("tool_choice"), config.get("parallel_tool_calls")
    if chosen is None and parallel is None:
        return
    given = body.get("tools")
    tools = [each for each in given if isinstance(each, dict)] if type(given) is list else []
    if chosen is not None and "tool_choice" not in given_keys:
        if tools and (choice := convert_choice(format, chosen, tools)) is not None:
            body["tool_choice"] = choice
        if parallel is None and forbids_parallel_calls(chosen):
            parallel = False
    if format != "messages" and parallel is not None:
        body.setdefault("parallel_tool_calls", parallel)
    elif tools and parallel is False:
        # In messages `disable_parallel_tool_use` is part of the choice.
        written = body.get("tool_choice", {"type": "auto"})
        if isinstance(written, dict) and written.get("type") != "none":
            body["tool_choice"] = {"disable_parallel_tool_use": True, **written}


def _put_prompt(format: str, body: JsonObject, prompt: str) -> int:
    """Write the preset's system prompt unless the request has one; returns the number of messages
    inserted before the caller's."""
    field, conversation = _PROMPTS[format]
    messages = body.get(conversation)
    messages = messages if type(messages) is list else []
    if (field and field in body) or any(
        isinstance(each, dict) and is_instruction(each) for each in messages
    ):
        return 0
    if field:
        body[field] = prompt
    elif messages:
        body[conversation] = [{"role": "system", "content": prompt}, *messages]
        return 1
    return 0


# The field of the system prompt ("" if it is a message), and the field of the conversation.
_PROMPTS: Final = {
    "chat": ("", "messages"),
    "responses": ("instructions", "input"),
    "messages": ("system", "messages"),
}
_Merge = Callable[[JsonObject, JsonObject, JsonObject], None]
_MERGES: Final[Mapping[str, _Merge]] = {
    "chat": _merge_chat,
    "responses": _merge_responses,
    "messages": _merge_messages,
}
