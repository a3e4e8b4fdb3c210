"""B3: odd bytes and wrong types. Each has the status the reference lists, with the field named
where there is one; never a 5xx, never a page; and nothing reaches an upstream or the books."""

import json

import pytest

from tests.conformance.desk import HELLO, Desk

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
    "a lone surrogate": saying('"\\ud800"').encode(),
    "UTF-16 with its mark": PLAIN.encode("utf-16"),
    "5,000 digits in an unknown field": with_field(f'"foo": {"9" * 5000}').encode(),
    "100,000 nested arrays": with_field(f'"foo": {"[" * 100_000}{"]" * 100_000}').encode(),
    "form data": b"model=plain%2Ffirst&messages=Hello",
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_no_json_is_malformed(desk: Desk, body: bytes) -> None:
    error = desk.check_refused(desk.raw(body), 400, "invalid_request")

    assert error["message"].startswith("Invalid JSON in request body")


FINE: dict[str, bytes] = {
    "128 levels": with_field(f'"foo": {"[" * 127}{"]" * 127}').encode(),
    "U+FFFF, a surrogate pair": saying('"\uffff\ue000\\ud83e\\udd8a"').encode(),
    "an integer of 300 digits in an unknown field": with_field(f'"foo": {"9" * 300}').encode(),
}


@pytest.mark.parametrize("body", FINE.values(), ids=FINE.keys())
def test_odd_but_legal_json_is_served(desk: Desk, body: bytes) -> None:
    answer = desk.raw(body)

    assert answer.status_code == 200, answer.text
    sent = desk.the_one_sent("first")
    assert sent["messages"] == json.loads(body)["messages"]
    assert "foo" not in sent


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
