"""The model that plays an intern."""

import json
from typing import Any

from routing.simulator.play import FILE, is_intern, play_intern


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


TOOLS = [tool(name) for name in ("write_file", "ask_person", "list_files", "read_file")]


def intern_request(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "intern", "tools": TOOLS, "messages": list(messages), **more}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def tool_result(text: str) -> dict[str, Any]:
    return {"role": "tool", "content": text}


def read_call(step: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    (call,) = step["tool_calls"]
    return call["name"], json.loads(call["arguments"])


def test_only_an_interns_model_with_an_interns_tools_plays() -> None:
    assert is_intern(intern_request(user("Hi")))
    for wrong in ({"model": "small"}, {"tools": TOOLS[:1]}, {"tools": None}):
        assert not is_intern(intern_request(user("Hi"), **wrong))


def test_it_writes_a_file_then_asks_then_says_so() -> None:
    talk = [user("Buy milk")]
    name, arguments = read_call(play_intern(intern_request(*talk)))
    assert (name, arguments["path"]) == ("write_file", FILE)
    assert "Buy milk" in arguments["content"]
    talk.append(tool_result("9 bytes written"))
    name, arguments = read_call(play_intern(intern_request(*talk)))
    assert name == "ask_person"
    assert arguments["fields"] == [{"name": "title", "type": "string", "required": True}]
    talk.append(tool_result('{"title": "Shopping"}'))
    said = play_intern(intern_request(*talk))["text"]
    assert said.startswith("Simulated")
    assert "Shopping" in said
    # The next text begins anew.
    assert read_call(play_intern(intern_request(*talk, user("And bread"))))[0] == "write_file"


def test_it_looks_when_asked_to() -> None:
    assert read_call(play_intern(intern_request(user("Which files are there?")))) == (
        "list_files",
        {},
    )
    read = ("read_file", {"path": "notes.md"})
    assert read_call(play_intern(intern_request(user("Please read notes.md.")))) == read
    assert (
        "it says so"
        in play_intern(intern_request(user("read a.md"), tool_result("it says so")))["text"]
    )
