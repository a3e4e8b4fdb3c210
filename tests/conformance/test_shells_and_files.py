"""Shells, files and functions that wait to be found, in a loop of each format; and plugins that
read files and ask panels."""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from routing.simulator.testing import Wire
from routing.tools import walls
from tests.conformance.desk import Desk, Serve, exact
from tests.conformance.pairs import HELLO, Pair
from tests.conformance.test_server_tools import STREAMED, WEATHER
from tests.support.pdfs import data_url, pdf
from tests.support.speakers import SPEAKERS, Said, read_stream

SPOKEN = pytest.mark.parametrize("speaker", SPEAKERS)
PDF = pdf("Hello from the file")
NEEDS_WALLS = pytest.mark.skipif(
    not walls.is_there(), reason=f"no sandbox here: {walls.isolation().reason}"
)


@pytest.fixture(params=["openai"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def called(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def results_told(pair: Pair) -> list[Any]:
    """What the model was told of its calls."""
    messages = pair.sent()[-1]["messages"]
    return [json.loads(each["content"]) for each in messages if each["role"] == "tool"]


def told_of(pair: Pair, said: Said, name: str) -> dict[str, Any]:
    """How the answer tells of the tool: a result block, an item or a reasoning detail."""
    native = said.native
    if pair.speaker.name == "chat":
        kind = f"router:{name}"
        (detail,) = (
            each for each in native[0]["reasoning_details"] if each.get("tool_name") == kind
        )
        told: dict[str, Any] = json.loads(detail["result"])
        return told
    if pair.speaker.name == "messages":
        kind = "tool_search_tool_result" if name == "tool_search" else f"router_{name}_tool_result"
        (block,) = (each for each in native[0]["content"] if each["type"] == kind)
        found: dict[str, Any] = block["content"]
        return found
    (item,) = (each for each in native if each["type"] == f"router:{name}")
    assert item["status"] == "completed"
    return dict(item)


def answered(
    pair: Pair, *tools: Any, history: Any = None, stream: bool = False, **more: Any
) -> Said:
    """What is said with these tools, in the words of the pair's format."""
    body = pair.body(history, stream=stream) | ({"tools": list(tools)} if tools else {}) | more
    key = pair.desk.account.api_key
    response = pair.desk.server.post(pair.speaker.path, key=key, json=body)
    assert response.status_code == 200, response.text
    heard = pair.speaker
    said = heard.heard_stream(read_stream(response)) if stream else heard.heard(exact(response))
    assert said.failure is None
    assert said.cost_nano == pair.desk.charged_nano(response.headers["X-Generation-Id"])
    return said


@NEEDS_WALLS
@STREAMED
@SPOKEN
def test_a_shell(wire_desk: Desk, kind: str, speaker: str, stream: bool) -> None:
    pair = Pair(SPEAKERS[speaker], kind, wire_desk)
    pair.script(
        called("bash", command="echo 42 > answer"),
        called("bash", command="cat answer; exit 3"),
        {"text": "It is 42."},
    )

    said = answered(pair, {"type": "router:bash"}, stream=stream)

    assert said.text == "It is 42."
    assert results_told(pair)[1] == {"stdout": "42\n", "stderr": "", "return_code": 3}


@NEEDS_WALLS
@STREAMED
@pytest.mark.parametrize("speaker", ["messages", "responses"])
def test_a_shell_of_several_commands(
    wire_desk: Desk, kind: str, speaker: str, stream: bool
) -> None:
    pair = Pair(SPEAKERS[speaker], kind, wire_desk)
    pair.script(called("shell", commands=["echo 42"]), {"text": "It is 42."})

    said = answered(pair, {"type": "router:shell"}, stream=stream)

    output = [{"stdout": "42\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
    assert results_told(pair) == [{"output": output}]
    assert told_of(pair, said, "shell")["output"] == output
    history = [*pair.speaker.user(HELLO), *said.native, *pair.speaker.user("And?")]
    pair.script({"text": "That is all."})
    again = answered(pair, {"type": "router:shell"}, history=history, stream=stream)
    assert again.text == "That is all."


@NEEDS_WALLS
def test_files_and_patches(wire_desk: Desk, kind: str) -> None:
    pair = Pair(SPEAKERS["responses"], kind, wire_desk)
    pair.script(
        called("apply_patch", type="create_file", path="a", diff="+one"),
        called("files", action="read", path="a"),
        {"text": "Done."},
    )
    tools = [{"type": "router:apply_patch"}, {"type": "router:files"}]

    said = answered(pair, *tools)

    assert results_told(pair) == [{"status": "completed"}, {"text": "one\n"}]
    operation = {"type": "create_file", "path": "a", "diff": "+one"}
    assert told_of(pair, said, "apply_patch")["operation"] == operation
    assert told_of(pair, said, "files")["path"] == "a"


@STREAMED
@pytest.mark.parametrize("speaker", ["messages", "responses"])
def test_a_function_that_waits_to_be_found(
    wire_desk: Desk, kind: str, speaker: str, stream: bool
) -> None:
    pair = Pair(SPEAKERS[speaker], kind, wire_desk)
    pair.script(
        called("tool_search", query="weather"),
        {"tool_calls": [{"name": "weather", "arguments": {"city": "Bern"}}]},
    )
    (waiting,) = pair.body(tools=[WEATHER])["tools"]
    tools = [{**waiting, "defer_loading": True}, {"type": "router:tool_search"}]

    said = answered(pair, *tools, stream=stream)

    assert [call.name for call in said.calls] == ["weather"]
    first, second = ([tool["function"]["name"] for tool in body["tools"]] for body in pair.sent())
    assert first == ["tool_search"]
    assert second == ["weather", "tool_search"]
    told = told_of(pair, said, "tool_search")
    if speaker == "messages":
        assert told["tool_references"] == [{"type": "tool_reference", "tool_name": "weather"}]
    else:
        assert told["tools"] == ["weather"]


@pytest.fixture(scope="module")
def strict(serve: Serve) -> Callable[[], Desk]:
    return serve(
        ROUTER_SHELL="off", ROUTER_KEEPALIVE_SECONDS="0.1", ROUTER_FETCH_PRIVATE_HOSTS="localhost"
    )


@SPOKEN
@pytest.mark.parametrize("name", ["bash", "shell", "files", "apply_patch"])
def test_without_walls_they_are_refused(
    strict: Callable[[], Desk], speaker: str, name: str
) -> None:
    desk = strict()
    talker = SPEAKERS[speaker]
    body = talker.body(desk.model, talker.user(HELLO))
    body["tools"] = [{"type": f"router:{name}"}]

    response = desk.server.post(talker.path, key=desk.account.api_key, json=body)

    assert response.status_code == 400, response.text


@SPOKEN
def test_what_the_workspace_switched_off_is_403(strict: Callable[[], Desk], speaker: str) -> None:
    """Also where nothing could run it: who may not have it is told that first."""
    desk = strict()
    off = ["router:bash", "router:shell", "router:tool_search", "router:apply_patch"]
    response = desk.server.request(
        "PATCH",
        "/api/v1/workspaces/main",
        key=desk.account.management_key,
        json={"disabled_server_tools": [*off, "router:fusion"]},
    )
    assert response.status_code == 200, response.text
    talker = SPEAKERS[speaker]
    named = [
        *({"tools": [{"type": kind}]} for kind in off if (speaker, kind) not in _NOT_THERE),
        {"plugins": [{"id": "fusion"}]},
    ]
    for each in named:
        body = talker.body(desk.model, talker.user(HELLO)) | each
        desk.server.wait_until(partial(_is_forbidden, desk, talker.path, body), within_s=5)


def _is_forbidden(desk: Desk, path: str, body: dict[str, Any]) -> bool:
    response = desk.server.post(path, key=desk.account.api_key, json=body)
    return response.status_code == 403


_NOT_THERE = {
    ("chat", "router:shell"),
    ("chat", "router:tool_search"),
    ("chat", "router:apply_patch"),
    ("messages", "router:apply_patch"),
}


# --- A caller who leaves --------------------------------------------------------------------------


@NEEDS_WALLS
def test_who_leaves_takes_the_shell_along(wire_desk: Desk, kind: str) -> None:
    pair = Pair(SPEAKERS["chat"], kind, wire_desk)
    mark = f"sleep 59{time.monotonic_ns() % 1000:03d}"
    pair.script(called("bash", command=mark, timeout_s=50))
    wire = _opened(pair, tools=[{"type": "router:bash"}])
    wire_desk.server.wait_until(lambda: _runs(mark), within_s=10)

    wire.close()

    wire_desk.server.wait_until(lambda: not _runs(mark), within_s=5)


def _opened(pair: Pair, **more: Any) -> Wire:
    """A streamed request on a connection of its own."""
    desk = pair.desk
    data = json.dumps(pair.body(stream=True) | more).encode()
    wire = Wire(int(desk.server.env["PORT"]))
    head = (
        f"POST {pair.speaker.path} HTTP/1.1\r\nHost: gateway\r\n"
        f"Authorization: Bearer {desk.account.api_key}\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    wire.send(head.encode() + data)
    return wire


def _runs(command: str) -> bool:
    """Whether some process of this machine was given the command."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        if words.strip().endswith(command.encode()):
            return True
    return False


# --- Plugins --------------------------------------------------------------------------------------


def _file(speaker: str, where: str) -> dict[str, Any]:
    """A user's message with a file, in that format's words."""
    parts: dict[str, dict[str, Any]] = {
        "chat": {"type": "file", "file": {"file_data": where, "filename": "a.pdf"}},
        "responses": {"type": "input_file", "file_data": where, "filename": "a.pdf"},
        "messages": {
            "type": "document",
            "source": {
                "type": "base64",
                "media_type": "application/pdf",
                "data": where.partition(",")[2],
            },
        },
    }
    return {"role": "user", "content": [parts[speaker]]}


@STREAMED
@SPOKEN
def test_a_file_is_read_for_a_model_that_reads_none(
    wire_desk: Desk, kind: str, speaker: str, stream: bool
) -> None:
    pair = Pair(SPEAKERS[speaker], kind, wire_desk)
    pair.script({"text": "It greets."})
    history = [_file(speaker, data_url(PDF))]

    plugins = [{"id": "file-parser", "pdf": {"engine": "pdf-text"}}]

    said = answered(pair, history=history, stream=stream, plugins=plugins)

    assert said.text == "It greets."
    (sent,) = pair.sent()
    assert "Hello from the file" in json.dumps(sent["messages"])
    if speaker == "chat":
        (cited,) = said.native[0]["annotations"]
        assert cited["type"] == "file"
        assert "Hello from the file" in cited["file"]["content"][0]["text"]


def test_a_file_url_goes_through_the_guarded_door(strict: Callable[[], Desk]) -> None:
    desk = strict()
    port = desk.upstream.url.rpartition(":")[2]
    plugins = [{"id": "file-parser"}]

    def asked(url: str) -> Any:
        part = {"type": "file", "file": {"file_data": url}}
        message = {"role": "user", "content": [part]}
        return desk.post(messages=[message], plugins=plugins)

    for host in ("127.0.0.1", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "10.0.0.1"):
        desk.upstream.clear()
        response = asked(f"http://{host}:{port}/file")
        assert response.status_code == 400, response.text
        assert "messages.0.content.0: The file has a URL" in exact(response)["error"]["message"]
        assert desk.upstream.requests() == []
    # A host that the operator opened answers, though not with a file.
    opened = asked(f"http://localhost:{port}/file")
    assert "that answers 4" in exact(opened)["error"]["message"]


@STREAMED
def test_a_panel_by_its_plugin(wire_desk: Desk, kind: str, stream: bool) -> None:
    pair = Pair(SPEAKERS["chat"], kind, wire_desk)
    pair.script(called("fusion", question="Why?"), {"text": "So it is."})
    wire_desk.upstream.script("messages-a", {"text": "Because."})
    panel = {"id": "fusion", "analysis_models": ["acme/over-anthropic"]}

    said = answered(pair, stream=stream, plugins=[panel])

    assert said.text == "So it is."
    messages = wire_desk.sent("chat-a")[-1]["messages"]
    (told,) = (json.loads(each["content"]) for each in messages if each["role"] == "tool")
    assert told["answers"] == [{"model": "acme/over-anthropic", "answer": "Because."}]
