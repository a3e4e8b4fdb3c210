"""Guardrails, presets, contents and virtual routers where decisions are asked for."""

from typing import Any

import pytest

from tests.conformance.deciding import CHOICE, NOUL, SCORE, DecisionsDesk
from tests.conformance.desk import changed_workspace
from tests.conformance.guarded import make_assigned
from tests.conformance.test_management_rows_presets import make_ok
from tests.support.server import as_json

MAIL = "ada@example.org"
OPT_IN = {"X-Router-Metadata": "enabled"}


@pytest.fixture
def deciding(own_deciding: DecisionsDesk) -> DecisionsDesk:
    return own_deciding


def filtering(action: str) -> dict[str, Any]:
    return {"content_filter_builtins": [{"slug": "email", "action": action}]}


def test_texts_are_redacted_wherever_they_stand(deciding: DecisionsDesk) -> None:
    make_assigned(deciding, **filtering("redact"))
    questions = {
        "q": {**NOUL, "instructions": f"Is {MAIL} angry?"},
        "team": {**CHOICE, "criteria": {MAIL: f"to {MAIL}", "bob@example.org": None, "x": [MAIL]}},
        "mood": {**SCORE, "criteria": [f"{MAIL} rages", {"who": MAIL}, "calm"]},
    }

    answers = deciding.answers(questions, state={"from": [MAIL]}, provider={"only": ["native-a"]})

    sent = deciding.the_one_sent("native-a")
    assert "@example.org" not in str(sent)
    assert len(sent["questions"]["team"]["criteria"]) == 3
    # Whoever asked knows the labels by the names they gave them.
    assert list(answers["team"]["probabilities"]) == [MAIL, "bob@example.org", "x"]


@pytest.mark.parametrize("model", ["typesafe/jev-1.13", "acme/judge"])
def test_a_guardrail_blocks(deciding: DecisionsDesk, model: str) -> None:
    make_assigned(deciding, **filtering("block"))
    asked: list[dict[str, Any]] = [
        {"state": [{"deep": MAIL}]},
        {"questions": {"q": {**NOUL, "instructions": {"ask": MAIL}}}},
        {"questions": {"q": {**CHOICE, "criteria": {MAIL: None, "b": None}}}},
        {"questions": {"q": {**NOUL, "criteria": {"true": MAIL, "false": "no"}}}},
    ]
    for body in asked:
        response = deciding.post(model=model, headers=OPT_IN, **body)
        deciding.check_refused(response, 403, "permission_denied")
        [stage] = as_json(response)["router_metadata"]["pipeline"]
        assert stage["data"]["action"] == "blocked"


def save_preset(desk: DecisionsDesk, **config: Any) -> None:
    system = [{"role": "system", "content": "Be short."}]
    make_ok(desk, "/judging/chat/completions", {"messages": system, **config})


def test_a_preset_says_who_is_asked(deciding: DecisionsDesk) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    only = {"provider": {"only": ["judge-b"]}}
    save_preset(deciding, model="acme/judge", temperature=1.5, tools=[tool], **only)
    deciding.expect_refusal(400, "invalid_request", model="acme/off@preset/judging")
    deciding.expect_refusal(404, "not_found", model="@preset/nowhere")

    response = deciding.post(model="@preset/judging", headers=OPT_IN)

    assert response.status_code == 200, response.text
    body = as_json(response)
    assert (body["model"], body["provider"]) == ("acme/judge", "Judge B")
    assert body["router_metadata"]["requested"] == "@preset/judging"
    sent = deciding.the_one_sent("judge-b")
    assert sent["temperature"] == 0
    assert "tools" not in sent
    assert "Be short." not in str(sent)


def test_a_virtual_router_finds_a_model_that_decides(deciding: DecisionsDesk) -> None:
    for strategy in ("auto", "free"):
        response = deciding.post(model=f"router/{strategy}", headers=OPT_IN)
        assert response.status_code == 200, response.text
        body = as_json(response)
        assert body["model"] not in ("acme/off", "acme/plain")
        assert body["router_metadata"]["strategy"] == strategy


def test_a_session_is_not_kept_at_an_endpoint(deciding: DecisionsDesk) -> None:
    def ask(session: str, **more: Any) -> str:
        response = deciding.post(model="acme/judge", session_id=session, provider=more)
        return str(as_json(response)["provider"])

    # Whichever it is: one that was refused a moment ago by another test comes last.
    chosen = ask("another", sort="price")
    other, name = {"Judge A": ("judge-b", "Judge B"), "Judge B": ("judge-a", "Judge A")}[chosen]
    assert ask("same", order=[other]) == name
    # By price, as if nothing had been answered before.
    assert ask("same", sort="price") == chosen


def test_what_was_said_is_kept_where_that_is_wanted(deciding: DecisionsDesk) -> None:
    changed_workspace(deciding, is_observability_io_logging_enabled=True)

    answer = as_json(deciding.post(state="All is well"))

    path = f"/api/v1/generation/content?id={answer['id']}"
    kept = deciding.server.get(path, key=deciding.account.api_key)
    assert kept.status_code == 200, kept.text
    data = as_json(kept)["data"]
    assert "All is well" in str(data["input"])
    assert "noul" in data["output"]["completion"]
