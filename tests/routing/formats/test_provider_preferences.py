"""The `provider` object (inference 7.1)."""

from decimal import Decimal
from typing import Any

import pytest

from routing.formats.provider_preferences import ProviderPreferences
from tests.routing.formats.chat_bodies import parse_fields, paths, text_of


def preferences(**fields: Any) -> ProviderPreferences:
    provider = parse_fields(provider=fields).provider
    assert provider is not None
    return provider


def test_an_unknown_key_is_refused_and_an_empty_object_is_all_defaults() -> None:
    for name in ("foo", "options"):
        assert text_of(provider={name: {}}) == f'provider: Unrecognized key: "{name}"'
    assert parse_fields(provider=None).provider is None
    assert preferences() == ProviderPreferences()


@pytest.mark.parametrize(
    ("name", "values", "path"),
    [
        ("data_collection", ["maybe"], ""),
        ("hedge", [1, "yes"], ""),
        ("hedge_after_s", [0, -1, "1", 86_401], ""),
        ("max_price", [{"video": "1"}], ""),
        (
            "max_price",
            [
                {"prompt": price}
                for price in ("cheap", "", "-1", ".", "1e3", "NaN", "\u0661", -0.1, 10**400, True)
            ],
            ".prompt",
        ),
        ("preferred_max_latency", [{"p42": 1}, 0, "1"], ""),
        ("preferred_max_latency", [{"p50": 0}], ".p50"),
        ("preferred_min_throughput", [True], ""),
        ("preferred_min_throughput", [{"p99": -1}], ".p99"),
        ("quantizations", [["q8"]], ".0"),
        ("rescue", [1, "yes"], ""),
        ("sort", ["cost", {"order": "desc"}, ["price"]], ""),
        ("sort", [{"by": "cost"}], ".by"),
        ("sort", [{"partition": "all"}], ".partition"),
    ],
)
def test_an_odd_preference_is_named_at_its_path(name: str, values: list[Any], path: str) -> None:
    for value in values:
        assert paths(provider={name: value}) == [f"provider.{name}{path}"], value
    assert preferences(**{name: None}) == ProviderPreferences()


def test_everything_said_is_read() -> None:
    same: dict[str, Any] = {
        "allow_fallbacks": False,
        "data_collection": "deny",
        "enforce_distillable_text": True,
        "require_parameters": True,
        "rescue": True,
        "zdr": True,
    }
    prices = {"prompt": "1.50", "completion": 0.1, "request": 2, "image": ".5", "audio": "3."}
    exact = {"prompt": "1.5", "completion": "0.1", "request": "2", "image": "0.5", "audio": "3"}
    assert preferences(
        ignore=["a"],
        only=["b"],
        order=["c/turbo", "d"],
        max_price=prices,
        preferred_max_latency=2,
        preferred_min_throughput={"p90": 50, "p99": None},
        quantizations=["fp8", "unknown"],
        sort={"by": "price", "partition": "none"},
        **same,
    ) == ProviderPreferences(
        ignore=("a",),
        only=("b",),
        order=("c/turbo", "d"),
        max_price_usd={name: Decimal(price) for name, price in exact.items()},
        max_latency_s={"p50": 2},
        min_throughput_tps={"p90": 50},
        quantizations=("fp8", "unknown"),
        sort="price",
        partition="none",
        **same,
    )
    for word in ("price", "throughput", "latency", "exacto"):
        assert preferences(sort=word).sort == word


@pytest.mark.parametrize(
    ("route", "provider", "partition"),
    [
        ("sort", None, "none"),
        ("fallback", None, "model"),
        ("sort", {"zdr": True}, "none"),
        ("sort", {"sort": "price"}, "none"),
        ("sort", {"sort": {"partition": "model"}}, "model"),
        ("fallback", {"sort": {"partition": "none"}}, "none"),
        ("sort", {"sort": {"by": "price", "partition": None}}, "none"),
        (None, {"sort": {"by": "price"}}, None),
    ],
)
def test_route_fills_the_partition_that_is_left_open(
    route: str | None, provider: dict[str, Any] | None, partition: str | None
) -> None:
    read = parse_fields(route=route, provider=provider).provider
    assert read is not None
    assert read.partition == partition


@pytest.mark.parametrize(
    ("given", "hedges"),
    [({"hedge": True}, True), ({"hedge_after_s": 1}, True), ({}, None)],
)
def test_who_says_after_which_time_wants_a_hedge(
    given: dict[str, Any], hedges: bool | None
) -> None:
    assert preferences(**given).hedge is hedges
    assert preferences(**given | {"hedge": False}).hedge is False
