"""Answers to texts that mean the same: which part of a request may differ, and the nearest of the
kept ones of the same group.

A group is everything of a request but its last user text. Its index, the vectors of its texts with
the names of their answers, stands in a place as answers do, sealed as they are.
"""

import math
import struct
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from operator import mul
from typing import Any, Final, NamedTuple

from gateway.eventloop import yield_control
from gateway.http.jsonio import JsonObject
from gateway.sealing import UnsealError, seal_bytes, unseal_bytes
from routing.response_cache.cached_answers import Entry, find, pack_entry, put, unpack_entry

_PURPOSE: Final = "near-answers"
# Of a group; vectors that are long leave room for fewer.
ENTRIES_MAX: Final = 256
_INDEX_BYTES_MAX: Final = 1_048_576
DIMENSIONS_MAX: Final = 16_384
# To compare this many takes 5 ms.
_NUMBERS_IN_A_ROW: Final = 49_152
# When the answer runs out, and the hash of its name.
_HEAD: Final = struct.Struct("<d32s")
_FLOAT_BYTES: Final = 4
_TEXTS: Final = ("text", "input_text")


class NearAnswer(NamedTuple):
    """The nearest answer of a group, None where it is gone or there is none; how near it is."""

    entry: Entry | None
    similarity: float


NOT_NEAR: Final = NearAnswer(None, -1.0)


def split_last_text(body: Mapping[str, Any]) -> tuple[str, JsonObject] | None:
    """The text of the last message, and the body without it; None where a user does not say one
    text there. It reads bodies of chat, messages and responses."""
    field = "messages" if "messages" in body else "input"
    items: Any = body.get(field)
    if isinstance(items, str):
        return items, {**body, field: ""}
    last: Any = items[-1] if isinstance(items, list) and items else None
    if not isinstance(last, dict) or last.get("role") != "user":
        return None
    text: Any = last.get("content")
    rest: Any = ""
    if isinstance(text, list) and len(text) == 1 and text[0].get("type") in _TEXTS:
        [part] = text
        text, rest = part["text"], [{**part, "text": ""}]
    if not isinstance(text, str):
        return None
    return text, {**body, field: [*items[:-1], {**last, "content": rest}]}


def normalize(vector: Sequence[float]) -> tuple[float, ...] | None:
    """A vector of the length 1; None for one that points nowhere, or takes long to compare."""
    if len(vector) > DIMENSIONS_MAX:
        return None
    length = math.sqrt(sum(map(mul, vector, vector)))
    return tuple(number / length for number in vector) if 0 < length < math.inf else None


def find_near_answer(group: str, vector: Sequence[float], threshold: float) -> NearAnswer:
    """The answer whose text is nearest to this one's `normalize`d vector, if near enough."""
    now, best, best_name = time.time(), -1.0, b""
    in_a_row = max(1, _NUMBERS_IN_A_ROW // len(vector))
    for place, (until, name, packed) in enumerate(_read_index(group, len(vector))):
        if place % in_a_row == in_a_row - 1:
            yield_control()
        similarity = sum(map(mul, vector, struct.unpack(f"<{len(vector)}f", packed)))
        if similarity > best and until > now:
            best, best_name = similarity, name
    if best < threshold:
        return NearAnswer(None, best)
    stored = find(best_name.hex())
    entry = unpack_entry(stored, best_name.hex()) if stored else None
    return NearAnswer(entry, best)


def store_near_answer(group: str, vector: Sequence[float], entry: Entry) -> None:
    """Keep an answer for texts near this vector, in place of the one for the very same vector. Of
    two that are kept at once one may be lost."""
    name = sha256(f"{group} {entry.generation_id}".encode()).digest()
    put(name.hex(), pack_entry(entry, name.hex()), ttl_s=entry.ttl_s)
    now = time.time()
    own = struct.pack(f"<{len(vector)}f", *vector)
    kept = [each for each in _read_index(group, len(vector)) if each[0] > now and each[2] != own]
    kept.append((now + entry.ttl_s, name, own))
    size = _HEAD.size + len(vector) * _FLOAT_BYTES
    kept = kept[-min(ENTRIES_MAX, max(1, _INDEX_BYTES_MAX // size)) :]
    index = b"".join(_HEAD.pack(until, name) + packed for until, name, packed in kept)
    ttl_s = math.ceil(max(until for until, _, _ in kept) - now)
    put(group, seal_bytes(index, purpose=_PURPOSE, row=group), ttl_s=ttl_s)


def _read_index(group: str, dimensions: int) -> list[tuple[float, bytes, bytes]]:
    """Of each answer when it runs out, its name and its vector; none of another length."""
    stored = find(group)
    try:
        index = b"" if stored is None else unseal_bytes(stored, purpose=_PURPOSE, row=group)
    except UnsealError:
        # Another value has taken the place.
        return []
    size = _HEAD.size + dimensions * _FLOAT_BYTES
    if len(index) % size:
        return []
    return [
        (*_HEAD.unpack_from(index, start), index[start + _HEAD.size : start + size])
        for start in range(0, len(index), size)
    ]
