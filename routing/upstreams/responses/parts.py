"""Content parts of chat messages as parts of responses items (inference reference 1.3 and 5.2)."""

from collections.abc import Callable
from typing import Any, Final

_BREAKPOINT: Final = {"mode": "explicit"}


def is_marked(part: dict[str, Any]) -> bool:
    """Whether the prompt cache is to end at this part."""
    return bool(part.get("cache_control") or part.get("prompt_cache_breakpoint"))


def input_parts(content: list[dict[str, Any]], *, marks: bool) -> list[dict[str, Any]]:
    """The parts of anything but an answer; `marks` says whether cache breakpoints are told."""
    return [_PARTS[part["type"]](part, marks) for part in content]


def _text(part: dict[str, Any], marks: bool) -> dict[str, Any]:
    sent = {"type": "input_text", "text": part["text"]}
    if marks and is_marked(part):
        sent["prompt_cache_breakpoint"] = _BREAKPOINT
    return sent


def _image(part: dict[str, Any], marks: bool) -> dict[str, Any]:
    image = part["image_url"]
    # Some servers insist on the word, and this one means what its absence does.
    return {
        "type": "input_image",
        "image_url": image["url"],
        "detail": image.get("detail") or "auto",
    }


def _audio(part: dict[str, Any], marks: bool) -> dict[str, Any]:
    audio = part["input_audio"]
    return {
        "type": "input_audio",
        "input_audio": {"data": audio["data"], "format": audio["format"]},
    }


def _video(part: dict[str, Any], marks: bool) -> dict[str, Any]:
    return {"type": "input_video", "video_url": part["video_url"]["url"]}


def _file(part: dict[str, Any], marks: bool) -> dict[str, Any]:
    file = part["file"]
    sent: dict[str, Any] = {"type": "input_file"}
    data = file.get("file_data")
    if data is not None:
        sent["file_data" if data[:5].lower() == "data:" else "file_url"] = data
    for name in ("file_id", "filename"):
        if file.get(name) is not None:
            sent[name] = file[name]
    return sent


_PARTS: Final[dict[str, Callable[[dict[str, Any], bool], dict[str, Any]]]] = {
    "text": _text,
    "image_url": _image,
    "input_audio": _audio,
    "video_url": _video,
    "input_video": _video,
    "file": _file,
}
