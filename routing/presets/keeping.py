"""What a preset keeps of a request body: `config` and the system prompt (management reference
4.5)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from routing.formats.chat.request import convert_offer
from routing.formats.messages.read import read_reasoning
from routing.presets.checking import checked_body
from routing.presets.keys import SAME, WHOLE

_INSTRUCTION_ROLES: Final = frozenset({"system", "developer"})
_BETWEEN: Final = "\n\n"


class Content(NamedTuple):
    """What a version is made of."""

    config: dict[str, Any]
    system_prompt: str


def content_of(format: str, body: Mapping[str, Any], *, models_max: int) -> Content:
    """The content of a body in "chat", "responses" or "messages". Raises `ChatInvalid`."""
    kept = checked_body(format, body, models_max=models_max)
    config = {name: kept[name] for name in SAME[format] if kept.get(name) is not None}
    config |= _RENAMED[format](kept)
    if not config.get("models", True):
        del config["models"]
    config |= {name: int(config[name]) for name in WHOLE.intersection(config)}
    if config.get("reasoning", {}).get("max_tokens") is not None:
        budget = int(config["reasoning"]["max_tokens"])
        config["reasoning"] = {**config["reasoning"], "max_tokens": budget}
    return Content(config, _SYSTEM_PROMPTS[format](body))


def _of_chat(kept: dict[str, Any]) -> dict[str, Any]:
    effort, renamed = kept.get("reasoning_effort"), convert_offer(kept)
    if effort and "reasoning" not in kept:
        renamed["reasoning"] = {"effort": effort}
    return renamed


def _of_responses(kept: dict[str, Any]) -> dict[str, Any]:
    text = kept.get("text", {})
    renamed = {
        "max_tokens": kept.get("max_output_tokens"),
        "response_format": text.get("format"),
        "verbosity": text.get("verbosity"),
    }
    return {name: value for name, value in renamed.items() if value is not None}


def _of_messages(kept: dict[str, Any]) -> dict[str, Any]:
    output = kept.get("output_config", {})
    models = [entry["model"] for entry in kept.get("fallbacks") or ()]
    renamed: dict[str, Any] = {
        "stop": kept.get("stop_sequences"),
        "response_format": output.get("format"),
        "reasoning": read_reasoning(kept.get("thinking"), output.get("effort")) or None,
        "models": models or None,
    }
    return {name: value for name, value in renamed.items() if value is not None}


_RENAMED: Final[Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "chat": _of_chat,
    "responses": _of_responses,
    "messages": _of_messages,
}


def _chat_prompt(body: Mapping[str, Any]) -> str:
    """The texts of its instructions. The conversation itself is not kept, and not checked."""
    messages = body.get("messages")
    said = [
        message.get("content")
        for message in (messages if isinstance(messages, list) else ())
        if isinstance(message, dict) and is_instruction(message)
    ]
    return _BETWEEN.join(text for content in said for text in _texts(content))


def is_instruction(message: Mapping[str, Any]) -> bool:
    """Whether a message tells the model how to behave."""
    role = message.get("role")
    return type(role) is str and role in _INSTRUCTION_ROLES


def _responses_prompt(body: Mapping[str, Any]) -> str:
    return body.get("instructions") or ""


def _messages_prompt(body: Mapping[str, Any]) -> str:
    return _BETWEEN.join(_texts(body.get("system")))


def _texts(content: Any) -> Iterator[str]:
    """A text, or those of a list of parts; anything else says nothing."""
    for part in content if isinstance(content, list) else [content]:
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str) and text:
            yield text


_SYSTEM_PROMPTS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "chat": _chat_prompt,
    "responses": _responses_prompt,
    "messages": _messages_prompt,
}
