"""Shells, files and functions that wait to be found, in a loop of each format; and plugins that
read files and ask panels."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from routing.tools.sandbox import bubblewrap
from tests.conformance.desk import Desk, changed_workspace, exact, open_stream
from tests.conformance.pairs import HELLO, Pair
from tests.conformance.test_three_by_three import CITY, STREAMED
from tests.support.pdfs import data_url, pdf
from tests.support.speakers import SPEAKERS, Said

SPOKEN = pytest.mark.parametrize("pair", SPEAKERS, indirect=True)
TWO_SPOKEN = pytest.mark.parametrize("pair", ["messages", "responses"], indirect=True)
PDF = pdf("Hello from the file")
NEEDS_WALLS = pytest.mark.skipif(
    not bubblewrap.is_available(), reason=f"no sandbox here: {bubblewrap.isolation().reason}"
)


@pytest.fixture
def pair(own_wide_desk: Desk, request: pytest.FixtureRequest) -> Pair:
    """A caller of chat, or of the format that the test is about."""
    own_wide_desk.model = "acme/over-openai"
    return Pair(SPEAKERS[getattr(request, "param", "chat")], "openai", own_wide_desk)


def call_step(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def read_tool_results(pair: Pair) -> list[Any]:
    """What the model was told of its calls."""
    messages = pair.list_sent_bodies()[-1]["messages"]
    return [json.loads(each["content"]) for each in messages if each["role"] == "tool"]


def told_of(pair: Pair, said: Said, name: str) -> dict[str, Any]:
    """How the answer tells of the tool: a result block or an item."""
    native = said.native
    if pair.speaker.name == "messages":
        kind = "tool_search_tool_result" if name == "tool_search" else f"router_{name}_tool_result"
        (block,) = (each for each in native[0]["content"] if each["type"] == kind)
        found: dict[str, Any] = block["content"]
        return found
    (item,) = (each for each in native if each["type"] == f"router:{name}")
    assert item["status"] == "completed"
    return dict(item)


@NEEDS_WALLS
@pytest.mark.grid
@STREAMED
@SPOKEN
def test_a_shell(pair: Pair, stream: bool) -> None:
    pair.script(
        call_step("bash", command="echo 42 > answer"),
        call_step("bash", command="cat answer; exit 3"),
        {"text": "It is 42."},
    )

    said = pair.ask(server_tools=[{"type": "router:bash"}], stream=stream)

    assert said.text == "It is 42."
    assert read_tool_results(pair)[1] == {"stdout": "42\n", "stderr": "", "return_code": 3}


@NEEDS_WALLS
@pytest.mark.parametrize("pair", ["responses"], indirect=True)
def test_files_and_patches(pair: Pair) -> None:
    pair.script(
        call_step("apply_patch", type="create_file", path="a", diff="+one"),
        call_step("files", action="read", path="a"),
        {"text": "Done."},
    )
    tools = [{"type": "router:apply_patch"}, {"type": "router:files"}]

    said = pair.ask(server_tools=tools)

    assert read_tool_results(pair) == [{"status": "completed"}, {"text": "one\n"}]
    operation = {"type": "create_file", "path": "a", "diff": "+one"}
    assert told_of(pair, said, "apply_patch")["operation"] == operation
    assert told_of(pair, said, "files")["path"] == "a"


@pytest.mark.grid
@STREAMED
@TWO_SPOKEN
def test_a_function_that_waits_to_be_found(pair: Pair, stream: bool) -> None:
    pair.script(
        call_step("tool_search", query="weather"),
        {"tool_calls": [{"name": "weather", "arguments": {"city": "Bern"}}]},
    )
    (waiting,) = pair.body(tools=[CITY])["tools"]
    tools = [{**waiting, "defer_loading": True}, {"type": "router:tool_search"}]

    said = pair.ask(server_tools=tools, stream=stream)

    assert [call.name for call in said.calls] == ["weather"]
    first, second = (
        [tool["function"]["name"] for tool in body["tools"]] for body in pair.list_sent_bodies()
    )
    assert first == ["tool_search"]
    assert second == ["weather", "tool_search"]
    told = told_of(pair, said, "tool_search")
    if pair.speaker.name == "messages":
        assert told["tool_references"] == [{"type": "tool_reference", "tool_name": "weather"}]
    else:
        assert told["tools"] == ["weather"]


SHELLS = ("bash", "shell", "files", "apply_patch")


def test_without_walls_they_are_refused(equipped_desk: Desk) -> None:
    desk, talker = equipped_desk, SPEAKERS["responses"]

    def status(**more: Any) -> int:
        body = talker.body(desk.model, talker.user(HELLO)) | more
        return desk.server.post(talker.path, key=desk.account.api_key, json=body).status_code

    assert [status(tools=[{"type": f"router:{name}"}]) for name in SHELLS] == [400] * len(SHELLS)
    # Who may not have what nothing could run is told that first.
    off = ["router:bash", "router:shell", "router:tool_search", "router:apply_patch"]
    changed_workspace(desk, disabled_server_tools=[*off, "router:fusion"])
    assert [status(tools=[{"type": kind}]) for kind in off] == [403] * len(off)
    assert status(plugins=[{"id": "fusion"}]) == 403


# --- A caller who leaves --------------------------------------------------------------------------


@NEEDS_WALLS
def test_who_leaves_takes_the_shell_along(pair: Pair) -> None:
    mark = f"sleep 59{time.monotonic_ns() % 1000:03d}"
    pair.script(call_step("bash", command=mark, timeout_s=50))
    wire = open_stream(pair.desk, tools=[{"type": "router:bash"}])
    pair.desk.server.wait_until(lambda: _runs(mark), within_s=10)

    wire.close()

    pair.desk.server.wait_until(lambda: not _runs(mark), within_s=5)


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


def test_a_file_is_read_for_a_model_that_reads_none(pair: Pair) -> None:
    pair.script({"text": "It greets."})
    part = {"type": "file", "file": {"file_data": data_url(PDF), "filename": "a.pdf"}}
    history = [{"role": "user", "content": [part]}]
    plugins = [{"id": "file-parser", "pdf": {"engine": "pdf-text"}}]

    said = pair.ask(history, plugins=plugins)

    assert said.text == "It greets."
    (sent,) = pair.list_sent_bodies()
    assert "Hello from the file" in json.dumps(sent["messages"])
    (cited,) = said.native[0]["annotations"]
    assert cited["type"] == "file"
    assert "Hello from the file" in cited["file"]["content"][0]["text"]


def test_a_file_url_goes_through_the_guarded_door(own_wide_desk: Desk) -> None:
    desk = own_wide_desk
    desk.model = "acme/small"
    port = desk.upstream.url.rpartition(":")[2]
    plugins = [{"id": "file-parser"}]

    def ask_about(url: str) -> Any:
        part = {"type": "file", "file": {"file_data": url}}
        message = {"role": "user", "content": [part]}
        return desk.post(messages=[message], plugins=plugins)

    for host in ("127.0.0.1", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "10.0.0.1"):
        desk.upstream.clear()
        response = ask_about(f"http://{host}:{port}/file")
        assert response.status_code == 400, response.text
        assert "messages.0.content.0: The file has a URL" in exact(response)["error"]["message"]
        assert desk.upstream.requests() == []
    # A host that the operator opened answers, though not with a file.
    opened = ask_about(f"http://localhost:{port}/file")
    assert "that answers 4" in exact(opened)["error"]["message"]
