"""Content parts as chat writes them."""

from collections.abc import Callable
from typing import Any, Final

_MARKS: Final = ("cache_control", "prompt_cache_breakpoint")


def content(given: str | list[dict[str, Any]] | None) -> str | list[dict[str, Any]]:
    """A message's content; one text without cache marks is a plain string, as most send it."""
    if not isinstance(given, list):
        return given or ""
    parts = [chat_part(part) for part in given if part["type"] != "refusal"]
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        text: str = parts[0]["text"]
        return text
    return parts or ""


def chat_part(part: dict[str, Any]) -> dict[str, Any]:
    marks = {mark: part[mark] for mark in _MARKS if part.get(mark) is not None}
    return {**_PARTS[part["type"]](part), **marks}


def _text(part: dict[str, Any]) -> dict[str, Any]:
    return {"type": "text", "text": part["text"]}


def _image(part: dict[str, Any]) -> dict[str, Any]:
    image = {"url": part["image_url"]}
    if part.get("detail") is not None:
        image["detail"] = part["detail"]
    return {"type": "image_url", "image_url": image}


def _file(part: dict[str, Any]) -> dict[str, Any]:
    data = part.get("file_data") or part.get("file_url")
    given = {
        "file_data": data,
        "file_id": part.get("file_id"),
        "filename": part.get("filename"),
    }
    return {
        "type": "file",
        "file": {name: value for name, value in given.items() if value is not None},
    }


def _audio(part: dict[str, Any]) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": part["input_audio"]}


def _video(part: dict[str, Any]) -> dict[str, Any]:
    return {"type": "video_url", "video_url": {"url": part["video_url"]}}


_PARTS: Final[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "input_text": _text,
    "output_text": _text,
    "refusal": lambda part: {"type": "text", "text": part["refusal"]},
    "input_image": _image,
    "input_file": _file,
    "input_audio": _audio,
    "input_video": _video,
}
