"""`response-healing`: repairs JSON that a model wrote carelessly.

Only for answers in one piece whose request asked for JSON. What cannot be repaired stays as it is.
Repairing may take hours for some texts, so it runs in a process of its own, with limits.
"""

import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from orjson import loads

from gateway.http.jsonio import DEPTH_MAX, JsonObject, is_deeper_than
from gateway.sandbox import host_users
from gateway.sandbox.subprocess_worker import SubprocessWorker, WorkerEnded, WorkerTimeout
from routing.formats.chat.request import ChatRequest
from routing.plugins.interface import Plugin

ID: Final = "response-healing"
_OF_JSON: Final = frozenset({"json_object", "json_schema"})
_FENCED: Final = re.compile(r"```[A-Za-z0-9_+-]*[ \t]*\r?\n(.*?)(?:\r?\n[ \t]*```|\Z)", re.DOTALL)
_BRACKET: Final = re.compile(r"[{\[]")
CHARS_MAX: Final = 65_536
FENCES_MAX: Final = 3


class ResponseHealing(Plugin):
    """With `repair`, answers are held to the schema of their request."""

    def enforces_schema(self) -> bool:
        return bool(self.settings.get("repair"))

    def rewrites(self, chat: ChatRequest) -> bool:
        return not chat.stream and chat.response_format_type in _OF_JSON

    def change_answer(self, chat: ChatRequest, message: JsonObject) -> JsonObject:
        text = message.get("content")
        if not self.rewrites(chat) or type(text) is not str or not text.strip():
            return message
        wants_object = chat.response_format_type == "json_object"
        if not wants_object:
            schema = chat.body["response_format"]["json_schema"].get("schema") or {}
            wants_object = schema.get("type") == "object"
        made = heal_json(text, wants_object=wants_object)
        if made is None:
            return message
        summary = "The answer was put in order as JSON"
        self.stages.append({"type": "response_healing", "name": ID, "summary": summary})
        return {**message, "content": made}


def heal_json(text: str, *, wants_object: bool) -> str | None:
    """The repaired JSON text; None if the text is valid already or cannot be repaired."""
    if len(text) > CHARS_MAX or _is_wanted(_parse_strict(text), wants_object):
        return None
    parts = list(dict.fromkeys(_json_candidates(text)))
    for part in parts:
        if _is_wanted(_parse_strict(part), wants_object):
            return part
    return mend_json(parts, wants_object=wants_object) if parts else None


def _json_candidates(text: str) -> Iterator[str]:
    """The parts of the text that may be JSON: the first fences, then from the first bracket on."""
    for fenced in islice(_FENCED.finditer(text), FENCES_MAX):
        yield fenced.group(1).strip()
    first = _BRACKET.search(text)
    if first is not None:
        closing = "}" if first.group() == "{" else "]"
        last = text.rfind(closing)
        if last > first.start():
            yield text[first.start() : last + 1]
        yield text[first.start() :].strip()


def _parse_strict(text: str) -> Any:
    """The value of JSON text; None where it is none."""
    try:
        return loads(text)
    except ValueError:
        return None


def _is_wanted(value: object, wants_object: bool) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and not wants_object)


AT_ONCE: Final = 2
CPU_S: Final = 1
# Waiting for a free process included; the answer is settled only afterwards.
TIME_S: Final = 5.0
_MEMORY_BYTES: Final = 268_435_456
_MADE_BYTES_MAX: Final = 1_048_576
_MENDER: Final = str(Path(__file__).with_name("json_mender.py").resolve())
_free = threading.BoundedSemaphore(AT_ONCE)


def mend_json(texts: Sequence[str], *, wants_object: bool) -> str | None:
    """The repaired JSON of the first text that can be repaired. None if there is none, or if it
    takes too much time, processor time or memory."""
    question = {"texts": texts, "wants_object": wants_object}
    return _ask_mender(question, "json_repair") or None


def find_schema_problem(text: str, schema: JsonObject) -> str | None:
    """What is wrong with an answer that is to fit a JSON schema, empty where it does. None where
    that cannot be found out: the schema is none, the answer nests past 128 levels, or looking takes
    too much time or memory."""
    if len(text) > CHARS_MAX:
        return None
    value = _parse_strict(text)
    if value is None and text.strip() != "null":
        return "it is not JSON"
    if is_deeper_than(DEPTH_MAX, text.encode()):
        return None
    return _ask_mender({"value": value, "schema": schema}, "jsonschema.validators")


def _ask_mender(question: JsonObject, package: str) -> str | None:
    """Its word, by the help of a package; None where it has none, or not within its limits."""
    until = time.monotonic() + TIME_S
    if not _free.acquire(timeout=TIME_S):
        return None
    try:
        asked = json.dumps(question).encode()
        limits = {"seconds": TIME_S, "cpu_seconds": CPU_S, "memory_bytes": _MEMORY_BYTES}
        user = host_users.lease()
        command = host_users.script_command([_MENDER, json.dumps(limits)], (package,), user)
        mender = SubprocessWorker(command, {"LANG": "C.UTF-8"}, user)
        try:
            mender.send(asked, until)
            return mender.receive(_MADE_BYTES_MAX, until).decode()
        finally:
            mender.close()
    except (OSError, WorkerEnded, WorkerTimeout, ValueError, RecursionError):
        return None
    finally:
        _free.release()
