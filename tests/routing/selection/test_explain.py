"""By which change an endpoint of a trace would have answered."""

from typing import Any

import pytest

from routing.selection.explain import WinningChange, explain_route

# Cheap answers; dear, slow and excluded do not.
TRACE: dict[str, Any] = {
    "v": 1,
    "models": ["acme/small"],
    "rule": "balanced",
    "tag": ["cheap", "dear", "barred"],
    "usd": [[1.0, 2.0], [2.0, 4.0], [0.5, 0.5]],
    "removed": ["Filter by Ignored Providers"],
    "attempts": [[0, None]],
    "chosen": 0,
    "weights": [8000, 2000],
    "figures": [{"ttft": [0.2, 0.3, 0.4], "tps": [50.0, 40.0, 30.0]}, {}, {}],
}


def change(at: int = 1, **fields: Any) -> WinningChange | None:
    return explain_route(TRACE | fields)[at].change


def test_the_one_that_answered_needs_no_change() -> None:
    assert change(0) is None


@pytest.mark.parametrize(
    ("fields", "cause", "setting", "beats"),
    [
        ({}, "price", "provider.order", 3.0),
        ({"rule": "price"}, "price", "provider.sort", 3.0),
        ({"rule": "latency"}, "latency", "provider.sort", 0.2),
        ({"rule": "throughput"}, "throughput", "provider.sort", 50.0),
        ({"rule": "order"}, "order", "provider.order", None),
        ({"usd": [[1.0, 2.0], [1.0, 1.0], [0.5, 0.5]]}, "order", "provider.order", None),
        ({"unstable": [1]}, "health", None, None),
        ({"sticky": 0}, "order", "session_id", None),
        ({"attempts": [[1, "timeout"], [0, None]]}, "failure", None, None),
        ({"chosen": None, "attempts": [[0, "timeout"]]}, "failure", None, None),
    ],
)
def test_a_loser_has_the_change_that_its_order_looks_at(
    fields: dict[str, Any], cause: str, setting: str | None, beats: float | None
) -> None:
    found = change(**fields)

    assert found is not None
    assert (found.cause, found.setting) == (cause, setting)
    assert (found.below or found.above) == beats


@pytest.mark.parametrize(
    ("step", "cause", "setting"),
    [
        ("Filter by Ignored Providers", "setting", "provider.ignore"),
        ("Filter by Guardrails", "setting", "guardrail"),
        ("Filter by Context Length", "request", None),
        ("Filter by Image Support", "request", None),
    ],
)
def test_a_removed_endpoint_has_the_setting_that_removed_it(
    step: str, cause: str, setting: str | None
) -> None:
    found = change(2, removed=[step])

    assert found is not None
    assert (found.cause, found.setting) == (cause, setting)
    assert step in found.text
