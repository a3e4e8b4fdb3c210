"""A preset under a request: what the request leaves open is taken from it (management reference
4.6).

The result is a body in the caller's own format, so that an upstream of the same format is passed
what the preset says. What that format has no words for stands beside it, in the words of chat.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from routing.presets.choices import (
    chat_response_format,
    choice_in,
    one_at_a_time,
    text_format,
)
from routing.presets.keeping import is_instruction
from routing.presets.keys import CACHE, CAPS, SAME
from routing.presets.tools import tools_in, union

# What each field of a body says of the config, where it is not the key of its own name.
_CHAT_SAYS: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: (name,) for name in SAME["chat"]},
    **dict.fromkeys(CAPS, CAPS),
    "reasoning_effort": ("reasoning",),
    "function_call": ("tool_choice",),
}
# Chat's words that the other formats take as they stand, though they are not their own.
_TAKEN_TOO: Final[Mapping[str, tuple[str, ...]]] = {
    "responses": ("min_p", "top_a", "repetition_penalty", "logit_bias", "seed", "stop"),
    "messages": (
        *("min_p", "top_a", "repetition_penalty", "logit_bias", "seed"),
        *("frequency_penalty", "presence_penalty", "image_config"),
    ),
}
_RESPONSES_SAYS: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: (name,) for name in (*SAME["responses"], *_TAKEN_TOO["responses"])},
    "max_output_tokens": CAPS,
}
_MESSAGES_SAYS: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: (name,) for name in (*SAME["messages"], *_TAKEN_TOO["messages"])},
    "max_tokens": CAPS,
    "fallbacks": ("models",),
    "stop_sequences": ("stop",),
    "thinking": ("reasoning",),
}
# Tools are joined, and how answers are cached is not said to upstreams.
_APART: Final = frozenset({"tools", "tool_choice", "parallel_tool_calls", *CACHE})
# Of a preset for chat: what is said under one name only and written as it is kept.
_AS_IT_STANDS: Final = (
    frozenset(SAME["chat"])
    - _APART
    - {
        *("model", "models", *CAPS, "reasoning", "response_format", "service_tier"),
    }
)
_TIERS: Final = {"standard_only": "default"}
_RESPONSES_MODALITIES: Final = frozenset({"text", "image"})


class Merged(NamedTuple):
    """The body to be read, what stands beside it in the words of chat, how many messages of the
    preset's stand before the caller's own, and the kinds of its tools that this caller cannot
    have."""

    body: dict[str, Any]
    beside: dict[str, Any]
    before: int = 0
    missing: tuple[str, ...] = ()


def laid_on_chat(config: Mapping[str, Any], system_prompt: str) -> dict[str, Any] | None:
    """What a preset gives a chat body field by field, where it says nothing else: such a body is
    `{**laid, **body}`. None for any other preset."""
    return dict(config) if not system_prompt and _AS_IT_STANDS.issuperset(config) else None


def merged(
    format: str, body: Mapping[str, Any], config: Mapping[str, Any], system_prompt: str
) -> Merged:
    """The request with a preset under it. `body` names no preset any more and is not changed; what
    is wrong with it stays wrong.
    """
    if format == "decisions":
        return _onto_decisions(body, config)
    said = _SAID[format](body)
    wanted = {name: config[name] for name in config if name not in said and name not in _APART}
    result, beside = dict(body), dict[str, Any]()
    _LAID[format](result, beside, wanted)
    missing = _put_tools(format, result, config.get("tools", ()))
    _put_choice(format, result, config, said)
    before = _put_prompt(format, result, system_prompt) if system_prompt else 0
    return Merged(result, beside, before, missing)


def _said(says: Mapping[str, tuple[str, ...]], body: Mapping[str, Any]) -> set[str]:
    return {key for name in says.keys() & body.keys() for key in says[name]}


def _chat_said(body: Mapping[str, Any]) -> set[str]:
    return _said(_CHAT_SAYS, body)


def _responses_said(body: Mapping[str, Any]) -> set[str]:
    return _said(_RESPONSES_SAYS, body) | _said_inside(body, "text", _TEXT)


_TEXT: Final = {"format": "response_format", "verbosity": "verbosity"}
_OUTPUT: Final = {"format": "response_format", "effort": "reasoning"}


def _messages_said(body: Mapping[str, Any]) -> set[str]:
    return _said(_MESSAGES_SAYS, body) | _said_inside(body, "output_config", _OUTPUT)


def _said_inside(body: Mapping[str, Any], field: str, says: Mapping[str, str]) -> set[str]:
    """A null stands for an object whose every name is null."""
    inner = body.get(field)
    if inner is None:
        return set(says.values()) if field in body else set()
    return {key for name, key in says.items() if name in inner} if type(inner) is dict else set()


def _onto_chat(body: dict[str, Any], beside: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Chat has a word for everything."""
    _put_tier(body, wanted)
    _put_truncation(body, wanted)
    if "response_format" in wanted:
        wanted["response_format"] = chat_response_format(wanted["response_format"])
    body |= wanted


def _onto_responses(body: dict[str, Any], beside: dict[str, Any], wanted: dict[str, Any]) -> None:
    _put_tier(body, wanted)
    _put_cap(body, wanted, "max_output_tokens")
    text = {}
    if "response_format" in wanted:
        form = wanted.pop("response_format")
        if (said := text_format(form)) is not None:
            text["format"] = said
        else:
            beside["response_format"] = form
    if "verbosity" in wanted:
        text["verbosity"] = wanted.pop("verbosity")
    if text:
        body["text"] = {**_object(body.get("text")), **text}
    if "reasoning" in wanted:
        reasoning = wanted["reasoning"]
        wanted["reasoning"] = {name: reasoning[name] for name in reasoning if name != "exclude"}
        beside["reasoning"] = reasoning
    if not _RESPONSES_MODALITIES.issuperset(wanted.get("modalities", ())):
        beside["modalities"] = wanted.pop("modalities")
    _put_rest(body, beside, wanted, _RESPONSES_SAYS)


def _onto_messages(body: dict[str, Any], beside: dict[str, Any], wanted: dict[str, Any]) -> None:
    _put_cap(body, wanted, "max_tokens")
    _put_truncation(beside, wanted)
    if "stop" in wanted:
        stop = wanted.pop("stop")
        body["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if "response_format" in wanted:
        beside["response_format"] = chat_response_format(wanted.pop("response_format"))
    if wanted.get("top_k", 0) < 0:
        beside["top_k"] = wanted.pop("top_k")
    _put_rest(body, beside, wanted, _MESSAGES_SAYS)


def _onto_decisions(body: Mapping[str, Any], config: Mapping[str, Any]) -> Merged:
    """Of a preset only who is to answer concerns them: nothing is written that could be set."""
    result = {name: config[name] for name in ("model", "provider") if name in config} | dict(body)
    models = [] if "model" in body else list(config.get("models", ()))
    if models and "model" not in result:
        result["model"] = models[0]
    return Merged(result, {"models": models} if models else {})


def _put_rest(
    body: dict[str, Any],
    beside: dict[str, Any],
    wanted: Mapping[str, Any],
    says: Mapping[str, tuple[str, ...]],
) -> None:
    for name, value in wanted.items():
        (body if says.get(name) == (name,) else beside)[name] = value


def _put_cap(body: dict[str, Any], wanted: dict[str, Any], name: str) -> None:
    older, newer = (wanted.pop(cap, None) for cap in CAPS)
    if newer or older:
        body[name] = newer or older


def _put_tier(body: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Messages say the priority tier by a speed as well; a named tier has the last word."""
    if "service_tier" not in wanted and "speed" not in wanted:
        return
    tier, speed = wanted.pop("service_tier", None), wanted.pop("speed", None)
    if tier in (None, "auto") and speed == "fast" and body.get("service_tier") in (None, "auto"):
        tier = "priority"
    if tier is not None:
        body["service_tier"] = _TIERS.get(tier, tier)


def _put_truncation(body: dict[str, Any], wanted: dict[str, Any]) -> None:
    how = wanted.pop("truncation", None)
    if how is not None and "transforms" not in body:
        body["transforms"] = ["middle-out"] if how == "auto" else []


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _put_tools(format: str, body: dict[str, Any], kept: Sequence[Any]) -> tuple[str, ...]:
    """The tools of both; what is missing of the preset's."""
    given = body.get("tools", [])
    if not kept or type(given) is not list:
        return ()
    tools, missing = tools_in(format, kept)
    body["tools"] = union(tools, given)
    return tuple(dict.fromkeys(missing))


def _put_choice(
    format: str, body: dict[str, Any], config: Mapping[str, Any], said: set[str]
) -> None:
    """How the tools are chosen, and whether several at a time."""
    kept, parallel = config.get("tool_choice"), config.get("parallel_tool_calls")
    if kept is None and parallel is None:
        return
    given = body.get("tools")
    tools = [each for each in given if isinstance(each, dict)] if type(given) is list else []
    if kept is not None and "tool_choice" not in said:
        if tools and (choice := choice_in(format, kept, tools)) is not None:
            body["tool_choice"] = choice
        if parallel is None and one_at_a_time(kept):
            parallel = False
    if format != "messages" and parallel is not None:
        body.setdefault("parallel_tool_calls", parallel)
    elif tools and parallel is False:
        _choose_one_at_a_time(body)


def _choose_one_at_a_time(body: dict[str, Any]) -> None:
    """Messages say it inside the choice."""
    choice = body.get("tool_choice", {"type": "auto"})
    if isinstance(choice, dict) and choice.get("type") != "none":
        body["tool_choice"] = {"disable_parallel_tool_use": True, **choice}


def _put_prompt(format: str, body: dict[str, Any], prompt: str) -> int:
    """The preset's system prompt, where the request has none; how many messages came before."""
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


# Where a system prompt stands, and where else instructions may.
_PROMPTS: Final = {
    "chat": ("", "messages"),
    "responses": ("instructions", "input"),
    "messages": ("system", "messages"),
}
_SAID: Final[Mapping[str, Callable[[Mapping[str, Any]], set[str]]]] = {
    "chat": _chat_said,
    "responses": _responses_said,
    "messages": _messages_said,
}
_Lay = Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], None]
_LAID: Final[Mapping[str, _Lay]] = {
    "chat": _onto_chat,
    "responses": _onto_responses,
    "messages": _onto_messages,
}
