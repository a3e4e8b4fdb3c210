"""A decision that chooses the model of `router/auto`: what is asked, what follows, who pays."""

from dataclasses import replace
from typing import Any

import pytest

from tests.conformance.desk import Desk, changed_workspace, exact, nano, saying
from tests.conformance.guarded import set_guardrail
from tests.support.moderating import FORBIDDEN

JUDGE, CODER, TALKER = "typesafe/jev-1.13", "acme/solo", "acme/text"
CLASSES = {
    "code": {"model": CODER, "description": "Programs and their errors"},
    "talk": {"model": TALKER},
}
SURE = {"when": "class", "weights": {"code": 0.05, "talk": 0.95}}
METADATA = {"X-Router-Metadata": "enabled"}


@pytest.fixture
def desk(own_wide_desk: Desk) -> Desk:
    own_wide_desk.upstream.verdicts("native-a", SURE)
    own_wide_desk.upstream.verdicts("native-b", SURE)
    return own_wide_desk


def classifier_request(**changes: Any) -> dict[str, Any]:
    """A request for the router with a classifier, valid but for what `changes` says of that."""
    classifier = {"model": JUDGE, "classes": CLASSES} | changes
    return {
        "model": "router/auto",
        "messages": saying("Good morning"),
        "plugins": [{"id": "auto-router", "classifier": classifier}],
    }


def ask(desk: Desk, **request: Any) -> tuple[Any, Any]:
    """The answer, and what its route says of the classifier."""
    answer = desk.ok(headers=METADATA, **request)
    route = desk.manage("GET", f"/generation/{answer['id']}/route")
    told = exact(route)["data"]["classifier"]
    assert exact(desk.manage("GET", f"/generation?id={answer['id']}"))["data"]["classifier"] == told
    return answer, told


def list_decisions(desk: Desk) -> list[Any]:
    """The bodies of what upstreams were asked to decide."""
    bodies = [each["body"] for each in desk.upstream.requests()]
    return [each for each in bodies if "questions" in each]


def test_the_likeliest_class_s_model_answers_and_the_decision_is_on_the_books(desk: Desk) -> None:
    path = f"/keys/{desk.account.api_key_hash}"
    # The caller's one request, beside which the decision does not count.
    limits = {"rate_limits": [{"requests_per_minute": 1, "concurrent": 1}]}
    assert desk.manage("PATCH", path, limits).status_code == 200
    tags = {"metadata": {"team": "blue"}, "trace": {"team": "red", "feature": "search"}}

    answer, told = ask(desk, **classifier_request(min_confidence=0.5), **tags)

    assert answer["model"] == TALKER
    assert (told["result"], told["label"], told["model"]) == ("class", "talk", TALKER)
    assert told["confidence"] > 0.5
    [sent] = list_decisions(desk)
    assert sent["state"] == "user: Good morning"
    assert list(sent["questions"]["class"]["criteria"]) == ["code", "talk"]
    [stage] = answer["router_metadata"]["pipeline"]
    assert (stage["type"], stage["name"]) == ("classifier", "auto-router")
    decision = desk.generation(told["generation_id"])
    assert decision["tags"] == {"team": "blue", "feature": "search"}
    assert nano(decision["total_cost"]) == nano(told["cost"]) > 0
    assert desk.total_usage_nano() == nano(told["cost"]) + nano(answer["usage"]["cost"])
    desk.server.check_books()


UNUSABLE = {"code": CLASSES["code"], "talk": {"model": "acme/nobody"}}


@pytest.mark.parametrize(
    ("changes", "verdict", "result", "model"),
    [
        ({"min_confidence": 0.99, "fallback": CODER}, SURE, "unsure", CODER),
        ({"min_confidence": 0.99}, SURE, "unsure", None),
        ({"classes": UNUSABLE}, SURE, "class", None),
        ({"fallback": CODER}, {"when": "class", "fault": "500"}, "failed", CODER),
        ({"model": "acme/nobody", "fallback": CODER}, SURE, "failed", CODER),
        ({"timeout_ms": 1}, SURE, "failed", None),
    ],
)
def test_a_request_goes_on_whatever_becomes_of_its_decision(
    desk: Desk, changes: Any, verdict: Any, result: str, model: str | None
) -> None:
    for persona in ("native-a", "native-b"):
        desk.upstream.verdicts(persona, verdict)

    answer, told = ask(desk, **classifier_request(**changes))

    assert (told["result"], told["model"]) == (result, model)
    assert model in (None, answer["model"])
    assert (told["error_type"] is None) == (result != "failed")
    assert desk.total_usage_nano() == nano(told["cost"]) + nano(answer["usage"]["cost"])


def test_a_conversation_keeps_its_model_without_another_decision(desk: Desk) -> None:
    first, _ = ask(desk, session_id="kept", **classifier_request())

    again, told = ask(desk, session_id="kept", **classifier_request())

    assert (again["model"], told) == (first["model"], None)


def test_nobody_classifies_what_guards_may_keep_back(desk: Desk) -> None:
    guard = {"kind": "decision", "model": JUDGE, "on": "input", "on_failure": "open"}
    for action, names in (("flag", ["class", "unsafe"]), ("block", ["unsafe"])):
        before = len(list_decisions(desk))
        set_guardrail(desk, external_guards=[guard | {"action": action, "threshold": 1}])
        _, told = ask(desk, **classifier_request())
        asked = [name for each in list_decisions(desk)[before:] for name in each["questions"]]
        assert (asked, told is None) == (names, action == "block")


def test_nobody_classifies_what_moderation_keeps_back_or_the_cache_answers(desk: Desk) -> None:
    plugins = [*classifier_request()["plugins"], {"id": "moderation"}]
    asked: dict[str, Any] = classifier_request() | {
        "messages": saying(FORBIDDEN),
        "plugins": plugins,
    }
    desk.expect_refusal(403, "content_policy_violation", **asked)
    changed_workspace(desk, response_cache=True)
    ask(desk, **classifier_request())
    # Another key, whose conversation it is not.
    given = {"name": "another", "workspace_id": desk.account.workspace_id}
    key = desk.manage("POST", "/keys", given).json()["key"]
    other = replace(desk, account=replace(desk.account, api_key=key))
    answers = [desk.post(**classifier_request()), other.post(**classifier_request())]
    assert [each.status_code for each in answers] == [200, 200], [each.text for each in answers]
    assert [each.headers["X-Router-Cache-Status"] for each in answers] == ["HIT", "HIT"]
    assert len(list_decisions(desk)) == 1
    other.ok(**classifier_request() | {"messages": saying("Good evening")})
    assert len(list_decisions(desk)) == 2


def test_no_half_of_a_secret_is_classified(desk: Desk) -> None:
    patterns = [{"pattern": "SECRET of [a-z]+", "action": "redact"}]
    set_guardrail(desk, content_filters=patterns)
    text = "SECRET of somebody" + " x" * 3_995
    ask(desk, **classifier_request() | {"messages": saying(text)})
    [sent] = list_decisions(desk)
    assert len(sent["state"]) == 8_000
    assert "body" not in sent["state"]


def test_a_classifier_without_a_choice_is_refused(desk: Desk) -> None:
    desk.expect_refusal(
        400, "invalid_request", **classifier_request(classes={"code": {"model": CODER}})
    )


def test_nobody_pays_for_a_decision_that_no_model_is_left_for(desk: Desk) -> None:
    desk.expect_refusal(404, "not_found", **classifier_request(), provider={"only": ["nobody"]})
