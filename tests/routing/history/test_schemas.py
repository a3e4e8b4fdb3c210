from typing import Any

import pytest

from gateway.http.errors import SchemaInvalid
from routing.history.metrics import DIMENSIONS, METRICS
from routing.history.schemas import read_analytics_body
from tests.routing.history.records import NOW

ASKED: dict[str, Any] = {"metrics": ["request_count"]}
LONG = {"time_range": {"start": "2026-01-01T00:00:00Z", "end": "2026-11-01T00:00:00Z"}}


def message(**said: Any) -> str:
    with pytest.raises(SchemaInvalid) as refused:
        read_analytics_body(ASKED | said, NOW)
    return refused.value.text


def filtered(**said: Any) -> dict[str, Any]:
    return {"field": "model", "operator": "eq", "value": "a/b"} | said


def span(start: str, end: str, **more: Any) -> dict[str, Any]:
    return {"time_range": {"start": start, "end": end}, **more}


NEW_YEAR, DAY_2 = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
TOO_LONG = "time_range: Too big: expected range to have"
VALUE = "filters.0.value: Invalid input: expected"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"metrics": []}, "metrics: Too small: expected array to have >=1 items"),
        ({"metrics": ["cost"]}, 'metrics.0: Invalid option: expected one of "request_count"|'),
        (
            {"dimensions": ["model", "app", "user"]},
            "dimensions: Too big: expected array to have <=2",
        ),
        ({"granularity": "year"}, "granularity: Invalid option: expected one of"),
        ({"time_range": {"start": NEW_YEAR}}, "time_range.end: Invalid input"),
        (span("2026-01-01", DAY_2), "time_range.start: Invalid ISO datetime"),
        (span(DAY_2, DAY_2), "time_range: Invalid input: expected start before end"),
        (span("2024-12-31T00:00:00Z", DAY_2), f"{TOO_LONG} <=365 days"),
        ({**LONG, "metrics": ["request_count", "p50_latency"]}, f"{TOO_LONG} <=31 days for p50_l"),
        ({**LONG, "dimensions": ["provider"]}, f"{TOO_LONG} <=31 days for provider"),
        ({**LONG, "filters": [filtered(field="origin")]}, f"{TOO_LONG} <=31 days for origin"),
        ({"filters": [filtered()] * 21}, "filters: Too big: expected array to have <=20 items"),
        ({"filters": [filtered(field="cost")]}, "filters.0.field: Invalid option"),
        ({"filters": [filtered(operator="like")]}, "filters.0.operator: Invalid option"),
        ({"filters": [filtered(operator="in")]}, f"{VALUE} array, received string"),
        ({"filters": [filtered(operator="in", value=[])]}, "filters.0.value: Too small: expected"),
        ({"filters": [filtered(value=["a"])]}, f"{VALUE} string, received array"),
        (
            {"filters": [{"field": "model", "operator": "eq"}]},
            f"{VALUE} string, received undefined",
        ),
        (
            {"order_by": {"field": "tokens_total"}},
            'order_by.field: Invalid option: expected one of "r',
        ),
        ({"order_by": {"field": "request_count", "direction": "up"}}, "order_by.direction: "),
        ({"limit": 0}, "limit: Too small: expected number to be >=1"),
        ({"limit": 10_001}, "limit: Too big: expected number to be <=10000"),
        ({"group_limit": 10_001}, "group_limit: Too big: expected number to be <=10000"),
        (
            {"classifier_filters": []},
            "classifier_filters: Invalid input: classifiers are not offered",
        ),
    ],
)
def test_what_is_refused(said: dict[str, Any], text: str) -> None:
    assert message(**said).startswith(text)


def test_metrics_are_required() -> None:
    with pytest.raises(SchemaInvalid) as refused:
        read_analytics_body({}, NOW)
    assert refused.value.text == "metrics: Invalid input: expected array, received undefined"


def test_what_is_left_out_has_its_usual_value() -> None:
    asked = read_analytics_body(ASKED | {"metrics": ["request_count"] * 2, "whatever": 1}, NOW)
    assert asked.metrics == ["request_count"]
    assert (asked.limit, asked.group_limit, asked.dimensions) == (1000, None, [])
    start, end = asked.span(NOW)
    assert (end - start).days == 7
    assert end == NOW


def test_a_year_is_not_too_long_for_what_is_kept_that_long() -> None:
    long_ones = [name for name, metric in METRICS.items() if metric.days_max > 31]
    read_analytics_body({"metrics": long_ones, **LONG}, NOW)
    assert {name for name in DIMENSIONS if DIMENSIONS[name].days_max > 31} == {
        *("model", "variant", "api_key_id", "user", "workspace", "app")
    }
    assert not {name for name in long_ones if "latency" in name or name.startswith("guardrail")}
