"""B3: odd bytes and wrong types. Each has the status the reference lists, with the field named
where there is one; never a 5xx, never a page; and nothing reaches an upstream or the books."""

import json
from typing import Any

import pytest

from tests.conformance.desk import CHAT, HELLO, Desk, issue_paths

pytestmark = pytest.mark.thorough

PLAIN = json.dumps({"model": "plain/first", "messages": HELLO})


def with_field(text: str) -> str:
    """The plain request with this raw JSON member in front."""
    return "{" + text + ", " + PLAIN[1:]


def saying(raw: str) -> str:
    """The plain request whose message is this raw JSON string."""
    return PLAIN.replace('"Hello there"', raw)


MALFORMED: dict[str, bytes] = {
    "NUL escaped in a string": saying('"a\\u0000b"').encode(),
    "NUL in a key": with_field('"a\\u0000b": 1').encode(),
    "a NUL byte in a string": saying('"a\x00b"').encode(),
    "NUL bytes around": b"\x00" + PLAIN.encode() + b"\x00",
    "a lone high surrogate": saying('"\\ud800"').encode(),
    "a lone low surrogate": saying('"\\udc00x"').encode(),
    "surrogates in the wrong order": saying('"\\udd8a\\ud83e"').encode(),
    "a surrogate in UTF-8 bytes": saying('"?"').encode().replace(b'"?"', b'"\xed\xa0\x80"'),
    "UTF-16 little endian": PLAIN.encode("utf-16-le"),
    "UTF-16 with its mark": PLAIN.encode("utf-16"),
    "UTF-32": PLAIN.encode("utf-32"),
    "a byte-order mark": b"\xef\xbb\xbf" + PLAIN.encode(),
    "Latin-1": saying('"Gr\u00fc\u00dfe"').encode("latin-1"),
    "an overlong NUL": saying('"?"').encode().replace(b"?", b"\xc0\x80"),
    "a byte past Unicode": saying('"?"').encode().replace(b"?", b"\xf5\x80\x80\x80"),
    "NaN": with_field('"temperature": NaN').encode(),
    "Infinity": with_field('"temperature": Infinity').encode(),
    "minus Infinity": with_field('"temperature": -Infinity').encode(),
    "1e999": with_field('"temperature": 1e999').encode(),
    "-1e999": with_field('"temperature": -1e999').encode(),
    "1e999 in an unknown field": with_field('"foo": 1e999').encode(),
    "an integer of 5,000 digits": with_field(f'"seed": {"9" * 5000}').encode(),
    "5,000 digits in an unknown field": with_field(f'"foo": {"9" * 5000}').encode(),
    "a leading zero": with_field('"temperature": 01').encode(),
    "a plus sign": with_field('"temperature": +1').encode(),
    "a hexadecimal number": with_field('"seed": 0x10').encode(),
    "single quotes": PLAIN.replace('"', "'").encode(),
    "a trailing comma": (PLAIN[:-1] + ",}").encode(),
    "a comment": ("/* */" + PLAIN).encode(),
    "two documents": (PLAIN + PLAIN).encode(),
    "text behind": (PLAIN + "x").encode(),
    "a raw newline in a string": saying('"a\nb"').encode(),
    "an unknown escape": saying('"\\x41"').encode(),
    "100,000 open brackets": b"[" * 100_000,
    "100,000 nested arrays": with_field(f'"foo": {"[" * 100_000}{"]" * 100_000}').encode(),
    "100,000 nested objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "129 levels": with_field(f'"foo": {"[" * 128}{"]" * 128}').encode(),
    "nothing but spaces": b"   ",
    "form data": b"model=plain%2Ffirst&messages=Hello",
    "multipart": b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nx\r\n--b--\r\n',
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
    "an escaped quote among brackets": saying('"\\"' + "[" * 500 + '\\\\"').encode(),
    "a surrogate pair": saying('"\\ud83e\\udd8a"').encode(),
    "U+FFFF and private use": saying('"\uffff\ue000\U0010ffff"').encode(),
    "control characters escaped": saying('"\\u0001\\u001f\\u007f"').encode(),
    "right-to-left marks": saying('"\u202e\u2066abc\u200f"').encode(),
    "spaces around": b" \t\r\n" + PLAIN.encode() + b" \n",
    "1e-999": with_field('"temperature": 1e-999').encode(),
    "minus zero": with_field('"temperature": -0.0').encode(),
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


def test_of_duplicate_keys_the_last_counts(desk: Desk) -> None:
    body = with_field('"temperature": 0.1, "temperature": 9, "temperature": 0.3').encode()
    desk.raw(body)
    wrong = with_field('"temperature": 0.1, "temperature": 9').encode()
    refused = desk.raw(wrong)

    assert desk.the_one_sent("first")["temperature"] == 0.3
    assert refused.status_code == 400


@pytest.mark.parametrize(
    ("field", "digits", "status"),
    [
        ("seed", "9" * 300, 400),
        ("seed", "9223372036854775808", 400),
        ("seed", "-9223372036854775809", 400),
        ("max_tokens", "0", 400),
        ("max_tokens", "9" * 300, 200),
        ("top_k", "9" * 300, 200),
        ("temperature", "9" * 300, 400),
        ("seed", "9223372036854775807", 200),
        ("seed", "5.0", 200),
        ("seed", "5.5", 400),
        ("max_tokens", "1e2", 200),
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


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json; charset=klingon",
        "application/json; charset=utf-16",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=b",
        "multipart/form-data",
        "",
        "\u00ff;;;==",
        "application/json; " + "a=b; " * 500,
    ],
)
def test_a_json_body_is_read_whatever_the_header_says(desk: Desk, content_type: str) -> None:
    headers = {"Content-Type": content_type.encode("latin-1")}

    answer = desk.raw(PLAIN.encode(), headers=headers)  # type: ignore[arg-type]  # Bytes travel as they are.

    assert answer.status_code == 200, answer.text
    assert desk.the_one_sent("first")["messages"] == HELLO


# One wrong value of each JSON type; a field takes all but its own.
VALUES: dict[str, Any] = {
    "string": "x",
    "number": 1.5,
    "boolean": True,
    "array": [1],
    "object": {"odd": 1},
}
TYPES: dict[str, set[str]] = {
    "messages": set(),
    "model": {"string"},
    "models": set(),
    "route": set(),
    "provider": set(),
    "preset": {"string"},
    "plugins": set(),
    "stream": {"boolean"},
    "stream_options": {"object"},
    "max_completion_tokens": set(),
    "max_tokens": set(),
    "temperature": {"number"},
    "top_p": set(),
    "top_k": set(),
    "min_p": {"number"},
    "top_a": set(),
    "frequency_penalty": {"number"},
    "presence_penalty": {"number"},
    "repetition_penalty": {"number"},
    "logit_bias": {"object"},
    "logprobs": {"boolean"},
    "top_logprobs": set(),
    "seed": set(),
    "stop": {"string"},
    "tools": set(),
    "tool_choice": set(),
    "parallel_tool_calls": {"boolean"},
    "max_tool_calls": set(),
    "stop_server_tools_when": set(),
    "response_format": set(),
    "structured_outputs": {"boolean"},
    "reasoning": {"object"},
    "reasoning_effort": set(),
    "include_reasoning": {"boolean"},
    "verbosity": set(),
    "modalities": set(),
    "audio": set(),
    "image_config": {"object"},
    "prediction": set(),
    "cache_control": set(),
    "prompt_cache_key": {"string"},
    "prompt_cache_options": set(),
    "service_tier": set(),
    "debug": {"object"},
    "metadata": set(),
    "session_id": {"string"},
    "trace": {"object"},
    "user": {"string"},
    "transforms": set(),
    "web_search_options": {"object"},
    "n": set(),
}
WRONG = [(f, kind) for f, right in TYPES.items() for kind in VALUES if kind not in right]


@pytest.mark.parametrize(("field", "kind"), WRONG, ids=[f"{f} a {kind}" for f, kind in WRONG])
def test_a_wrong_type_names_its_field(desk: Desk, field: str, kind: str) -> None:
    error = desk.refused(400, "invalid_request", **{field: VALUES[kind]})

    assert issue_paths(error)
    assert {path.split(".")[0] for path in issue_paths(error)} == {field}


@pytest.mark.parametrize(
    ("message", "path"),
    [
        (5, "messages.0"),
        (None, "messages.0"),
        ({}, "messages.0.role"),
        ({"role": 5}, "messages.0.role"),
        ({"role": "user"}, "messages.0.content"),
        ({"role": "user", "content": 5}, "messages.0.content"),
        ({"role": "user", "content": []}, "messages.0.content"),
        ({"role": "user", "content": [5]}, "messages.0.content.0"),
        ({"role": "user", "content": [{"type": "odd"}]}, "messages.0.content.0.type"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages.0.content.0.text"),
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


def test_a_tool_message_that_answers_nothing(desk: Desk) -> None:
    orphan = {"role": "tool", "content": "x", "tool_call_id": "nowhere"}

    error = desk.refused(400, "invalid_prompt", messages=[*HELLO, orphan])

    assert issue_paths(error) == ["messages.1.tool_call_id"]


@pytest.mark.parametrize(
    "headers",
    [
        {"x-session-id": "\u00e4\u00f6"},
        {"X-Router-Title": "\u00ff" * 300},
        {"HTTP-Referer": "x" * 2000},
        {"X-Router-Categories": ",,,a,b,c," + "d" * 500},
        {"X-Router-Metadata": "\u00ff"},
        {"User-Agent": "\u00e9" * 600},
        {"Accept": "text/html"},
        {"Accept-Encoding": "gzip, br"},
        {"X-HTTP-Method-Override": "DELETE"},
    ],
    ids=lambda headers: next(iter(headers)),
)
def test_odd_headers_break_nothing(desk: Desk, headers: dict[str, str]) -> None:
    encoded = {name: value.encode("latin-1") for name, value in headers.items()}

    answer = desk.raw(PLAIN.encode(), headers=encoded)  # type: ignore[arg-type]  # Bytes travel as they are.

    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    assert desk.generation(answer.json()["id"])["id"]


@pytest.mark.parametrize(
    "authorization",
    [
        b"Bearer",
        b"Bearer ",
        b"Bearer \xff\xfe",
        b"bearer sk-rt-v1-",
        b"\x80",
        b"Bearer a b c",
        b"Bearer " + b"a" * 4000,
        b"Bearer sk-rt-v1-" + b"0" * 64,
        b"Bearer ' OR 1=1 --",
    ],
)
def test_odd_credentials_are_401(desk: Desk, authorization: bytes) -> None:
    answer = desk.server.post(CHAT, data=PLAIN, headers={"Authorization": authorization})

    assert answer.status_code == 401
    assert answer.json()["error"]["metadata"]["error_type"] == "authentication"
    assert desk.upstream.requests() == []
