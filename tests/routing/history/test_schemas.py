from typing import Any

import pytest

from gateway.http.errors import SchemaInvalid
from routing.history.client_app import ClientApp, parse_app
from routing.history.metrics import DIMENSIONS, METRICS
from routing.history.schemas import read_analytics_body
from tests.routing.history.records import NOW

ASKED: dict[str, Any] = {"metrics": ["request_count"]}
LONG = {"time_range": {"start": "2026-01-01T00:00:00Z", "end": "2026-11-01T00:00:00Z"}}


def message(**said: Any) -> str:
    with pytest.raises(SchemaInvalid) as refused:
        read_analytics_body(ASKED | said, NOW)
    return refused.value.text


def filter_of(**said: Any) -> dict[str, Any]:
    return {"field": "model", "operator": "eq", "value": "a/b"} | said


def span(start: str, end: str, **more: Any) -> dict[str, Any]:
    return {"time_range": {"start": start, "end": end}, **more}


NEW_YEAR, DAY_2 = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
TOO_LONG = "time_range: Too big: expected range to have"
VALUE = "filters.0.value: Invalid input: expected"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"metrics": ["cost"]}, 'metrics.0: Invalid option: expected one of "request_count"|'),
        (
            {"dimensions": ["model", "app", "user"]},
            "dimensions: Too big: expected array to have <=2",
        ),
        (span("2026-01-01", DAY_2), "time_range.start: Invalid ISO datetime"),
        (span(DAY_2, DAY_2), "time_range: Invalid input: expected start before end"),
        (span("2024-12-31T00:00:00Z", DAY_2), f"{TOO_LONG} <=365 days"),
        ({**LONG, "metrics": ["request_count", "p50_latency"]}, f"{TOO_LONG} <=31 days for p50_l"),
        ({**LONG, "dimensions": ["provider"]}, f"{TOO_LONG} <=31 days for provider"),
        ({**LONG, "filters": [filter_of(field="origin")]}, f"{TOO_LONG} <=31 days for origin"),
        ({"filters": [filter_of()] * 21}, "filters: Too big: expected array to have <=20 items"),
        ({"filters": [filter_of(operator="in")]}, f"{VALUE} array, received string"),
        ({"filters": [filter_of(operator="in", value=[])]}, "filters.0.value: Too small: expected"),
        ({"filters": [filter_of(value=["a"])]}, f"{VALUE} string, received array"),
        (
            {"filters": [{"field": "model", "operator": "eq"}]},
            f"{VALUE} string, received undefined",
        ),
        (
            {"order_by": {"field": "tokens_total"}},
            'order_by.field: Invalid option: expected one of "r',
        ),
        (
            {"classifier_filters": []},
            "classifier_filters: Invalid input: classifiers are not offered",
        ),
    ],
)
def test_what_is_refused(said: dict[str, Any], text: str) -> None:
    assert message(**said).startswith(text)


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


@pytest.mark.parametrize(
    ("referer", "app"),
    [
        (None, ClientApp()),
        ("", ClientApp()),
        ("my app", ClientApp()),
        ("ftp://files.example", ClientApp()),
        ("http://[::1", ClientApp()),
        ("https://a.example:99999/", ClientApp()),
        ("https://A.example/", ClientApp("https://a.example", "https://a.example")),
        (
            "https://user:secret@a.example:8443/chat/?q=1#top",
            ClientApp("https://a.example:8443/chat", "https://a.example:8443"),
        ),
        (
            f"https://a.example/{'x' * 300}",
            ClientApp(f"https://a.example/{'x' * 182}", "https://a.example"),
        ),
    ],
)
def test_an_app_is_its_address_without_query_and_credentials(
    referer: str | None, app: ClientApp
) -> None:
    assert parse_app(referer) == app
