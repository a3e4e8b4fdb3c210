"""Every text of a request is looked at, in every format."""

import base64
import json
from typing import Any

import pytest

from routing.formats.chat.request import parse_chat
from routing.formats.messages.request import parse_messages
from routing.formats.responses.request import parse_responses
from tests.routing.guarding.filtering import MAIL, chat_of, placed, run, user

CHAT_PLACES: dict[str, Any] = {
    "system": [{"role": "system", "content": MAIL}, user("hi")],
    "developer part": [
        {"role": "developer", "content": [{"type": "text", "text": MAIL}]},
        user("hi"),
    ],
    "user": [user(MAIL)],
    "name": [{"role": "user", "content": "hi", "name": MAIL}],
    "one part of many": [
        user(
            [
                {"type": "text", "text": "hi"},
                {"type": "image_url", "image_url": {"url": "https://x.test/i.png"}},
                {"type": "text", "text": MAIL},
            ]
        )
    ],
    "assistant": [user("hi"), {"role": "assistant", "content": MAIL}, user("go")],
    "reasoning": [
        user("hi"),
        {"role": "assistant", "content": "x", "reasoning": MAIL},
        user("go"),
    ],
    "call": [
        user("hi"),
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "f", "arguments": json.dumps({"to": [MAIL]})},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ],
    "result": [
        user("hi"),
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": MAIL}]},
    ],
    "text file": [
        user(
            [
                {
                    "type": "file",
                    "file": {
                        "filename": "a.txt",
                        "file_data": "data:text/plain;base64,"
                        + base64.b64encode(MAIL.encode()).decode(),
                    },
                }
            ]
        )
    ],
}


@pytest.mark.parametrize("place", CHAT_PLACES)
def test_every_place_of_a_chat_request(place: str) -> None:
    chat = chat_of(*CHAT_PLACES[place])

    assert run(chat, placed("block", "email")).refusal is not None
    done = run(chat, placed("redact", "email"))

    told = json.dumps(done.chat.body)
    assert MAIL not in told
    assert base64.b64encode(MAIL.encode()).decode() not in told
    assert len(done.stages) == 1
    parse_chat(done.chat.body, session_header=None)


def message(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {"to": MAIL}}
MESSAGES_PLACES: dict[str, Any] = {
    "system": {"system": [{"type": "text", "text": MAIL}], "messages": [user("hi")]},
    "user": {"messages": [user(MAIL)]},
    "document": {
        "messages": [
            message(
                "user",
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": MAIL},
                },
            )
        ]
    },
    "use": {
        "messages": [
            user("hi"),
            message("assistant", USE),
            message("user", {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}),
        ]
    },
    "result": {
        "messages": [
            user("hi"),
            message("assistant", {**USE, "input": {}}),
            message("user", {"type": "tool_result", "tool_use_id": "t1", "content": MAIL}),
        ]
    },
}


@pytest.mark.parametrize("place", MESSAGES_PLACES)
def test_every_place_of_a_messages_request(place: str) -> None:
    body = {"model": "m", "max_tokens": 5, **MESSAGES_PLACES[place]}
    chat = parse_messages(body, session_header=None)

    done = run(chat, placed("redact", "email"))

    encoded = base64.b64encode(MAIL.encode()).decode()
    for side in (done.chat.body, done.chat.original):
        told = json.dumps(side)
        assert MAIL not in told
        assert encoded not in told
    assert "[EMAIL]" in json.dumps(done.chat.original)
    parse_messages(done.chat.original or {}, session_header=None)


RESPONSES_PLACES: dict[str, Any] = {
    "input": MAIL,
    "message": [{"role": "user", "content": [{"type": "input_text", "text": MAIL}]}],
    "answer": [
        {"role": "user", "content": "hi"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": MAIL}],
        },
    ],
    "call": [
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": f'{{"to":"{MAIL}"}}'},
        {"type": "function_call_output", "call_id": "c", "output": "ok"},
    ],
    "output": [
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": MAIL},
    ],
    "replayed": [
        {"role": "user", "content": "hi"},
        {"type": "web_search_call", "id": "w", "action": {"query": MAIL}},
    ],
}


@pytest.mark.parametrize("place", RESPONSES_PLACES)
def test_every_place_of_a_responses_request(place: str) -> None:
    chat = parse_responses({"model": "m", "input": RESPONSES_PLACES[place]}, session_header=None)

    done = run(chat, placed("redact", "email"))

    for side in (done.chat.body, done.chat.original):
        assert MAIL not in json.dumps(side)
    assert "[EMAIL]" in json.dumps(done.chat.original)
    parse_responses(done.chat.original or {}, session_header=None)


def test_instructions_are_text_too() -> None:
    body = {"model": "m", "instructions": MAIL, "input": "hi"}

    done = run(parse_responses(body, session_header=None), placed("redact", "email"))

    assert (done.chat.original or {})["instructions"] == "[EMAIL]"
    assert done.chat.body["messages"][0]["content"] == "[EMAIL]"


def test_user_only_leaves_the_others_alone() -> None:
    only = placed("block", "email", user_only=True)
    for place in ("user", "one part of many"):
        assert run(chat_of(*CHAT_PLACES[place]), only).refusal is not None
    for place in ("system", "assistant", "call", "result"):
        assert run(chat_of(*CHAT_PLACES[place]), only).refusal is None
    body = {"model": "m", "max_tokens": 5, **MESSAGES_PLACES["result"]}
    assert run(parse_messages(body, session_header=None), only).refusal is None
    body["messages"] = [user(MAIL)]
    assert run(parse_messages(body, session_header=None), only).refusal is not None
    both = (only, placed("flag", "email"))
    assert run(chat_of(*CHAT_PLACES["system"]), *both).stages[0]["data"]["action"] == "flagged"


def test_ids_names_and_media_are_no_text() -> None:
    chat = chat_of(
        user("hi"),
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_zz",
                    "type": "function",
                    "function": {"name": "zz_tool", "arguments": '{"zz": 1, "n": 2}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_zz", "content": "ok"},
        user([{"type": "image_url", "image_url": {"url": "https://zz.test/zz.png"}}]),
    )

    done = run(chat, placed("redact", pattern="zz"), placed("redact", pattern="^2$"))

    call = done.chat.body["messages"][1]["tool_calls"][0]
    assert call["id"] == "call_zz"
    assert call["function"] == {
        "name": "zz_tool",
        "arguments": '{"[REDACTED]":1,"n":"[REDACTED]"}',
    }
    assert done.chat.body["messages"][3] == chat.body["messages"][3]


def test_what_a_redaction_saves_is_not_estimated() -> None:
    chat = chat_of(user(f"{MAIL} " * 100))

    done = run(chat, placed("redact", "email"))

    assert done.chat.text_bytes == len("[EMAIL] ") * 100
    assert done.chat.prompt_text_chars == done.chat.text_bytes
    assert chat.text_bytes == (len(MAIL) + 1) * 100
