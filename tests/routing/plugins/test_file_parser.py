"""Files that become text before a model is chosen."""

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.test import override_settings
from pydantic_core import from_json

from accounts.caller import Caller
from gateway.http.errors import GatewayError, PaymentRequired
from routing.entities.entries import ModelEntry
from routing.fetching.files import FileText
from routing.formats.chat.request import ChatRequest
from routing.plugins import file_parser
from routing.plugins.file_parser import FILES_MAX, FileParser, read_text
from routing.plugins.interface import PluginContext
from tests.routing.formats import chat_bodies
from tests.routing.formats.messages import bodies as messages
from tests.routing.formats.responses import bodies as responses
from tests.support.pdfs import data_url, pdf

pytestmark = pytest.mark.thorough

HELLO = data_url(pdf("Hello there", "Second page"))
TEXT_ENGINE = {"pdf": {"engine": "cloudflare-ai"}}
MORE = "[There is more of this file than is shown here.]"


def context(*modalities: str) -> PluginContext:
    served = SimpleNamespace(input_modalities=modalities or ("text",))
    models = [cast(ModelEntry, SimpleNamespace(endpoints=(served,)))]
    return PluginContext(cast(Caller, None), models, time.monotonic() + 60)


def part(where: str, name: str = "", **more: Any) -> dict[str, Any]:
    file = {"file_data": where} | ({"filename": name} if name else {})
    return {"type": "file", "file": file, **more}


def chat(*parts: dict[str, Any]) -> ChatRequest:
    content = [{"type": "text", "text": "What is in it?"}, *parts]
    return chat_bodies.parse_fields(messages=[{"role": "user", "content": content}])


def parse_parts(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    """What the parts have become."""
    after = FileParser(TEXT_ENGINE).change_request(chat(*parts), context())
    found: list[dict[str, Any]] = after.body["messages"][0]["content"][1:]
    return found


def parse_error(*parts: dict[str, Any], settings: Any = TEXT_ENGINE) -> GatewayError:
    with pytest.raises(GatewayError) as error:
        FileParser(settings).change_request(chat(*parts), context())
    return error.value


def test_a_pdf_is_text_and_is_cited_once() -> None:
    plugin = FileParser({"id": "file-parser"})
    file = part(HELLO, 'a "b".pdf', cache_control={"type": "ephemeral"})
    before = chat(file, file)
    after = plugin.change_request(before, context())
    text = '<file name="a &quot;b&quot;.pdf">\nHello there\n\nSecond page\n</file>'
    said = {"type": "text", "text": text}
    marked = {**said, "cache_control": {"type": "ephemeral"}}
    assert after.body["messages"][0]["content"][1:] == [marked, marked]
    assert after.input_modalities == frozenset()
    assert (after.media_parts, before.media_parts) == (0, 2)
    assert after.prompt_text_chars == before.prompt_text_chars + 2 * len(text)
    (cited,) = plugin.annotations()
    assert len(cited["file"].pop("hash")) == 64
    assert cited == {"type": "file", "file": {"name": 'a "b".pdf', "content": [said]}}
    (stage,) = plugin.stages
    assert stage["type"] == "plugin"
    assert stage["data"].items() >= {"engine": "pdf-text"}.items()
    alone = FileParser({"id": "file-parser"})
    alone.change_request(chat(file), context())
    assert alone.stages[0]["data"] == {"engine": "pdf-text", "files": 1, "pages": 2}


def test_texts_are_read_too_and_pictures_stay() -> None:
    encoded = data_url('{"a": "\u00e4"}'.encode(), "application/json; charset=utf-8")
    picture = part(data_url(b"\x89PNG", "image/png"))
    elsewhere = {"type": "file", "file": {"file_id": "f"}}
    plain, json, *rest = parse_parts(
        part("data:text/csv,a%2Cb%0A1"), part(encoded), picture, elsewhere
    )
    assert plain["text"] == "<file>\na,b\n1\n</file>"
    assert json["text"] == '<file>\n{"a": "\u00e4"}\n</file>'
    assert rest == [picture, elsewhere]


@pytest.mark.parametrize(
    ("settings", "modalities", "is_read"),
    [
        ({}, ("text",), True),
        ({}, ("text", "file"), False),
        ({"pdf": {}}, ("text", "file"), False),
        ({"pdf": {"engine": "native"}}, ("text",), False),
        (TEXT_ENGINE, ("text", "file"), True),
        ({"pdf": {"engine": "pdf-text"}}, ("text", "file"), True),
    ],
)
def test_who_reads_a_file(settings: Any, modalities: tuple[str, ...], is_read: bool) -> None:
    before, plugin = chat(part(HELLO)), FileParser(settings)
    assert (plugin.change_request(before, context(*modalities)) is not before) is is_read
    assert bool(plugin.annotations()) is bool(plugin.stages) is is_read


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (data_url(pdf("x", password="secret")), "cannot be read: it is encrypted"),
        (data_url(b"%PDF-1.4\nnonsense"), "cannot be read: it is no PDF that can be read"),
        (data_url(b"nonsense"), "cannot be read: it is no PDF"),
        ("data:application/pdf;base64,=x=", "cannot be read: "),
        ("data:nothing", "is no data URL"),
        ("http://10.0.0.1/a.pdf", "has a URL whose host is not one of the public Internet"),
        ("http://localhost/a.pdf", "has a URL whose host is not one of the public Internet"),
        ("http://127.0.0.1:25/a.pdf", "has a URL that is not fetched: Port 25"),
        ("ftp://example.com/", "is not fetched"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(where: str, told: str) -> None:
    with pytest.raises(GatewayError, match=told):
        read_text(where, time.monotonic() + 30, chars_max=1000)
    if where.startswith(("data:", "http")) and where != "data:nothing":
        error = parse_error(part(where))
        assert error.status == 400
        assert error.text.startswith(f"messages.0.content.1: The file {told}")


def test_an_engine_that_is_not_there_is_refused() -> None:
    error = parse_error(settings={"pdf": {"engine": "mistral-ocr"}})
    assert error.status == 400
    assert error.text == "server tool not available: file-parser (mistral-ocr)"


def test_a_pdf_without_text_says_so() -> None:
    assert "No text can be read in this file" in parse_parts(part(data_url(pdf(""))))[0]["text"]


@override_settings(ROUTER_FILE_PAGES=1)
def test_more_pages_than_are_read_are_told_of() -> None:
    (said,) = parse_parts(part(HELLO))
    assert "Second page" not in said["text"]
    assert all(each in said["text"] for each in ("Hello there", MORE))


@override_settings(ROUTER_FILE_BYTES=1024)
def test_a_large_file_is_413() -> None:
    assert parse_error(part(data_url(pdf("x" * 2000)))).status == 413


@override_settings(ROUTER_FILE_SECONDS=60)
def test_only_so_many_files_are_read() -> None:
    many = [part(f"data:text/plain,{number}") for number in range(FILES_MAX + 1)]
    assert "more than 20 files" in parse_error(*many).text


def test_all_files_of_a_request_share_their_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_parser, "TEXT_CHARS_MAX", 10)
    one, two, three = (part(f"data:text/plain,{number * 6}") for number in "123")
    texts = [each["text"] for each in parse_parts(one, two)]
    assert texts == ["<file>\n111111\n</file>", f"<file>\n2222\n{MORE}\n</file>"]
    for last in (one, three):
        error = parse_error(one, two, last)
        assert error.status == 413
        assert error.text.startswith("messages.0.content.3: The files of a request have more than")


@override_settings(ROUTER_FILE_SECONDS=40)
def test_all_files_of_a_request_share_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    until = set[float]()

    def note_call(where: str, at: float, **given: Any) -> FileText:
        until.add(at)
        return read_text(where, at, **given)

    monkeypatch.setattr(file_parser, "read_text", note_call)
    began = time.monotonic()
    parse_parts(*(part(f"data:text/plain,{n}") for n in "123"))
    assert len(until) == 1
    assert until.pop() >= began + 40


def test_nothing_is_read_without_a_file_or_for_whoever_would_be_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(file_parser, "read_text", None)

    def refuse() -> None:
        raise PaymentRequired

    broke, without = replace(context(), refuse=refuse), chat()
    with pytest.raises(PaymentRequired):
        FileParser(TEXT_ENGINE).change_request(chat(part(HELLO)), broke)
    assert FileParser(TEXT_ENGINE).change_request(without, broke) is without


def test_without_time_nothing_is_fetched() -> None:
    with pytest.raises(GatewayError, match="takes too long to be read"):
        read_text("http://10.0.0.1/a.pdf", time.monotonic(), chars_max=1)


@override_settings(ROUTER_FILE_SECONDS=0.001)
def test_a_file_that_takes_too_long_is_told() -> None:
    error = parse_error(part(data_url(pdf(*["x" * 50_000] * 40))))
    assert error.status == 400
    assert "takes too long to be read" in error.text or "cannot be read" in error.text


def test_texts_do_not_come_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    frames: list[bytes] = []

    def note_call(frame: bytes) -> Any:
        frames.append(frame)
        return from_json(frame)

    monkeypatch.setattr("pydantic_core.from_json", note_call)
    text = "\U0001f600\u0436\n" * 50_000
    found = read_text(
        data_url(text.encode(), "text/plain"), time.monotonic() + 30, chars_max=200_000
    )
    assert found.text == text
    assert max(map(len, frames)) < 200


def test_the_other_formats_have_files_too_and_tools_of_a_provider_would_get_lost() -> None:
    item = {"type": "input_file", "file_data": HELLO, "filename": "a.pdf"}
    asked = responses.parse_fields(input=[{"role": "user", "content": [item]}])
    after = FileParser(TEXT_ENGINE).change_request(asked, context())
    assert "Hello there" in after.body["messages"][0]["content"][0]["text"]
    assert after.rewritten
    bytes_of = {"media_type": "application/pdf", "data": HELLO.partition(",")[2]}
    said = [messages.message_by("user", messages.document("base64", **bytes_of))]
    tools = [{"type": "bash_20250124", "name": "bash"}]
    with pytest.raises(GatewayError, match="bash_20250124 beside file-parser"):
        FileParser(TEXT_ENGINE).change_request(
            messages.parse_fields(messages=said, tools=tools), context()
        )
