"""Every text of a request, wherever it stands: looked at, or changed in place of the old one.

Walks what is prompt in the chat body and in the caller's own body beside it. That is messages,
systems, instructions, items, parts, results and calls of tools, and files that are plain text. What
is no text (ids, signatures, media) is left alone. A key that is not known is text: providers may
read it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import is_
from typing import Any, Final, TypeAlias

import orjson

from gateway.http.jsonio import JsonObject, dumps
from routing.formats.chat.facts import read_prompt
from routing.formats.chat.request import ChatRequest
from routing.formats.decisions import build_messages
from routing.formats.embeddings import read_input
from routing.guarding.long_texts import decode_base64, encode_base64

# A text, and whether a user says it -> the text that takes its place.
Change: TypeAlias = Callable[[str, bool], str]

_PROMPT_FIELDS: Final = frozenset({"system", "instructions", "messages", "input", "prediction"})
_BESIDE_MESSAGES: Final = _PROMPT_FIELDS - {"messages"}
_NO_TEXT: Final = frozenset(
    {
        *("type", "role", "id", "call_id", "tool_call_id", "tool_use_id", "index", "status"),
        *("name", "model", "phase", "signature", "encrypted_content", "format", "media_type"),
        *("cache_control", "prompt_cache_breakpoint", "url", "image_url", "video_url"),
        *("input_audio", "file_url", "file_id", "logprobs", "detail"),
    }
)
# Of a tool call: an object, or the same as JSON text.
_CALLS: Final = frozenset({"arguments", "input"})
_APART: Final = _CALLS | {"name", "data", "file_data"}
_SPEAKERS: Final = frozenset({"user", "assistant", "system", "developer"})
_RESULTS: Final = frozenset({"tool_result"})
_TEXT_FILE: Final = "data:text/"
_BASE64: Final = ";base64,"
# A longer one is read as text: parsing it would take a while.
_JSON_CHARS_MAX: Final = 65_536
# Media types and their parameters; whatever has its mark later is no data URL of a text.
_HEAD_CHARS_MAX: Final = 1 << 20


def change_texts(chat: ChatRequest, change: Change) -> ChatRequest:
    """The request with its texts changed; the very same one where no text is."""
    if chat.decides:
        return _change_decisions(chat, change)
    body = _body(chat.body, change)
    if chat.format == "embeddings":
        if body is chat.body:
            return chat
        inputs = read_input(body)
        original = chat.original and {**chat.original, "input": inputs}
        changed = _measure_anew(chat, body, original)
        return replace(changed, input_chars=tuple(map(len, inputs)))
    original = None if chat.original is None else _body(chat.original, change)
    if body is chat.body and original is chat.original:
        return chat
    return _measure_anew(chat, body, original)


def plain_texts(chat: ChatRequest) -> list[str] | None:
    """All its texts, where it has one body of messages that are each a role and a text."""
    body = chat.body
    if chat.original is not None or not _BESIDE_MESSAGES.isdisjoint(body):
        return None
    texts = []
    for message in body["messages"]:
        text = message.get("content")
        if type(text) is not str or len(message) != 2 or "role" not in message:
            return None
        texts.append(text)
    return texts


def _measure_anew(chat: ChatRequest, body: JsonObject, original: JsonObject | None) -> ChatRequest:
    before, after = read_prompt(chat.body["messages"]), read_prompt(body["messages"])
    return replace(
        chat,
        body=body,
        original=original,
        text_bytes=max(0, chat.text_bytes + after.text_bytes - before.text_bytes),
        prompt_text_chars=max(0, chat.prompt_text_chars + after.text_chars - before.text_chars),
    )


def _body(body: JsonObject, change: Change) -> JsonObject:
    new: JsonObject = {}
    for name in _PROMPT_FIELDS & body.keys():
        old = body[name]
        if type(old) is str:
            changed: Any = change(old, name == "input")
        elif name in ("messages", "input") and type(old) is list:
            changed = _each(old, lambda item: _message(item, change))
        else:
            changed = _value(old, change, False)
        if changed is not old:
            new[name] = changed
    return {**body, **new} if new else body


def _message(message: object, change: Change) -> Any:
    if type(message) is not dict:
        return _value(message, change, False)
    by_user = message.get("role") == "user"
    content = message.get("content")
    if type(content) is not str or len(message) > 2 or "role" not in message:
        return _value(message, change, by_user)
    # Nearly every message is a text and who says it.
    changed = change(content, by_user)
    return message if changed is content else {**message, "content": changed}


def _value(value: Any, change: Change, by_user: bool) -> Any:
    kind = type(value)
    if kind is str:
        return change(value, by_user)
    if kind is list:
        return _each(value, lambda item: _value(item, change, by_user))
    if kind is not dict:
        return value
    if value.get("type") in _RESULTS:
        by_user = False
    new: JsonObject = {}
    for key, old in value.items():
        # Nearly every key is one of these or has a text.
        if key in _NO_TEXT and key != "name":
            continue
        changed = _entry(key, old, value, change, by_user)
        if changed is not old:
            new[key] = changed
    return {**value, **new} if new else value


def _entry(key: str, old: object, owner: Mapping[str, Any], change: Change, by_user: bool) -> Any:
    if key not in _APART:
        return change(old, by_user) if type(old) is str else _value(old, change, by_user)
    if key in _CALLS:
        return _call(old, change, by_user)
    # Each speaker has a name of their own; a tool's is looked up by it.
    if key == "name" and owner.get("role") not in _SPEAKERS:
        return old
    if key == "data" and owner.get("type") != "text":
        return old
    if key == "file_data" and type(old) is str:
        return _file(old, change, by_user)
    return _value(old, change, by_user)


def _each(values: list[Any], make: Callable[[Any], Any]) -> list[Any]:
    """The list with each value made anew; the very same one where none is another."""
    changed = list(map(make, values))
    return values if all(map(is_, changed, values)) else changed


# --- Decisions ------------------------------------------------------------------------------------


def _change_decisions(chat: ChatRequest, change: Change) -> ChatRequest:
    """State and questions, the labels of choices among them; what the caller calls its questions is
    not shown to anybody."""
    original = chat.original
    assert original is not None
    state, questions = _free(original["state"], change, True), original["questions"]
    asked = {name: _question(each, change) for name, each in questions.items()}
    if state is original["state"] and all(asked[name] is questions[name] for name in asked):
        return chat
    new = {**original, "state": state, "questions": asked}
    return _measure_anew(chat, {**chat.body, "messages": build_messages(new)}, new)


def _question(question: JsonObject, change: Change) -> JsonObject:
    new = {"instructions": _free(question["instructions"], change, True)}
    if (criteria := question.get("criteria")) is not None:
        choice = question["type"] == "choice"
        if choice:
            new["criteria"] = _change_labels(criteria, change)
        elif type(criteria) is list:
            new["criteria"] = _free(criteria, change, True)
        else:
            made = {case: _free(criterion, change, True) for case, criterion in criteria.items()}
            is_same = all(made[case] is criteria[case] for case in made)
            new["criteria"] = criteria if is_same else made
    same = all(value is question[name] for name, value in new.items())
    return question if same else {**question, **new}


def _change_labels(criteria: JsonObject, change: Change) -> JsonObject:
    """Labels that a change makes alike get a number: each has an answer."""
    new: JsonObject = {}
    for number, (label, criterion) in enumerate(criteria.items(), 1):
        changed = change(label, True)
        while changed in new:
            changed = f"{changed} ({number})"
        new[changed] = _free(criterion, change, True)
    pairs = zip(new.items(), criteria.items(), strict=True)
    same = all(mine[0] == theirs[0] and mine[1] is theirs[1] for mine, theirs in pairs)
    return criteria if same else new


# --- Calls of tools -------------------------------------------------------------------------------


def _call(value: object, change: Change, by_user: bool) -> Any:
    """What a tool is called with; JSON text stays JSON."""
    if type(value) is not str:
        return _free(value, change, by_user)
    if len(value) > _JSON_CHARS_MAX:
        return change(value, by_user)
    try:
        given = orjson.loads(value)
    except ValueError:
        return change(value, by_user)
    changed = _free(given, change, by_user)
    return value if changed is given else dumps(changed).decode()


def _free(value: object, change: Change, by_user: bool) -> Any:
    """Data of any form: every text, the keys, and numbers as they are written."""
    if type(value) is str:
        return change(value, by_user)
    if type(value) is int:
        written = str(value)
        changed = change(written, by_user)
        return value if changed == written else changed
    if type(value) is list:
        return _each(value, lambda item: _free(item, change, by_user))
    if type(value) is not dict:
        return value
    new = {change(key, by_user): _free(old, change, by_user) for key, old in value.items()}
    same = all(
        mine is theirs and new[mine] is value[theirs]
        for mine, theirs in zip(new, value, strict=False)
    )
    return value if same and len(new) == len(value) else new


# --- Files ----------------------------------------------------------------------------------------


def _file(value: str, change: Change, by_user: bool) -> str:
    """A file as a data URL: plain text is opened and closed again."""
    at = value.find(_BASE64, 0, _HEAD_CHARS_MAX)
    if not value.startswith(_TEXT_FILE) or at < 0:
        return value
    start = at + len(_BASE64)
    try:
        text = decode_base64(value, start)
    except ValueError:
        return value
    changed = change(text, by_user)
    return value if changed is text else encode_base64(value[:start], changed)
