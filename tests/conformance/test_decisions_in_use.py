"""Guardrails, presets, contents and virtual routers where decisions are asked for."""

from typing import Any

import pytest

from tests.conformance.deciding import CHOICE, NOUL, SCORE, SYSTEMONE, DecisionsDesk
from tests.conformance.guarded import governed
from tests.support.server import as_json

MAIL = "ada@example.org"
OPT_IN = {"X-Router-Metadata": "enabled"}


def filtering(action: str) -> dict[str, Any]:
    return {"content_filter_builtins": [{"slug": "email", "action": action}]}


def test_texts_are_redacted_wherever_they_stand(deciding: DecisionsDesk) -> None:
    governed(deciding, **filtering("redact"))
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
@pytest.mark.parametrize(
    "body",
    [
        {"state": [{"deep": MAIL}]},
        {"questions": {"q": {**NOUL, "instructions": {"ask": MAIL}}}},
        {"questions": {"q": {**CHOICE, "criteria": {MAIL: None, "b": None}}}},
        {"questions": {"q": {**NOUL, "criteria": {"true": MAIL, "false": "no"}}}},
    ],
)
def test_a_guardrail_blocks(deciding: DecisionsDesk, model: str, body: dict[str, Any]) -> None:
    governed(deciding, **filtering("block"))

    response = deciding.post(model=model, headers=OPT_IN, **body)

    deciding.check_refused(response, 403, "permission_denied")
    [stage] = as_json(response)["router_metadata"]["pipeline"]
    assert stage["data"]["action"] == "blocked"


def test_a_flag_counts_each_text_once(deciding: DecisionsDesk) -> None:
    governed(deciding, **filtering("flag"))

    response = deciding.post(state=f"{MAIL} and {MAIL}", headers=OPT_IN)

    [stage] = as_json(response)["router_metadata"]["pipeline"]
    assert stage["data"] == {"action": "flagged", "detected": ["email"], "matches": 2}


def test_a_guardrail_narrows_models_and_providers(deciding: DecisionsDesk) -> None:
    governed(deciding, allowed_providers=["native-b"])

    response = deciding.post()
    deciding.paid(response)
    assert as_json(response)["provider"] == "Native B"
    deciding.upstream.clear()
    deciding.check_refused(deciding.post(model="acme/judge"), 403, "permission_denied")


def saved(desk: DecisionsDesk, **config: Any) -> None:
    response = desk.server.post(
        "/api/v1/presets/judging/chat/completions",
        key=desk.account.api_key,
        json={"messages": [{"role": "system", "content": "Be short."}], **config},
    )
    assert response.status_code == 200, response.text


@pytest.mark.parametrize("reference", ["@preset/judging", "acme/off@preset/judging"])
def test_a_preset_says_who_is_asked(deciding: DecisionsDesk, reference: str) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    saved(
        deciding, model="acme/judge", temperature=1.5, tools=[tool], provider={"only": ["judge-b"]}
    )

    response = deciding.post(model=reference, headers=OPT_IN)

    if reference.startswith("acme"):
        deciding.check_refused(response, 400, "invalid_request")
        return
    assert response.status_code == 200, response.text
    body = as_json(response)
    assert (body["model"], body["provider"]) == ("acme/judge", "Judge B")
    assert body["router_metadata"]["requested"] == reference
    sent = deciding.the_one_sent("judge-b")
    assert sent["temperature"] == 0
    assert "tools" not in sent
    assert "Be short." not in str(sent)


def test_further_models_of_a_preset_are_fallen_back_to(deciding: DecisionsDesk) -> None:
    saved(deciding, models=["typesafe/jev-1.13", "acme/judge"])
    for persona in ("native-a", "native-b"):
        deciding.upstream.script(persona, {"fault": "500"}, repeat=True)

    body = as_json(deciding.at(SYSTEMONE).post(model="@preset/judging", headers=OPT_IN))

    assert body["model"] == "acme/judge"
    assert body["router_metadata"]["strategy"] == "fallback"


def test_an_unknown_preset(deciding: DecisionsDesk) -> None:
    deciding.refused(404, "not_found", model="@preset/nowhere")


@pytest.mark.parametrize("model", ["router/auto", "router/free"])
def test_a_virtual_router_finds_a_model_that_decides(deciding: DecisionsDesk, model: str) -> None:
    response = deciding.post(model=model, headers=OPT_IN)

    assert response.status_code == 200, response.text
    body = as_json(response)
    assert body["model"] not in ("acme/off", "acme/plain")
    assert body["router_metadata"]["strategy"] == model.partition("/")[2]


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
    path = f"/api/v1/workspaces/{deciding.account.workspace_id}"
    wish = {"is_observability_io_logging_enabled": True}
    changed = deciding.server.request("PATCH", path, key=deciding.account.management_key, json=wish)
    assert changed.status_code == 200, changed.text

    answer = as_json(deciding.post(state="All is well"))

    kept = deciding.server.get(
        f"/api/v1/generation/content?id={answer['id']}", key=deciding.account.api_key
    )
    assert kept.status_code == 200, kept.text
    data = as_json(kept)["data"]
    assert "All is well" in str(data["input"])
    assert "noul" in data["output"]["completion"]


def test_chat_cannot_be_had_of_a_model_that_only_decides(deciding: DecisionsDesk) -> None:
    response = deciding.server.chat(
        key=deciding.account.api_key,
        model="typesafe/jev-1.13",
        messages=[{"role": "user", "content": "Hello"}],
    )

    deciding.check_refused(response, 400, "invalid_request")
