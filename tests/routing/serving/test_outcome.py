"""What an ended call is charged, and what its record says."""

from typing import Any

import orjson
import pytest

from gateway.http.errors import Unavailable
from routing.ledger.records import RECORD_COLUMNS
from routing.metering.cost import Cost
from routing.metering.usage import Usage
from routing.selection.replay import read_rows
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.outcome import (
    Outcome,
    abandoned_outcome,
    answered_outcome,
    failed_outcome,
    measure_usage,
    price,
)
from routing.serving.settlement.records import settle_order
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import attempt_at, call_to, failed_at, own_entry

TEN_AND_FIVE = Usage(prompt_tokens=10, completion_tokens=5)
COST_NANO = 10 * 1000 + 5 * 2000
ALPHA, BETA, GAMMA = (endpoint(name) for name in ("alpha", "beta", "gamma"))


def call_after(*attempts: Attempt) -> RequestProgress:
    call = call_to(*(each.endpoint for each in attempts))
    call.attempts += attempts
    return call


def end_answer(
    usage: Usage, *, finish: str = "stop", native: str | None = "stop", **more: Any
) -> Any:
    attempt = attempt_at(endpoint())
    more |= {"finish_reason": finish, "native_finish": native, "service_tier": None}
    return answered_outcome(call_after(attempt), attempt, usage, **more)


def read_record(call: RequestProgress, outcome: Outcome) -> dict[str, Any]:
    return settle_order(call, outcome).record


CHARGED: list[tuple[Usage, str, str | None, bool, int]] = [
    (TEN_AND_FIVE, "stop", "stop", False, COST_NANO),
    (TEN_AND_FIVE, "stop", None, False, COST_NANO),
    (TEN_AND_FIVE, "length", "max_tokens", False, COST_NANO),
    # Zero completion tokens and no finish reason: free. With a reason of its own: charged.
    (Usage(10, 0), "stop", None, False, 0),
    (Usage(10, 0), "stop", "stop", False, 10_000),
    (TEN_AND_FIVE, "error", "error", False, 0),
    # Whoever hangs up pays the prompt and what was produced, even when that is nothing yet.
    (TEN_AND_FIVE, "stop", None, True, COST_NANO),
    (Usage(10, 0), "stop", None, True, 10_000),
]


@pytest.mark.parametrize(("usage", "finish", "native", "cancelled", "nano"), CHARGED)
def test_what_is_charged(usage: Usage, finish, native, cancelled: bool, nano: int) -> None:
    outcome = end_answer(usage, finish=finish, native=native, cancelled=cancelled)
    assert outcome.charged_nano == nano
    assert outcome.cost.total_nano == usage.prompt_tokens * 1000 + usage.completion_tokens * 2000
    assert outcome.finish_reason == (None if cancelled else finish)


def test_a_failure_and_an_early_departure_cost_nothing() -> None:
    assert failed_outcome(Unavailable()).charged_nano == 0
    assert abandoned_outcome(call_to(endpoint())).charged_nano == 0


def test_a_broken_stream_keeps_what_the_provider_will_bill() -> None:
    attempt = failed_at(endpoint(), 502)
    call = call_after(attempt)
    cost = price(call, attempt, TEN_AND_FIVE)
    told = read_record(call, failed_outcome(Unavailable(), usage=TEN_AND_FIVE, cost=cost))
    assert (told["charge_nano"], told["upstream_cost_nano"]) == (0, COST_NANO)
    assert (told["status"], told["finish_reason"]) == (503, "error")


@pytest.mark.parametrize(
    ("reported", "completion"),
    [
        (None, 10),
        ({"prompt_tokens": -1, "completion_tokens": 10**12}, 10),
        # A count without the other one is charged beside the estimate.
        ({"prompt_tokens": None, "completion_tokens": 500}, 500),
    ],
)
def test_what_was_not_told_is_counted_by_the_estimator(reported: Any, completion: int) -> None:
    attempt = attempt_at(endpoint(context_length=1000))
    call = call_to(attempt.endpoint)
    usage = measure_usage(call, attempt, reported, produced_chars=40)
    assert usage == Usage(prompt_tokens=1, completion_tokens=completion, estimated=True)
    assert price(call, attempt, usage).total_nano == 1000 + completion * 2000


@pytest.mark.parametrize(
    ("held_nano", "overrun"), [(COST_NANO, False), (COST_NANO - 1, True), (None, True)]
)
def test_a_charge_above_the_hold_is_flagged(held_nano: int | None, overrun: bool) -> None:
    call = call_after(attempt_at(endpoint()))
    call.held_nano = held_nano
    order = settle_order(call, end_answer(TEN_AND_FIVE))
    assert order.charge_nano == order.record["charge_nano"] == COST_NANO
    assert order.record["overrun"] is overrun


def test_the_record_has_every_column_and_the_price_list_that_was_pinned() -> None:
    call = call_after(failed_at(BETA, 500), attempt_at(ALPHA, status=200))
    told = read_record(call, end_answer(TEN_AND_FIVE))
    assert set(told) == set(RECORD_COLUMNS)
    assert (told["provider_name"], told["endpoint_tag"]) == ("Alpha", "alpha")
    assert [each["status"] for each in orjson.loads(told["attempts"])] == [500, 200]
    detail, prices = orjson.loads(told["detail"]), {"prompt": "0.000001", "completion": "0.000002"}
    assert (told["api_type"], detail["format"]) == ("completions", "chat")
    assert detail["pricing"] == prices


def trace_of(call: RequestProgress, outcome: Outcome) -> tuple[Any, list[Any]]:
    trace = orjson.loads(read_record(call, outcome)["trace"])
    return trace, [(row.tag, row.verdict, row.why) for row in read_rows(trace)]


def test_the_record_says_why_it_went_where_it_went() -> None:
    call = call_to(BETA, ALPHA, GAMMA)
    call.attempts += [failed_at(BETA, 500), attempt_at(ALPHA, status=200)]
    trace, rows = trace_of(call, end_answer(TEN_AND_FIVE))
    failed_first = ("beta", "failed", "provider_overloaded")
    assert rows == [failed_first, ("alpha", "chosen", None), ("gamma", "in reserve", None)]
    assert (trace["requested"], trace["models"]) == (["acme/small"], ["acme/small"])


def test_a_call_that_ends_in_an_error_of_ours_chose_nobody() -> None:
    _, rows = trace_of(call_after(attempt_at(ALPHA)), failed_outcome(Unavailable()))
    assert rows == [("alpha", "failed", "provider_overloaded")]


def test_long_words_of_an_upstream_fit_their_columns() -> None:
    call = call_after(attempt_at(endpoint(), upstream_id="u" * 5000))
    told = read_record(call, end_answer(TEN_AND_FIVE, native="n" * 5000))
    assert (len(told["upstream_id"]), len(told["native_finish_reason"])) == (200, 64)


# What the answer cost by the lists, what was charged, the list price on the team's own credentials,
# what of the charge is no fee. Then what the record says of cost and fee, if anything.
OWN_PARTS: list[tuple[str, bool, int, int, int, int, tuple[int, int] | None]] = [
    ("all shared", False, 100, 100, 0, 0, None),
    ("all own, with a fee", True, 100, 5, 100, 0, None),
    ("all own, without one", True, 100, 0, 100, 0, None),
    ("own and charged nothing for", True, 100, 0, 0, 0, None),
    ("both, the own one last", True, 100, 43, 60, 40, (60, 3)),
    ("both, the own one first", False, 100, 43, 60, 40, (60, 3)),
    ("both, and no fee", False, 100, 40, 60, 40, (60, 0)),
    ("own, some of it of no use", True, 100, 4, 80, 0, (80, 4)),
    ("shared, and the last one free and own", True, 40, 40, 0, 0, (0, 0)),
]


@pytest.mark.parametrize("row", OWN_PARTS, ids=[row[0] for row in OWN_PARTS])
def test_the_record_tells_the_part_on_a_team_s_own_credentials(row: Any) -> None:
    _, is_own_last, cost_nano, charged_nano, own_nano, shared_nano, told = row
    owns = (None, own_entry()) if is_own_last else (own_entry(), None)
    call = call_after(*(attempt_at(endpoint(), own=own) for own in owns))
    money = {"charged_nano": charged_nano, "byok_nano": own_nano, "shared_nano": shared_nano}
    outcome = Outcome(status=200, usage=Usage(1, 1), cost=Cost(cost_nano, 0, 0), **money)

    detail = orjson.loads(read_record(call, outcome)["detail"])

    said = (detail.get("own_cost_nano"), detail.get("own_fee_nano"))
    assert said == (told or (None, None))
    assert ("byok" in detail) == (is_own_last or own_nano > 0)
