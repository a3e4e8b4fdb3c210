"""The rules of a responses body, written down apart from the code that makes one."""

from collections.abc import Callable
from typing import Any

_AFTER_REASONING = ("reasoning", "function_call")
_DETAILS = ("auto", "low", "high", "original")


def check_body(body: dict[str, Any]) -> None:
    """Raises `AssertionError` for what such an upstream would refuse."""
    assert body["store"] is False
    assert isinstance(body["model"], str)
    assert isinstance(body.get("instructions", ""), str)
    assert body["input"], "nothing to answer"
    for item in body["input"]:
        _ITEMS[item["type"]](item)
    for item, after in zip(body["input"], [*body["input"][1:], {}], strict=True):
        led_to = after.get("role") == "assistant" or after.get("type") in _AFTER_REASONING
        assert led_to or item["type"] != "reasoning"


def _keys(value: dict[str, Any], required: str, optional: str = "") -> None:
    assert set(required.split()) <= set(value), value
    assert set(value) <= {*required.split(), *optional.split()}, value


def _texts(value: dict[str, Any], *names: str) -> None:
    assert all(isinstance(value[name], str) for name in names if name in value), value


def _message(item: dict[str, Any]) -> None:
    _keys(item, "type role content")
    if item["role"] == "assistant" and item["content"] != "":
        assert isinstance(item["content"], list)
        assert item["content"]
        for part in item["content"]:
            _answered(part)
        return
    assert item["role"] in ("user", "system", "developer", "assistant")
    _content(item["content"])
    if item["role"] != "user" and isinstance(item["content"], list):
        assert {part["type"] for part in item["content"]} == {"input_text"}


def _content(content: Any) -> None:
    if isinstance(content, str):
        return
    assert isinstance(content, list)
    assert content
    for part in content:
        _PARTS[part["type"]](part)


def _answered(part: dict[str, Any]) -> None:
    if part["type"] == "refusal":
        _keys(part, "type refusal")
        _texts(part, "refusal")
        return
    _keys(part, "type text annotations")
    assert part["type"] == "output_text"
    _texts(part, "text")
    for annotation in part["annotations"]:
        _keys(annotation, "type url title start_index end_index")


def _input_text(part: dict[str, Any]) -> None:
    _keys(part, "type text", "prompt_cache_breakpoint")
    _texts(part, "text")
    assert part.get("prompt_cache_breakpoint", {"mode": "explicit"}) == {"mode": "explicit"}


def _input_image(part: dict[str, Any]) -> None:
    _keys(part, "type image_url detail")
    _texts(part, "image_url")
    assert part["detail"] in _DETAILS


def _input_audio(part: dict[str, Any]) -> None:
    _keys(part, "type input_audio")
    _keys(part["input_audio"], "data format")


def _input_video(part: dict[str, Any]) -> None:
    _keys(part, "type video_url")
    _texts(part, "video_url")


def _input_file(part: dict[str, Any]) -> None:
    _keys(part, "type", "file_data file_url file_id filename")
    _texts(part, "file_data", "file_url", "file_id", "filename")
    assert {"file_data", "file_url", "file_id"} & set(part)
    assert part.get("file_data", "data:").startswith("data:")
    assert part.get("file_url", "http").startswith("http")


def _reasoning(item: dict[str, Any]) -> None:
    _keys(item, "type summary", "id content encrypted_content")
    _texts(item, "id", "encrypted_content")
    # Nothing is stored: what is not there itself would be looked up, and not found.
    assert "content" in item or "encrypted_content" in item
    for part in item["summary"]:
        assert part["type"] == "summary_text"
        assert part["text"]
    for part in item.get("content", ()):
        assert part["type"] == "reasoning_text"
        assert part["text"]


def _function_call(item: dict[str, Any]) -> None:
    _keys(item, "type call_id name arguments")
    _texts(item, "call_id", "name", "arguments")
    assert len(item["call_id"]) <= 64


def _function_call_output(item: dict[str, Any]) -> None:
    _keys(item, "type call_id output")
    _texts(item, "call_id")
    _content(item["output"])


_PARTS: dict[str, Callable[[dict[str, Any]], None]] = {
    "input_text": _input_text,
    "input_image": _input_image,
    "input_audio": _input_audio,
    "input_video": _input_video,
    "input_file": _input_file,
}
_ITEMS: dict[str, Callable[[dict[str, Any]], None]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "function_call_output": _function_call_output,
}
