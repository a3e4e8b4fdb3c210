"""Usage of the responses API in the chat format's names; both count cached tokens in the prompt."""

from typing import Any, Final

_NAMES: Final = (
    ("input_tokens", "prompt_tokens"),
    ("output_tokens", "completion_tokens"),
    ("total_tokens", "total_tokens"),
)
_DETAILS: Final = (
    (
        "input_tokens_details",
        "prompt_tokens_details",
        ("cached_tokens", "cache_write_tokens", "audio_tokens", "video_tokens"),
    ),
    (
        "output_tokens_details",
        "completion_tokens_details",
        (
            *("reasoning_tokens", "audio_tokens", "image_tokens"),
            *("accepted_prediction_tokens", "rejected_prediction_tokens"),
        ),
    ),
)


def chat_usage(usage: Any, *, searches: int = 0) -> dict[str, Any] | None:
    """None where there is none. The counts themselves are not judged here. `searches` are the web
    searches that the upstream made, which its usage does not count."""
    if not isinstance(usage, dict):
        return None
    told = {ours: usage[theirs] for theirs, ours in _NAMES if usage.get(theirs) is not None}
    for theirs, ours, names in _DETAILS:
        details = usage.get(theirs)
        if isinstance(details, dict):
            told[ours] = {name: details[name] for name in names if details.get(name) is not None}
    if searches:
        told["server_tool_use_details"] = {"web_search_requests": searches}
    return told
