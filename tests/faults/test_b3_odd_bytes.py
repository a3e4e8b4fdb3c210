"""B3: odd bytes and wrong types. Each has the status the reference lists, with the field named
where there is one; never a 5xx, never a page; and nothing reaches an upstream or the books."""

import json
from typing import Any

import pytest

from tests.conformance.desk import HELLO, Desk, issue_paths

pytestmark = pytest.mark.thorough

PLAIN = json.dumps({"model": "plain/first", "messages": HELLO})


def with_field(text: str) -> str:
    """The plain request with this raw JSON member in front."""
    return "{" + text + ", " + PLAIN[1:]


def saying(raw: str) -> str:
    """The plain request whose message is this raw JSON string."""
    return PLAIN.replace('"Hello there"', raw)


# Which bytes are no JSON is `test_jsonio`'s; these come through every way a body is looked at.
MALFORMED: dict[str, bytes] = {
    "NUL escaped in a string": saying('"a\\u0000b"').encode(),
    "NUL in a key": with_field('"a\\u0000b": 1').encode(),
    "NUL bytes around": b"\x00" + PLAIN.encode() + b"\x00",
    "a lone surrogate": saying('"\\ud800"').encode(),
    "UTF-16 with its mark": PLAIN.encode("utf-16"),
    "a byte-order mark": b"\xef\xbb\xbf" + PLAIN.encode(),
    "Latin-1": saying('"Gr\u00fc\u00dfe"').encode("latin-1"),
    "NaN": with_field('"temperature": NaN').encode(),
    "1e999 in an unknown field": with_field('"foo": 1e999').encode(),
    "5,000 digits in an unknown field": with_field(f'"foo": {"9" * 5000}').encode(),
    "two documents": (PLAIN + PLAIN).encode(),
    "100,000 nested arrays": with_field(f'"foo": {"[" * 100_000}{"]" * 100_000}').encode(),
    "129 levels": with_field(f'"foo": {"[" * 128}{"]" * 128}').encode(),
    "form data": b"model=plain%2Ffirst&messages=Hello",
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
    "random bytes": bytes(range(256)),
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_no_json_is_malformed(desk: Desk, body: bytes) -> None:
    error = desk.check_refused(desk.raw(body), 400, "invalid_request")

    assert error["message"].startswith("Invalid JSON in request body")


FINE: dict[str, bytes] = {
    "128 levels": with_field(f'"foo": {"[" * 127}{"]" * 127}').encode(),
    "brackets inside a string": saying('"' + "[{" * 1000 + '"').encode(),
    "U+FFFF, a surrogate pair": saying('"\uffff\ue000\\ud83e\\udd8a"').encode(),
    "control characters escaped": saying('"\\u0001\\u001f\\u007f"').encode(),
    "right-to-left marks": saying('"\u202e\u2066abc\u200f"').encode(),
    "spaces around": b" \t\r\n" + PLAIN.encode() + b" \n",
    "an integer of 300 digits in an unknown field": with_field(f'"foo": {"9" * 300}').encode(),
    "a key of 100,000 characters": with_field(f'"{"k" * 100_000}": 1').encode(),
    "an empty key": with_field('"": 1').encode(),
}


@pytest.mark.parametrize("body", FINE.values(), ids=FINE.keys())
def test_odd_but_legal_json_is_served(desk: Desk, body: bytes) -> None:
    answer = desk.raw(body)

    assert answer.status_code == 200, answer.text
    sent = desk.the_one_sent("first")
    assert sent["messages"] == json.loads(body)["messages"]
    assert "foo" not in sent


@pytest.mark.parametrize(
    ("field", "digits", "status"),
    [
        ("seed", "9223372036854775808", 400),
        ("seed", "-9223372036854775809", 400),
        ("max_tokens", "0", 400),
        ("max_tokens", "9" * 300, 200),
        ("top_k", "9" * 300, 200),
        ("seed", "9223372036854775807", 200),
        ("seed", "5.0", 200),
        ("seed", "5.5", 400),
        ("max_tokens", "1e300", 200),
        ("temperature", "0." + "3" * 5000, 200),
    ],
    ids=lambda value: str(value)[:24],
)
def test_numbers_of_any_length(desk: Desk, field: str, digits: str, status: int) -> None:
    response = desk.raw(with_field(f'"{field}": {digits}').encode())

    assert response.status_code == status, response.text[:300]
    if status == 400:
        assert issue_paths(desk.check_refused(response, 400, "invalid_request")) == [field]


CONTENT_TYPES = [
    *("application/json; charset=klingon", "application/json; charset=utf-16", "text/plain", ""),
    *("application/x-www-form-urlencoded", "multipart/form-data; boundary=b", "\u00ff;;;=="),
    "application/json; " + "a=b; " * 500,
]
ODD_HEADERS = {
    "x-session-id": "\u00e4\u00f6",
    "X-Router-Title": "\u00ff" * 300,
    "HTTP-Referer": "x" * 2000,
    "X-Router-Categories": ",,,a,b,c," + "d" * 500,
    "X-Router-Metadata": "\u00ff",
    "User-Agent": "\u00e9" * 600,
    "Accept": "text/html",
    "Accept-Encoding": "gzip, br",
    "X-HTTP-Method-Override": "DELETE",
}
HEADERS = [("Content-Type", text) for text in CONTENT_TYPES] + list(ODD_HEADERS.items())


@pytest.mark.parametrize(("name", "value"), HEADERS)
def test_odd_headers_break_nothing_and_the_body_is_read(desk: Desk, name: str, value: str) -> None:
    headers = {name: value.encode("latin-1")}

    answer = desk.raw(PLAIN.encode(), headers=headers)  # type: ignore[arg-type]  # Bytes travel as they are.

    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    assert desk.the_one_sent("first")["messages"] == HELLO
    assert desk.generation(answer.json()["id"])["id"]


# One wrong value of each JSON type; a field takes all but its own.
VALUES: dict[str, Any] = {
    "string": "x",
    "number": 1.5,
    "boolean": True,
    "array": [1],
    "object": {"odd": 1},
}
TYPES: dict[str, str] = {
    "string": "model preset stop prompt_cache_key session_id user",
    "number": "temperature min_p frequency_penalty presence_penalty repetition_penalty",
    "boolean": "stream logprobs parallel_tool_calls structured_outputs include_reasoning",
    "object": "stream_options logit_bias reasoning image_config debug trace web_search_options",
    # Narrower than any of the values.
    "": "messages models route provider plugins max_completion_tokens max_tokens top_p top_k top_a"
    " top_logprobs seed tools tool_choice max_tool_calls stop_server_tools_when response_format"
    " reasoning_effort verbosity modalities audio prediction cache_control prompt_cache_options"
    " service_tier metadata transforms n",
}
FIELDS = [(field, right) for right, fields in TYPES.items() for field in fields.split()]


@pytest.mark.parametrize(("field", "right"), FIELDS)
def test_a_wrong_type_names_its_field(desk: Desk, field: str, right: str) -> None:
    for kind in VALUES.keys() - {right}:
        error = desk.refused(400, "invalid_request", **{field: VALUES[kind]})

        assert {path.split(".")[0] for path in issue_paths(error)} == {field}, kind


@pytest.mark.parametrize(
    ("message", "path"),
    [
        (5, "messages.0"),
        ({"role": 5}, "messages.0.role"),
        ({"role": "user"}, "messages.0.content"),
        ({"role": "user", "content": 5}, "messages.0.content"),
        ({"role": "user", "content": []}, "messages.0.content"),
        ({"role": "user", "content": [5]}, "messages.0.content.0"),
        ({"role": "user", "content": [{"type": "odd"}]}, "messages.0.content.0.type"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///x"}}]},
            "messages.0.content.0.image_url.url",
        ),
        ({"role": "tool", "content": "x"}, "messages.0.tool_call_id"),
        ({"role": "assistant", "tool_calls": [{}]}, "messages.0.tool_calls.0.id"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_wrong_message_names_its_place(desk: Desk, message: Any, path: str) -> None:
    error = desk.refused(400, "invalid_request", messages=[message])

    assert path in issue_paths(error)
