"""Answers whose body, shape or claims are wrong, as they stand on the wire."""

import json
import zlib
from typing import Any

import pytest

from routing.simulator.faults import FAULTS, shapes

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
GZIP = 31
MIB = 1024 * 1024


def events(body: bytes) -> list[Any]:
    """The events of a well-formed stream; [DONE] stays a string."""
    items = [item.removeprefix("data: ") for item in body.decode().split("\n\n") if item]
    return [item if item == "[DONE]" else json.loads(item) for item in items]


def text(documents: list[Any]) -> str:
    parts = [d["choices"][0]["delta"].get("content") for d in documents if isinstance(d, dict)]
    return "".join(part or "" for part in parts)


def answered(chat, name: str, stream: bool, **body: Any) -> tuple[Any, str, Any]:
    """Usage, text and finish reason of an answer in either form."""
    options = {"stream_options": {"include_usage": True}} if stream else {}
    status, _, raw = chat(f"sim/{name}", stream=stream, **options, **body)
    assert status == 200
    if not stream:
        document = json.loads(raw)
        choice = document["choices"][0]
        return document.get("usage"), choice["message"]["content"], choice["finish_reason"]
    documents = [event for event in events(raw) if event != "[DONE]"]
    usage = documents.pop()["usage"] if not documents[-1]["choices"] else None
    return usage, text(documents), documents[-1]["choices"][0]["finish_reason"]


# Bodies


@BOTH
def test_html_is_a_page_with_200(chat, stream):
    status, headers, body = chat("sim/html", stream=stream)

    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert body.startswith(b"<!doctype html>")


@BOTH
def test_a_wrong_content_type_labels_a_good_body(chat, stream):
    _, headers, body = chat("sim/wrong-content-type", stream=stream)

    assert headers["content-type"] == "text/plain"
    assert b"Simulated" in body


@BOTH
def test_bad_utf8_does_not_decode(chat, stream):
    with pytest.raises(UnicodeDecodeError):
        chat("sim/bad-utf8", stream=stream)[2].decode()


def test_truncated_json_is_complete_as_http(chat):
    with pytest.raises(json.JSONDecodeError):
        json.loads(chat("sim/truncated-json")[2])
    with pytest.raises(json.JSONDecodeError):
        events(chat("sim/truncated-json", stream=True)[2])


@BOTH
def test_null_and_empty_bodies_are_complete_as_http(chat, stream):
    assert chat("sim/null-body", stream=stream)[2] == b"null"
    assert chat("sim/empty-body", stream=stream)[::2] == (200, b"")


def test_empty_choices_is_a_good_answer_otherwise(chat):
    assert json.loads(chat("sim/empty-choices")[2])["choices"] == []
    streamed = events(chat("sim/empty-choices", stream=True)[2])
    assert (streamed[0]["choices"], streamed[1]) == ([], "[DONE]")


@BOTH
def test_a_long_content_length_leaves_the_body_short(upstream, wire, stream):
    wire.send(upstream.chat_bytes("sim/long-content-length", stream=stream))
    _, headers = wire.head()

    assert len(wire.to_end()) == int(headers["content-length"]) - 1000


@BOTH
def test_a_short_content_length_leaves_bytes_over(upstream, wire, stream):
    wire.send(upstream.chat_bytes("sim/short-content-length", stream=stream))
    _, headers = wire.head()

    assert len(wire.to_end()) // 2 == int(headers["content-length"])


@BOTH
def test_gzip_is_a_good_answer_once_decoded(chat, stream):
    _, headers, body = chat("sim/gzip", stream=stream)

    assert headers["content-encoding"] == "gzip"
    assert b"Simulated" in zlib.decompress(body, GZIP)


@BOTH
def test_a_gzip_bomb_is_small_valid_and_as_large_as_asked(chat, stream):
    _, headers, body = chat("sim/gzip-bomb?decoded_mib=8", stream=stream)

    assert headers["content-encoding"] == "gzip"
    assert len(body) < 64 * 1024
    decoded = zlib.decompress(body, GZIP)
    assert len(decoded) > 8 * MIB
    assert decoded.strip().endswith(b"[DONE]" if stream else b"}}}")


# Shapes of streams


def streamed(chat, name: str) -> bytes:
    status, headers, body = chat(f"sim/{name}", stream=True)
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    return body


WHOLE = "Simulated answer to: Hello there"


@pytest.mark.parametrize(
    ("name", "mark", "undo"),
    [
        ("sse-no-done", b"", lambda body: body + b"data: [DONE]\n\n"),
        ("sse-no-space", b"data:{", lambda body: body.replace(b"data:", b"data: ")),
        ("sse-crlf", b"}\r\n\r\n", lambda body: body.replace(b"\r\n", b"\n")),
        ("sse-cr", b"}\r\rdata", lambda body: body.replace(b"\r", b"\n")),
        ("sse-bom", b"\xef\xbb\xbfdata", lambda body: body.removeprefix(b"\xef\xbb\xbf")),
        ("sse-multi-line", b"\ndata: ,", lambda body: body.replace(b"\ndata: ,", b",")),
        ("sse-one-write", b"", lambda body: body),
        ("sse-unended", b"", lambda body: body + b"\n\n"),
    ],
)
def test_an_odd_shape_carries_a_whole_answer(chat, name, mark, undo):
    body = streamed(chat, name)

    assert mark in body
    said = events(undo(body))
    assert text(said) == WHOLE
    assert said[-1] == "[DONE]"


def test_comments_and_other_fields_stand_between(chat):
    lines = streamed(chat, "sse-comments").decode().split("\n")

    assert {line.partition(":")[0] for line in lines} == {"", "event", "id", "retry", "data"}
    assert text(events("\n\n".join(x for x in lines if x[:5] == "data:").encode())) == WHOLE


def test_garbage_comes_after_one_content_chunk(chat):
    items = streamed(chat, "sse-garbage").split(b"\n\n")

    assert items[2] == b"data: {this is no JSON"
    assert b'"content":"Simulated"' in items[1]


def test_data_that_is_no_object_is_sent_as_such(chat):
    assert b"data: null\n\ndata: []\n\ndata:\n\n" in streamed(chat, "sse-not-objects")


def test_chunks_follow_after_done(chat):
    said = events(streamed(chat, "sse-after-done"))

    assert "[DONE]" in said[:-2]


def test_an_error_stands_inside_the_stream_before_or_after_content(chat):
    before = events(streamed(chat, "sse-error-inside"))
    after = events(streamed(chat, "sse-error-mid"))

    assert [list(event) for event in before] == [["error"]]
    assert text(after[:-1]) == "Simulated answer"
    assert after[-1]["error"]["code"] == 502


def test_an_error_inside_a_json_answer_comes_with_200(chat):
    status, _, body = chat("sim/sse-error-inside")

    assert (status, list(json.loads(body))) == (200, ["error"])


def test_multi_byte_characters_are_split_over_chunks(upstream, wire):
    wire.send(upstream.chat_bytes("sim/sse-split-utf8", stream=True))
    wire.head()

    chunks = list(wire.chunks())

    assert "\u65e5\u672c" in text(events(b"".join(chunks)))
    assert all(len(chunk) == 1 for chunk in chunks if not chunk.isascii())


@pytest.mark.parametrize(
    ("name", "size"), [("sse-big-event", 5_000_000), ("sse-huge-event", 20_000_000)]
)
def test_a_large_event_is_one_event_of_that_size(chat, name, size):
    items = streamed(chat, name).split(b"\n\n")

    assert size < max(len(item) for item in items) < size + 1000


@pytest.mark.parametrize("name", sorted(shapes.FAULTS.keys() - {"sse-error-inside"}))
def test_a_shape_fault_answers_a_plain_request_with_json(chat, name):
    status, _, body = chat(f"sim/{name}")

    assert status == 200
    assert json.loads(body)["choices"][0]["message"]["content"].startswith("Simulated")


# Claims


@BOTH
def test_usage_can_be_missing_negative_absurd_or_text(chat, stream):
    assert answered(chat, "missing-usage", stream)[0] is None
    assert answered(chat, "usage-negative", stream)[0]["completion_tokens"] == -7
    assert answered(chat, "usage-absurd", stream)[0]["prompt_tokens"] == 10**12
    assert answered(chat, "usage-string", stream)[0]["total_tokens"] == "46"


@BOTH
@pytest.mark.parametrize(
    ("name", "finish_reason"), [("error-finish", "error"), ("content-filter", "content_filter")]
)
def test_a_partial_text_ends_with_its_finish_reason(chat, name, finish_reason, stream):
    assert answered(chat, name, stream)[1:] == ("Simulated answer", finish_reason)


@BOTH
def test_over_limit_reports_more_than_was_allowed(chat, stream):
    assert answered(chat, "over-limit", stream, max_tokens=5)[0]["completion_tokens"] > 5


@BOTH
def test_zero_completion_has_no_text_no_reason_and_no_tokens(chat, stream):
    usage, said, finish_reason = answered(chat, "zero-completion", stream)

    assert (usage["completion_tokens"], said, finish_reason) == (0, "", None)


def test_a_refusal_is_a_field_of_its_own(chat):
    message = json.loads(chat("sim/refusal")[2])["choices"][0]["message"]
    assert message["content"] is None
    assert message["refusal"].startswith("Simulated refusal")

    said = events(chat("sim/refusal", stream=True)[2])[1:-2]
    joined = "".join(event["choices"][0]["delta"]["refusal"] for event in said)
    assert joined == message["refusal"]


def test_every_fault_is_described():
    assert all(fault.description for fault in FAULTS.values())
