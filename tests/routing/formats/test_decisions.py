"""A decisions body as it is read."""

from typing import Any

import pytest

from routing.decisions.question import TypedQuestion
from routing.formats.chat.request import ChatInvalid
from routing.formats.decisions import parse_decisions, read_questions, resolve_name

NOUL = {"type": "noul", "instructions": "Why?"}
BODY: dict[str, Any] = {"model": "m/m", "state": "s", "questions": {"q": NOUL}}


def test_questions_in_their_order() -> None:
    body = {
        "questions": {
            "z": NOUL,
            "a": {**NOUL, "criteria": {"true": "t", "false": ["f"], "odd": 1}},
            "m": {"type": "choice", "instructions": ["?"], "criteria": {"y": None, "x": {"d": 1}}},
            "b": {"type": "score", "instructions": {}, "criteria": ["low", "high"]},
        }
    }
    assert read_questions(body) == {
        "z": TypedQuestion("noul", "Why?", ("yes", "no"), (None, None)),
        "a": TypedQuestion("noul", "Why?", ("yes", "no"), ("t", ["f"])),
        "m": TypedQuestion("choice", ["?"], ("y", "x"), (None, {"d": 1})),
        "b": TypedQuestion("score", {}, ("0", "1"), ("low", "high")),
    }
    assert list(read_questions(body)) == ["z", "a", "m", "b"]


def test_what_the_pipeline_asks_of_a_request() -> None:
    body = BODY | {"user": "u", "trace": {"x": 1}, "provider": {"zdr": True}, "stream": True}
    request = parse_decisions(body, session_header="header", beside={"models": ["n/n"]})
    assert request.decides
    assert request.candidates == ["m/m", "n/n"]
    assert (request.session_id, request.user, request.trace) == ("header", "u", {"x": 1})
    assert request.provider is not None
    assert request.provider.zdr
    assert not request.stream
    assert request.supplied_parameters == frozenset()
    assert request.output_modalities == frozenset()
    assert request.original is body


def test_the_body_s_session_comes_first_and_both_have_a_longest() -> None:
    request = parse_decisions(BODY | {"session_id": "own"}, session_header="header")
    assert request.session_id == "own"
    assert parse_decisions(BODY | {"session_id": ""}, session_header="h").session_id == "h"
    with pytest.raises(ChatInvalid) as refused:
        parse_decisions(BODY, session_header="h" * 257)
    assert [issue.path for issue in refused.value.issues] == ["x-session-id"]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("jev-1.13", "space/jev-1.13"),
        ("jev-latest", "~space/jev-latest"),
        ("-latest", "~space/-latest"),
        ("latest", "space/latest"),
        ("space/jev", "space/jev"),
        ("~space/jev-latest", "~space/jev-latest"),
        ("~jev", "~jev"),
        ("@preset/x", "@preset/x"),
        ("", ""),
    ],
)
def test_names_without_an_author(given: str, meant: str) -> None:
    assert resolve_name(given, "space") == meant
