"""Whether an answer still holds all of a recording in the same format."""

import json
from collections.abc import Iterator
from typing import Any

from tests.nightly.wire_readers import stream_events

# The gateway's own words stand here instead: of an answer, and of an event.
OWN = {"id", "model", "created", "created_at", "completed_at", "object"}
ANSWERS = ("", "message_start/message")
# Texts that a stream sends in fragments, however many.
GROWING = {"content", "reasoning", "reasoning_content", "refusal", "arguments", "transcript"}
GROWING |= {"text", "summary", "data"}
LISTS = {"tool_calls", "annotations", "images", "reasoning_details", "executed_tools", "content"}


def losses(kind: str, stream: bool, recorded: str, got: str) -> Iterator[tuple[str, Any, Any]]:
    """(path, what was recorded, what came) of each value that is gone or other."""
    if not stream:
        yield from _missing(json.loads(recorded), json.loads(got), "")
        return
    ours, theirs = stream_events(got), stream_events(recorded)
    if kind == "openai":
        yield from _missing(_merge_chunks(theirs), _merge_chunks(ours), "")
    else:
        yield from _missing_events(theirs, ours)


def _missing_events(
    recorded: list[dict[str, Any]], got: list[dict[str, Any]]
) -> Iterator[tuple[str, Any, Any]]:
    """Events come in their order; others may stand between them."""
    rest = iter(got)
    for event in recorded:
        name = event.get("type")
        if name == "ping":
            continue
        match = next((each for each in rest if each.get("type") == name), None)
        if match is None:
            yield f"{name}", event, None
            return
        yield from _missing(event, match, f"{name}")


def _missing(recorded: Any, got: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Who said null, nothing or an empty list said nothing, and none of a count is no count."""
    if recorded in (None, [], {}, "") or (recorded == 0 and got is None):
        return
    if isinstance(recorded, dict) and isinstance(got, dict):
        for key, value in recorded.items():
            if not _is_own(path, key):
                yield from _missing(value, got.get(key), f"{path}/{key}")
    elif isinstance(recorded, list) and isinstance(got, list):
        if len(recorded) > len(got):
            yield f"{path}/#", len(recorded), len(got)
        for one, other in zip(recorded, got, strict=False):
            yield from _missing(one, other, f"{path}/*")
    elif recorded != got:
        yield path, recorded, got


def _is_own(path: str, key: str) -> bool:
    if key == "sequence_number":
        return "/" not in path
    return key in OWN and (path in ANSWERS or path.endswith("/response"))


def _merge_chunks(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """A stream of chat chunks as one, as clients add them up."""
    whole: dict[str, Any] = {}
    for chunk in chunks:
        choices = chunk.get("choices") or []
        _grow(whole, {key: value for key, value in chunk.items() if key != "choices"})
        for choice in choices:
            owner = whole.setdefault("choices", {}).setdefault(str(choice.get("index", 0)), {})
            _grow(owner, choice)
    return whole


def _grow(owner: dict[str, Any], piece: dict[str, Any]) -> None:
    for key, value in piece.items():
        old = owner.get(key)
        if value is None or value == "":
            owner.setdefault(key, value)
        elif isinstance(value, dict):
            if not isinstance(old, dict):
                owner[key] = old = {}
            _grow(old, value)
        elif isinstance(value, list):
            # What stands beside the choices is said again with every chunk.
            owner[key] = _grown_list(key, old or [], value) if key in LISTS else value
        elif key in GROWING and isinstance(old, str):
            owner[key] = old + value
        else:
            owner[key] = value


def _grown_list(key: str, old: list[Any], pieces: list[Any]) -> list[Any]:
    for piece in pieces:
        place = piece.get("index") if isinstance(piece, dict) else None
        known = next((each for each in old if place is not None and each["index"] == place), None)
        if known is not None and key == "tool_calls":
            _grow(known, piece)
        elif isinstance(piece, dict):
            fresh: dict[str, Any] = {}
            _grow(fresh, piece)
            old.append(fresh)
        else:
            old.append(piece)
    return old
