"""What decisions cost, whoever's credential they are asked with, and what is held for them."""

from typing import Any

import pytest

from tests.conformance.deciding import CHOICE, NOUL, SCORE, DecisionsDesk, judging
from tests.conformance.desk import Desk, exact, nano
from tests.conformance.own_credentials import bring, credentials_at, fingerprint
from tests.conformance.test_own_credentials_in_the_books import figures
from tests.support.gateways import seed_account
from tests.support.server import as_json

QUESTIONS: dict[str, Any] = {"noul": NOUL, "team": CHOICE, "mood": SCORE}
METADATA = {"X-Router-Metadata": "enabled"}
# Nano-USD per prompt and completion token.
PRICES = {"native-a": (1000, 2000), "judge-a": (1000, 2000), "judge-b": (2000, 4000)}
MINE = "sk-mine-0123456789abcdef"


def list_nano(usage: Any, persona: str) -> int:
    prompt, completion = PRICES[persona]
    return int(usage["input_tokens"]) * prompt + int(usage["output_tokens"]) * completion


@pytest.mark.parametrize(
    ("model", "persona"), [("typesafe/jev-1.13", "native-a"), ("acme/judge", "judge-a")]
)
def test_the_sum_of_all_calls_is_charged(deciding: DecisionsDesk, model: str, persona: str) -> None:
    response = deciding.post(model=model, questions=QUESTIONS, provider={"only": [persona]})

    usage = exact(response)["usage"]
    assert deciding.paid(response) == list_nano(usage, persona) > 0
    calls = deciding.upstream.requests(persona)
    assert len(calls) == (1 if persona == "native-a" else 3)
    assert usage["output_tokens"] == 3


def test_two_endpoints_are_paid_at_their_own_prices(deciding: DecisionsDesk) -> None:
    fault = {"when": "Does", "fault": "500"}
    deciding.upstream.verdicts("judge-a", fault)
    order = {"order": ["judge-a", "judge-b"]}

    response = deciding.post(model="acme/judge", questions=QUESTIONS, provider=order)

    paid = deciding.paid(response)
    usage = exact(response)["usage"]
    low, high = list_nano(usage, "judge-a"), list_nano(usage, "judge-b")
    assert low < paid < high
    record = deciding.generation(response.headers["X-Generation-Id"])
    assert [each["status"] for each in record["provider_responses"]] == [500, 200]


def test_what_was_of_no_use_is_not_charged(deciding: DecisionsDesk) -> None:
    useless = {"when": "Which", "tokens": [["?", -0.1]]}
    deciding.upstream.verdicts("judge-a", useless)
    order = {"order": ["judge-a", "judge-b"]}
    alone = deciding.paid(
        deciding.post(
            model="acme/judge", questions={"team": CHOICE}, provider={"only": ["judge-b"]}
        )
    )

    response = deciding.post(model="acme/judge", questions={"team": CHOICE}, provider=order)

    assert deciding.paid(response) == alone


def test_usage_that_is_not_told_is_estimated(deciding: DecisionsDesk) -> None:
    for persona in ("native-a", "judge-a"):
        deciding.upstream.script(persona, {"usage": None}, repeat=True)

    for model, persona in (("typesafe/jev-1.13", "native-a"), ("acme/judge", "judge-a")):
        response = deciding.post(model=model, provider={"only": [persona]})
        assert deciding.paid(response) > 0


def test_a_team_s_own_credential_comes_first_and_costs_nothing(
    own_deciding: DecisionsDesk,
) -> None:
    deciding = own_deciding
    bring(deciding, "judge-b", MINE)

    response = deciding.post(model="acme/judge", questions=QUESTIONS, headers=METADATA)

    assert deciding.paid(response) == 0
    assert credentials_at(deciding) == [fingerprint(MINE)] * 3
    body = exact(response)
    assert body["router_metadata"]["is_byok"] is True
    record = deciding.generation(body["id"])
    assert record["is_byok"] is True
    assert nano(record["upstream_inference_cost"]) == list_nano(body["usage"], "judge-b")


def told_by_analytics(desk: DecisionsDesk) -> dict[str, int]:
    metrics = ["byok_usage", "byok_fees", "router_usage", "total_usage"]
    response = desk.manage("POST", "/analytics/query", {"metrics": metrics})
    [row] = exact(response)["data"]["data"]
    return {name: nano(row[name]) for name in metrics}


def test_own_and_shared_credentials_in_one_request(
    equipped_desk: Desk,
) -> None:
    desk = judging(equipped_desk)
    bring(desk, "judge-a", MINE)
    desk.upstream.verdicts("judge-a", {"when": "Does", "fault": "500"})
    order = {"order": ["judge-a", "judge-b"]}

    # Of the other model failures may be remembered there.
    response = desk.post(model="acme/warm", questions=QUESTIONS, provider=order)

    usage, own = exact(response)["usage"], desk.upstream.requests("judge-a")
    answer_id = as_json(response)["id"]
    assert len(own) >= 3
    assert len(desk.upstream.requests("judge-b")) == 1
    entries = desk.server.manage("ledger", "--generation", answer_id)["entries"]
    amounts = {entry["kind"]: entry["amount_nano"] for entry in entries}
    assert min(amounts["usage"], amounts["byok_fee"]) > 0
    assert desk.total_usage_nano() == nano(usage["cost"]) == sum(amounts.values())
    own_nano = figures(desk)[1]
    record = desk.generation(answer_id)
    assert nano(record["upstream_inference_cost"]) == own_nano > 0
    assert told_by_analytics(desk) == {
        "byok_usage": own_nano,
        "byok_fees": amounts["byok_fee"],
        "router_usage": amounts["usage"],
        "total_usage": own_nano + sum(amounts.values()),
    }
    desk.server.check_books()


def test_a_refused_credential_of_the_team_s_own(own_deciding: DecisionsDesk) -> None:
    deciding = own_deciding
    bring(deciding, "native-a", MINE)
    deciding.upstream.script("native-a", {"fault": "401"})

    response = deciding.post(provider={"order": ["native-a"]}, headers=METADATA)

    # The gateway's own does it instead.
    assert deciding.paid(response) > 0
    told = as_json(response)["router_metadata"]
    assert [each["status"] for each in told["attempts"]] == [401, 200]
    assert MINE not in response.text


def test_a_dearer_fallback_that_cannot_be_paid_is_not_asked(deciding: DecisionsDesk) -> None:
    # Enough for what is held at the first endpoint, not for the second.
    poor = seed_account(deciding.server, credits_usd="0.0012")
    desk = DecisionsDesk(deciding.server, deciding.upstream, poor, "acme/judge")
    desk.upstream.script("judge-a", {"fault": "500"}, repeat=True)
    order = {"order": ["judge-a", "judge-b"]}

    response = desk.post(questions={f"q{n}": NOUL for n in range(3)}, provider=order)

    desk.check_error(response, 402, "payment_required")
    assert len(desk.upstream.requests("judge-a")) == 3
    assert desk.upstream.requests("judge-b") == []
    assert desk.total_usage_nano() == 0


def test_once_by_its_key(deciding: DecisionsDesk) -> None:
    headers = {"Idempotency-Key": "once"}

    first, second = (deciding.post(headers=headers) for _ in range(2))

    assert as_json(first) == as_json(second)
    assert as_json(first)["id"].startswith("gen-dec-")
    assert len(deciding.upstream.requests()) == 1
    deciding.paid(first)
