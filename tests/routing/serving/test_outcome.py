"""What an ended call is charged, and what its record says."""

from typing import Any

import orjson
import pytest

from gateway.http.errors import Unavailable
from routing.metering.settlements import RECORD_COLUMNS
from routing.metering.usage import Usage
from routing.selection.replay import rows_of
from routing.serving.outcome import answered, failed, left_early, measured, price
from routing.serving.records import settle_order
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import attempt_at, call_to, failed_at

TEN_AND_FIVE = Usage(prompt_tokens=10, completion_tokens=5)
COST_NANO = 10 * 1000 + 5 * 2000


def ended(usage: Usage, *, finish: str = "stop", native: str | None = "stop", **more: Any) -> Any:
    call, attempt = call_to(endpoint()), attempt_at(endpoint())
    call.attempts.append(attempt)
    return answered(
        call,
        attempt,
        usage,
        finish_reason=finish,
        native_finish=native,
        service_tier=None,
        **more,
    )


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
def test_what_is_charged(
    usage: Usage, finish: str, native: str | None, cancelled: bool, nano: int
) -> None:
    outcome = ended(usage, finish=finish, native=native, cancelled=cancelled)

    assert outcome.charged_nano == nano
    assert outcome.cost.total_nano == usage.prompt_tokens * 1000 + usage.completion_tokens * 2000


def test_a_cancelled_answer_has_no_finish_reason() -> None:
    assert ended(TEN_AND_FIVE, cancelled=True).finish_reason is None


def test_a_failure_and_an_early_departure_cost_nothing() -> None:
    assert failed(Unavailable()).charged_nano == 0
    assert left_early(call_to(endpoint())).charged_nano == 0


def test_a_broken_stream_keeps_what_the_provider_will_bill() -> None:
    call = call_to(endpoint())
    attempt = failed_at(endpoint(), 502)
    call.attempts.append(attempt)
    cost = price(call, attempt, TEN_AND_FIVE)

    record = settle_order(call, failed(Unavailable(), usage=TEN_AND_FIVE, cost=cost)).record

    assert (record["charge_nano"], record["upstream_cost_nano"]) == (0, COST_NANO)
    assert (record["status"], record["finish_reason"]) == (503, "error")


def test_an_absent_or_incredible_usage_is_counted_by_the_estimator() -> None:
    call = call_to(endpoint(context_length=1000))
    attempt = attempt_at(endpoint(context_length=1000))

    for reported in (None, {"prompt_tokens": -1, "completion_tokens": 10**12}):
        usage = measured(call, attempt, reported, produced_chars=40)
        assert usage == Usage(prompt_tokens=1, completion_tokens=10, estimated=True)


def test_a_completion_count_without_a_prompt_count_is_charged_beside_the_estimate() -> None:
    call, attempt = call_to(endpoint()), attempt_at(endpoint())

    usage = measured(call, attempt, {"prompt_tokens": None, "completion_tokens": 500}, 40)

    assert usage == Usage(prompt_tokens=1, completion_tokens=500, estimated=True)
    assert price(call, attempt, usage).total_nano == 1000 + 500 * 2000


def test_a_charge_above_the_hold_is_flagged() -> None:
    for held_nano, overrun in ((COST_NANO, False), (COST_NANO - 1, True), (None, True)):
        call = call_to(endpoint())
        call.attempts.append(attempt_at(endpoint()))
        call.held_nano = held_nano
        outcome = ended(TEN_AND_FIVE)
        order = settle_order(call, outcome)
        assert order.charge_nano == order.record["charge_nano"] == COST_NANO
        assert order.record["overrun"] is overrun


def test_the_record_has_every_column_and_the_price_list_that_was_pinned() -> None:
    call = call_to(endpoint("alpha"))
    call.attempts += [failed_at(endpoint("beta"), 500), attempt_at(endpoint("alpha"), status=200)]

    record = settle_order(call, ended(TEN_AND_FIVE)).record

    assert set(record) == set(RECORD_COLUMNS)
    assert (record["provider_name"], record["endpoint_tag"]) == ("Alpha", "alpha")
    assert [each["status"] for each in orjson.loads(record["attempts"])] == [500, 200]
    assert orjson.loads(record["detail"])["pricing"] == {
        "prompt": "0.000001",
        "completion": "0.000002",
    }


def test_the_record_says_why_it_went_where_it_went() -> None:
    alpha, beta, gamma = endpoint("alpha"), endpoint("beta"), endpoint("gamma")
    call = call_to(beta, alpha, gamma)
    call.attempts += [failed_at(beta, 500), attempt_at(alpha, status=200)]

    trace = orjson.loads(settle_order(call, ended(TEN_AND_FIVE)).record["trace"])

    assert [(row.tag, row.verdict, row.why) for row in rows_of(trace)] == [
        ("beta", "failed", "provider_overloaded"),
        ("alpha", "chosen", None),
        ("gamma", "in reserve", None),
    ]
    assert (trace["requested"], trace["models"]) == (["acme/small"], ["acme/small"])


def test_a_call_that_ends_in_an_error_of_ours_chose_nobody() -> None:
    call = call_to(endpoint("alpha"))
    call.attempts.append(attempt_at(call.plan.order[0]))

    trace = orjson.loads(settle_order(call, failed(Unavailable())).record["trace"])

    (row,) = rows_of(trace)
    assert (row.verdict, row.why) == ("failed", "provider_overloaded")


def test_long_words_of_an_upstream_fit_their_columns() -> None:
    call = call_to(endpoint())
    call.attempts.append(attempt_at(endpoint(), upstream_id="u" * 5000))

    record = settle_order(call, ended(TEN_AND_FIVE, native="n" * 5000)).record

    assert len(record["upstream_id"]) == 200
    assert len(record["native_finish_reason"]) == 64


def test_the_record_names_the_format_beside_the_api() -> None:
    call = call_to(endpoint())
    call.attempts.append(attempt_at(endpoint()))

    record = settle_order(call, ended(TEN_AND_FIVE)).record

    assert record["api_type"] == "completions"
    assert orjson.loads(record["detail"])["format"] == "chat"
