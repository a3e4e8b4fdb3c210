"""What is counted of one request."""

from types import SimpleNamespace
from typing import Any

import pytest

from routing.monitoring.requests import RequestMetrics
from routing.serving.request.context import Attempt
from tests.routing.reports.test_failure_writer import report
from tests.support.metrics import read_number

RECORD: dict[str, Any] = {
    "model": "acme/small",
    "provider_name": "Own",
    **dict.fromkeys(("tokens_prompt", "tokens_completion", "tokens_cached"), 0),
    **dict.fromkeys(("tokens_reasoning", "upstream_cost_nano", "charge_nano"), 0),
}


def attempt(provider: str, *, failed: bool = False) -> Attempt:
    endpoint: Any = SimpleNamespace(pk=hash(provider), provider=SimpleNamespace(name=provider))
    failure: Any = SimpleNamespace(error_type="provider_unavailable") if failed else None
    return Attempt(endpoint, None, started=1.0, failure=failure)


def count(reported: Any) -> dict[str, float]:
    """What a report adds to what is looked at here."""

    def read() -> dict[str, float]:
        return {
            "ok": read_number("gateway_upstream_attempts_total", provider="Asked", outcome="ok"),
            "own": read_number("gateway_upstream_attempts_total", provider="Own", outcome="ok"),
            "fallbacks": read_number("gateway_fallbacks_total", provider="Broken"),
            "good tools": read_number("gateway_tool_calls_total", tool="clock", outcome="ok"),
            "bad tools": read_number("gateway_tool_calls_total", tool="clock", outcome="failed"),
            "guard": read_number("gateway_guard_checks_total", guard="decision", result="blocked"),
            "repeats": read_number("gateway_repeats_total", format="chat"),
            "cached": read_number("gateway_cache_hits_total"),
        }

    before, metrics = read(), RequestMetrics(lambda: ["acme/small"])
    metrics.observe([reported])
    metrics.write()
    added = {name: now - before[name] for name, now in read().items()}
    return {name: number for name, number in added.items() if number}


def test_tools_and_the_models_that_they_asked_are_counted() -> None:
    plain = {"error": None, "status": 200, "record": RECORD}
    # The second question goes nowhere from the failure that ended the first.
    asked = [[attempt("Asked"), attempt("Broken", failed=True)], [attempt("Asked")]]
    answered = report(
        **plain,
        attempts=[attempt("Own")],
        submodel_attempts=[*asked, [attempt("Broken", failed=True), attempt("Asked")]],
        ended_calls={("clock", False): 2, ("clock", True): 1},
    )

    assert count(answered) == {"ok": 3, "own": 1, "fallbacks": 1, "good tools": 2, "bad tools": 1}


def test_what_guards_say_is_counted_also_of_requests_that_they_refuse() -> None:
    check = {"guard": "decision", "on": "input", "result": "blocked"}
    assert count(report(record=None, guard_checks=[check])) == {"guard": 1}


def test_what_many_requests_add_is_their_sum() -> None:
    spent = RECORD | {"tokens_prompt": 12, "charge_nano": 2_000_000_000, "latency_ms": 100}
    spent |= {"cancelled": False, "generation_time_ms": 300, "tokens_completion": 3}
    spent |= {"tokens_cached": 4, "detail": '{"cache_saved_nano":500000000}'}
    first = attempt("Own")
    first.first_token = 1.5
    plain: dict[str, Any] = {"error": None, "status": 200, "requested_model": "acme/small"}
    plain |= {"started": 1.0, "ended": 1.3, "attempts": [first]}
    streamed = report(**plain, record=spent, streamed=True)
    names = {
        "gateway_requests_total": {"provider": "Own", "status": "200"},
        "gateway_request_duration_seconds_count": {"provider": "Own"},
        "gateway_request_duration_seconds_sum": {"provider": "Own"},
        "gateway_time_to_first_token_seconds_sum": {"provider": "Own"},
        "gateway_time_per_output_token_seconds_sum": {"provider": "Own"},
        "gateway_tokens_total": {"provider": "Own", "type": "input"},
        "gateway_charge_usd_total": {"provider": "Own"},
        "gateway_cost_usd_total": {"provider": "Own"},
        "gateway_cache_saved_usd_total": {"provider": "Own"},
    }
    before = {name: read_number(name, **labels) for name, labels in names.items()}

    metrics = RequestMetrics(lambda: ["acme/small"])
    metrics.observe([streamed, report(**plain, record=spent)])
    metrics.observe([streamed])
    metrics.write()
    metrics.write()

    added = [read_number(name, **labels) - before[name] for name, labels in names.items()]
    assert added == pytest.approx([3, 3, 0.9, 1.0, 0.2, 36, 6, 0, 1.5])


def test_an_answer_that_is_given_again_is_a_repeat() -> None:
    repeated = report(error=None, status=200, is_repeat=True)

    assert count(repeated) == {"repeats": 1}
