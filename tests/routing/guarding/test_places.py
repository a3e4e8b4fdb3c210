"""Every text of a request is looked at, in every format; and what decisions are asked by stays."""

import base64
import json
from typing import Any

import pytest

from routing.formats.chat.request import ChatRequest, parse_chat
from routing.formats.decisions import parse_decisions, read_questions
from routing.formats.messages.read import parse_messages
from routing.formats.responses.read import parse_responses
from routing.guarding.texts import change_texts
from tests.routing.guarding.filtering import MAIL, chat_of, place_filter, run, user

ENCODED = base64.b64encode(MAIL.encode()).decode()
BLOCK, REDACT = place_filter("block", "email"), place_filter("redact", "email")
USER_ONLY = place_filter("block", "email", user_only=True)


def message_by(role: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": role, "content": list(parts), **more}


def text(value: str, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "text": value}


def calling(arguments: str, name: str = "f", id: str = "c1") -> dict[str, Any]:
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def result(content: Any, id: str = "c1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


HI, GO = user("hi"), user("go")
FILE = {"filename": "a.txt", "file_data": f"data:text/plain;base64,{ENCODED}"}
PICTURE = {"type": "image_url", "image_url": {"url": "https://x.test/i.png"}}
CHAT_PLACES: dict[str, list[dict[str, Any]]] = {
    "system": [{"role": "system", "content": MAIL}, HI],
    "developer part": [message_by("developer", text(MAIL)), HI],
    "user": [user(MAIL)],
    "name": [{**HI, "name": MAIL}],
    "one part of many": [message_by("user", text("hi"), PICTURE, text(MAIL))],
    "assistant": [HI, {"role": "assistant", "content": MAIL}, GO],
    "reasoning": [HI, {"role": "assistant", "content": "x", "reasoning": MAIL}, GO],
    "call": [HI, calling(json.dumps({"to": [MAIL]})), result("ok")],
    "result": [HI, calling("{}"), result([text(MAIL)])],
    "text file": [message_by("user", {"type": "file", "file": FILE})],
}


@pytest.mark.parametrize("place", CHAT_PLACES)
def test_every_place_of_a_chat_request(place: str) -> None:
    chat = chat_of(*CHAT_PLACES[place])
    assert run(chat, BLOCK).refusal is not None
    done = run(chat, REDACT)
    told = json.dumps(done.chat.body)
    assert MAIL not in told
    assert ENCODED not in told
    assert len(done.stages) == 1
    parse_chat(done.chat.body, session_header=None)


def tool_use_messages(given: Any, content: str) -> list[dict[str, Any]]:
    use = {"type": "tool_use", "id": "t1", "name": "f", "input": given}
    answer = {"type": "tool_result", "tool_use_id": "t1", "content": content}
    return [HI, message_by("assistant", use), message_by("user", answer)]


SOURCE = {"type": "text", "media_type": "text/plain", "data": MAIL}
MESSAGES_PLACES: dict[str, dict[str, Any]] = {
    "system": {"system": [text(MAIL)], "messages": [HI]},
    "user": {"messages": [user(MAIL)]},
    "document": {"messages": [message_by("user", {"type": "document", "source": SOURCE})]},
    "use": {"messages": tool_use_messages({"to": MAIL}, "ok")},
    "result": {"messages": tool_use_messages({}, MAIL)},
}
ANSWER = message_by("assistant", text(MAIL, "output_text"), type="message")
SEARCH = {"type": "web_search_call", "id": "w", "action": {"query": MAIL}}


def call_items(arguments: str, output: str) -> list[dict[str, Any]]:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
    return [HI, call, {"type": "function_call_output", "call_id": "c", "output": output}]


RESPONSES_PLACES: dict[str, dict[str, Any]] = {
    "instructions": {"instructions": MAIL, "input": "hi"},
    "input": {"input": MAIL},
    "message": {"input": [message_by("user", text(MAIL, "input_text"))]},
    "answer": {"input": [HI, ANSWER]},
    "call": {"input": call_items(f'{{"to":"{MAIL}"}}', "ok")},
    "output": {"input": call_items("{}", MAIL)},
    "replayed": {"input": [HI, SEARCH]},
}
FORMATS: dict[str, tuple[Any, dict[str, dict[str, Any]], dict[str, Any]]] = {
    "messages": (parse_messages, MESSAGES_PLACES, {"model": "m", "max_tokens": 5}),
    "responses": (parse_responses, RESPONSES_PLACES, {"model": "m"}),
}


@pytest.mark.parametrize(
    ("name", "place"), [(name, place) for name in FORMATS for place in FORMATS[name][1]]
)
def test_every_place_of_a_request_in_another_format(name: str, place: str) -> None:
    parse, places, body = FORMATS[name]

    done = run(parse(body | places[place], session_header=None), REDACT)

    for side in (done.chat.body, done.chat.original):
        told = json.dumps(side)
        assert MAIL not in told
        assert ENCODED not in told
    assert "[EMAIL]" in json.dumps(done.chat.original)
    # The one is a file by then, and the other nobody's text.
    if place not in ("document", "replayed"):
        assert "[EMAIL]" in json.dumps(done.chat.body)
    parse(done.chat.original or {}, session_header=None)


def test_user_only_leaves_the_others_alone() -> None:
    def is_refused(**places: Any) -> bool:
        chat = parse_messages({"model": "m", "max_tokens": 5, **places}, session_header=None)
        return run(chat, USER_ONLY).refusal is not None

    refused = {
        place for place in CHAT_PLACES if run(chat_of(*CHAT_PLACES[place]), USER_ONLY).refusal
    }
    assert refused == {"user", "name", "one part of many", "text file"}
    assert not is_refused(**MESSAGES_PLACES["result"])
    assert is_refused(**MESSAGES_PLACES["user"])
    both = run(chat_of(*CHAT_PLACES["system"]), USER_ONLY, place_filter("flag", "email"))
    assert both.stages[0]["data"]["action"] == "flagged"


def test_ids_names_and_media_are_no_text() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://zz.test/zz.png"}}
    call = calling('{"zz": 1, "n": 2}', "zz_tool", "call_zz")
    chat = chat_of(HI, call, result("ok", "call_zz"), message_by("user", picture))
    done = run(chat, place_filter("redact", pattern="zz"), place_filter("redact", pattern="^2$"))
    redacted = calling('{"[REDACTED]":1,"n":"[REDACTED]"}', "zz_tool", "call_zz")
    assert done.chat.body["messages"][1] == redacted
    assert done.chat.body["messages"][3] == chat.body["messages"][3]


def test_what_a_redaction_saves_is_not_estimated() -> None:
    chat = chat_of(user(f"{MAIL} " * 100))
    done = run(chat, REDACT).chat
    assert done.text_bytes == done.prompt_text_chars == len("[EMAIL] ") * 100
    assert chat.text_bytes == (len(MAIL) + 1) * 100


# --- Requests for decisions -----------------------------------------------------------------------


MAIL = "ada@example.org"


def asking(**body: Any) -> ChatRequest:
    question = {"type": "noul", "instructions": "Is it?"}
    whole = {"model": "m/m", "state": "s", "questions": {"q": question}} | body
    return parse_decisions(whole, session_header=None)


def mask_addresses(text: str, by_user: bool) -> str:
    assert by_user
    return text.replace(MAIL, "[EMAIL]").replace("bob@example.org", "[EMAIL]")


def original(chat: ChatRequest) -> dict[str, Any]:
    assert chat.original is not None
    return chat.original


def test_nothing_to_change_changes_nothing() -> None:
    choice = {"type": "choice", "instructions": "?", "criteria": {"a": None, "b": {"c": [1]}}}
    score = {"type": "score", "instructions": ["?"], "criteria": ["low", "high"]}
    chat = asking(state={"a": [1.5, None]}, questions={"c": choice, "s": score})
    assert change_texts(chat, mask_addresses) is chat


def test_every_place_is_changed() -> None:
    sides = {"true": MAIL, "false": {"x": MAIL}}
    questions = {
        MAIL: {"type": "noul", "instructions": {MAIL: [MAIL]}, "criteria": sides},
        "s": {"type": "score", "instructions": MAIL, "criteria": [MAIL, [MAIL], "high"]},
    }
    chat = asking(state=[{MAIL: MAIL}, 5], questions=questions)

    new = change_texts(chat, mask_addresses)

    assert MAIL not in str(original(new)["state"])
    # What the caller calls it is for the caller alone.
    assert list(original(new)["questions"]) == [MAIL, "s"]
    assert MAIL not in str(list(original(new)["questions"].values()))
    assert new.text_bytes < chat.text_bytes
    assert original(chat)["questions"] is questions


def test_labels_that_become_alike_stay_apart() -> None:
    criteria = {MAIL: None, "[EMAIL]": "d", "bob@example.org": "e", "other": None}
    chat = asking(questions={"q": {"type": "choice", "instructions": "?", "criteria": criteria}})
    new = read_questions(original(change_texts(chat, mask_addresses)))["q"]
    assert new.labels == ("[EMAIL]", "[EMAIL] (2)", "[EMAIL] (3)", "other")
    assert new.criteria == (None, "d", "e", None)
