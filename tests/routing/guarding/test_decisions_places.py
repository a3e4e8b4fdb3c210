"""Every text of a request for decisions is looked at, and what it is asked by stays in place."""

from typing import Any

from routing.formats.chat.request import ChatRequest
from routing.formats.decisions.request import parse_decisions, questions_of
from routing.guarding.texts import changed

MAIL = "ada@example.org"


def asking(**body: Any) -> ChatRequest:
    question = {"type": "noul", "instructions": "Is it?"}
    whole = {"model": "m/m", "state": "s", "questions": {"q": question}} | body
    return parse_decisions(whole, session_header=None)


def hidden(text: str, by_user: bool) -> str:
    assert by_user
    return text.replace(MAIL, "[EMAIL]").replace("bob@example.org", "[EMAIL]")


def original(chat: ChatRequest) -> dict[str, Any]:
    assert chat.original is not None
    return chat.original


def test_nothing_to_change_changes_nothing() -> None:
    choice = {"type": "choice", "instructions": "?", "criteria": {"a": None, "b": {"c": [1]}}}
    score = {"type": "score", "instructions": ["?"], "criteria": ["low", "high"]}
    chat = asking(state={"a": [1.5, None]}, questions={"c": choice, "s": score})

    assert changed(chat, hidden) is chat


def test_every_place_is_changed() -> None:
    sides = {"true": MAIL, "false": {"x": MAIL}}
    questions = {
        MAIL: {"type": "noul", "instructions": {MAIL: [MAIL]}, "criteria": sides},
        "s": {"type": "score", "instructions": MAIL, "criteria": [MAIL, [MAIL], "high"]},
    }
    chat = asking(state=[{MAIL: MAIL}, 5], questions=questions)

    new = changed(chat, hidden)

    assert MAIL not in str(original(new)["state"])
    # What the caller calls it is for the caller alone.
    assert list(original(new)["questions"]) == [MAIL, "s"]
    assert MAIL not in str(list(original(new)["questions"].values()))
    assert new.text_bytes < chat.text_bytes
    assert original(chat)["questions"] is questions


def test_labels_that_become_alike_stay_apart() -> None:
    criteria = {MAIL: None, "[EMAIL]": "d", "bob@example.org": "e", "other": None}
    chat = asking(questions={"q": {"type": "choice", "instructions": "?", "criteria": criteria}})

    new = questions_of(original(changed(chat, hidden)))["q"]

    assert new.labels == ("[EMAIL]", "[EMAIL] (2)", "[EMAIL] (3)", "other")
    assert new.criteria == (None, "d", "e", None)
