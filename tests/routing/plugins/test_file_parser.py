"""Files that become text before a model is chosen."""

import time
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from django.test import override_settings
from pydantic_core import from_json

from accounts.caller import Caller
from gateway.http.errors import GatewayError, PaymentRequired
from routing.catalogue.entries import ModelEntry
from routing.fetching.files import FileText
from routing.formats.chat.format import CHAT
from routing.formats.chat.request import ChatRequest
from routing.formats.messages.format import MESSAGES
from routing.formats.responses.format import RESPONSES
from routing.plugins import file_parser
from routing.plugins.file_parser import FILES_MAX, FileParser
from routing.plugins.files import text_of
from routing.plugins.interface import Context
from tests.support.pdfs import data_url, pdf

pytestmark = pytest.mark.thorough

HELLO = data_url(pdf("Hello there", "Second page"))
TEXT_ENGINE = {"pdf": {"engine": "cloudflare-ai"}}


@dataclass
class _Endpoint:
    input_modalities: tuple[str, ...]


@dataclass
class _Model:
    endpoints: tuple[_Endpoint, ...]


def context(*modalities: str) -> Context:
    models = [cast(ModelEntry, _Model((_Endpoint(modalities or ("text",)),)))]
    return Context(cast(Caller, None), models, time.monotonic() + 60)


def part(where: str, name: str = "", **more: Any) -> dict[str, Any]:
    file = {"file_data": where} | ({"filename": name} if name else {})
    return {"type": "file", "file": file, **more}


def chat(*parts: dict[str, Any]) -> ChatRequest:
    content = [{"type": "text", "text": "What is in it?"}, *parts]
    body = {"model": "acme/a", "messages": [{"role": "user", "content": content}]}
    return CHAT.parse(body, session_header=None, models_max=3)


def parts_of(request: ChatRequest) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = request.body["messages"][0]["content"]
    return parts


def refused(*parts: dict[str, Any], settings: Any = TEXT_ENGINE) -> GatewayError:
    with pytest.raises(GatewayError) as error:
        FileParser(settings).asked(chat(*parts), context())
    return error.value


def test_a_pdf_is_text_and_is_cited() -> None:
    plugin = FileParser({"id": "file-parser"})
    mark = {"type": "ephemeral"}
    before = chat(part(HELLO, 'a "b".pdf', cache_control=mark))
    after = plugin.asked(before, context())
    text = '<file name="a &quot;b&quot;.pdf">\nHello there\n\nSecond page\n</file>'
    said = {"type": "text", "text": text}
    assert parts_of(after)[1] == {**said, "cache_control": mark}
    assert after.input_modalities == frozenset()
    assert (after.media_parts, before.media_parts) == (0, 1)
    assert after.prompt_text_chars == before.prompt_text_chars + len(text)
    (cited,) = plugin.annotations()
    assert len(cited["file"].pop("hash")) == 64
    assert cited == {"type": "file", "file": {"name": 'a "b".pdf', "content": [said]}}
    (stage,) = plugin.stages
    assert stage["type"] == "plugin"
    assert stage["data"] == {"engine": "pdf-text", "files": 1, "pages": 2}


def test_a_file_that_is_sent_twice_is_cited_once() -> None:
    plugin = FileParser(TEXT_ENGINE)
    after = plugin.asked(chat(part(HELLO), part(HELLO)), context())
    assert parts_of(after)[1] == parts_of(after)[2]
    assert len(plugin.annotations()) == 1


def test_texts_are_read_too_and_pictures_stay() -> None:
    plain = part("data:text/csv,a%2Cb%0A1")
    encoded = part(data_url('{"a": "\u00e4"}'.encode(), "application/json; charset=utf-8"))
    picture, elsewhere = (
        part(data_url(b"\x89PNG", "image/png")),
        {"type": "file", "file": {"file_id": "f"}},
    )
    after = FileParser(TEXT_ENGINE).asked(chat(plain, encoded, picture, elsewhere), context())
    assert [each.get("text") for each in parts_of(after)[1:]] == [
        "<file>\na,b\n1\n</file>",
        '<file>\n{"a": "\u00e4"}\n</file>',
        None,
        None,
    ]
    assert parts_of(after)[3:] == [picture, elsewhere]


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
    before = chat(part(HELLO))
    plugin = FileParser(settings)
    after = plugin.asked(before, context(*modalities))
    assert (after is not before) is is_read
    assert bool(plugin.annotations()) is bool(plugin.stages) is is_read


def test_without_a_file_nothing_happens() -> None:
    before = chat()
    assert FileParser({}).asked(before, context()) is before


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
    with pytest.raises(GatewayError, match=told.replace("(", r"\(")):
        text_of(where, time.monotonic() + 30, chars_max=1000)
    if where.startswith(("data:", "http")) and where != "data:nothing":
        error = refused(part(where))
        assert error.status == 400
        assert error.text.startswith(f"messages.0.content.1: The file {told}")


def test_an_engine_that_is_not_there_is_refused() -> None:
    error = refused(settings={"pdf": {"engine": "mistral-ocr"}})
    assert error.status == 400
    assert error.text == "server tool not available: file-parser (mistral-ocr)"


def test_a_pdf_without_text_says_so() -> None:
    after = FileParser(TEXT_ENGINE).asked(chat(part(data_url(pdf("")))), context())
    assert "No text can be read in this file" in parts_of(after)[1]["text"]


@override_settings(ROUTER_FILE_PAGES=1)
def test_more_pages_than_are_read_are_told_of() -> None:
    after = FileParser(TEXT_ENGINE).asked(chat(part(HELLO)), context())
    text = parts_of(after)[1]["text"]
    assert "Hello there" in text
    assert "Second page" not in text
    assert "[There is more of this file than is shown here.]" in text


@override_settings(ROUTER_FILE_BYTES=1024)
def test_a_large_file_is_413() -> None:
    assert refused(part(data_url(pdf("x" * 2000)))).status == 413


def test_only_so_many_files_are_read() -> None:
    many = [part(f"data:text/plain,{number}") for number in range(FILES_MAX + 1)]
    with override_settings(ROUTER_FILE_SECONDS=60):
        assert "more than 20 files" in refused(*many).text


def test_all_files_of_a_request_share_their_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_parser, "TEXT_CHARS_MAX", 10)
    more = "\n[There is more of this file than is shown here.]"
    one, two, three = (part(f"data:text/plain,{number * 6}") for number in "123")
    after = FileParser(TEXT_ENGINE).asked(chat(one, two), context())
    assert [each["text"] for each in parts_of(after)[1:]] == [
        "<file>\n111111\n</file>",
        f"<file>\n2222{more}\n</file>",
    ]
    for last in (one, three):
        error = refused(one, two, last)
        assert error.status == 413
        assert error.text.startswith("messages.0.content.3: The files of a request have more than")


@override_settings(ROUTER_FILE_SECONDS=40)
def test_all_files_of_a_request_share_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    until = set[float]()

    def noted(where: str, at: float, **given: Any) -> FileText:
        until.add(at)
        return text_of(where, at, **given)

    monkeypatch.setattr(file_parser, "text_of", noted)
    began = time.monotonic()
    FileParser(TEXT_ENGINE).asked(chat(*(part(f"data:text/plain,{n}") for n in "123")), context())
    assert len(until) == 1
    assert until.pop() >= began + 40


def test_nothing_is_read_for_whoever_would_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_parser, "text_of", None)

    def refuse() -> None:
        raise PaymentRequired

    broke = replace(context(), refuse=refuse)
    with pytest.raises(PaymentRequired):
        FileParser(TEXT_ENGINE).asked(chat(part(HELLO)), broke)
    without = chat()
    assert FileParser(TEXT_ENGINE).asked(without, broke) is without


def test_without_time_nothing_is_fetched() -> None:
    with pytest.raises(GatewayError, match="takes too long to be read"):
        text_of("http://10.0.0.1/a.pdf", time.monotonic(), chars_max=1)


def test_texts_do_not_come_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    frames: list[bytes] = []

    def noted(frame: bytes) -> Any:
        frames.append(frame)
        return from_json(frame)

    monkeypatch.setattr("pydantic_core.from_json", noted)
    text = "\U0001f600\u0436\n" * 50_000
    found = text_of(data_url(text.encode(), "text/plain"), time.monotonic() + 30, chars_max=200_000)
    assert found.text == text
    assert max(map(len, frames)) < 200


@override_settings(ROUTER_FILE_SECONDS=0.001)
def test_a_file_that_takes_too_long_is_told() -> None:
    page = "x" * 50_000
    error = refused(part(data_url(pdf(*[page] * 40))))
    assert error.status == 400
    assert "takes too long to be read" in error.text or "cannot be read" in error.text


def test_tools_of_a_provider_would_get_lost() -> None:
    document = {
        "type": "document",
        "source": {
            "type": "base64",
            "media_type": "application/pdf",
            "data": HELLO.partition(",")[2],
        },
    }
    body = {
        "model": "acme/a",
        "max_tokens": 10,
        "messages": [{"role": "user", "content": [document]}],
        "tools": [{"type": "bash_20250124", "name": "bash"}],
    }
    request = MESSAGES.parse(body, session_header=None, models_max=3)

    with pytest.raises(GatewayError, match="bash_20250124 beside file-parser"):
        FileParser(TEXT_ENGINE).asked(request, context())


def test_the_other_formats_have_files_too() -> None:
    item = {"type": "input_file", "file_data": HELLO, "filename": "a.pdf"}
    body = {"model": "acme/a", "input": [{"role": "user", "content": [item]}]}
    request = RESPONSES.parse(body, session_header=None, models_max=3)
    after = FileParser(TEXT_ENGINE).asked(request, context())
    assert "Hello there" in parts_of(after)[0]["text"]
    assert after.rewritten
