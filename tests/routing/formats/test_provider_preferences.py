"""The `provider` object (inference 7.1)."""

from decimal import Decimal
from typing import Any

import pytest

from routing.formats.provider_preferences import ProviderPreferences
from tests.routing.formats.chat_bodies import accepted, paths, text_of


def preferences(**fields: Any) -> ProviderPreferences:
    provider = accepted(provider=fields).provider
    assert provider is not None
    return provider


def provider_paths(**fields: Any) -> list[str]:
    return [path.removeprefix("provider.") for path in paths(provider=fields)]


def test_row_27_an_unknown_key_is_refused_and_null_is_absent() -> None:
    assert text_of(provider={"foo": 1}) == 'provider: Unrecognized key: "foo"'
    assert text_of(provider={"options": {}}) == 'provider: Unrecognized key: "options"'
    assert accepted(provider=None).provider is None
    assert paths(provider=[]) == ["provider"]


def test_an_empty_object_is_all_defaults() -> None:
    assert preferences() == ProviderPreferences()


@pytest.mark.parametrize(
    "name",
    [
        "allow_fallbacks",
        "data_collection",
        "enforce_distillable_text",
        "ignore",
        "only",
        "order",
        "preferred_max_latency",
        "preferred_min_throughput",
        "quantizations",
        "require_parameters",
        "sort",
        "zdr",
    ],
)
def test_null_is_absent_in_every_nullable_field(name: str) -> None:
    assert preferences(**{name: None}) == ProviderPreferences()


@pytest.mark.parametrize(
    ("name", "value", "path"),
    [
        ("allow_fallbacks", "yes", "allow_fallbacks"),
        ("data_collection", "maybe", "data_collection"),
        ("enforce_distillable_text", 1, "enforce_distillable_text"),
        ("ignore", "alpha", "ignore"),
        ("only", [1], "only.0"),
        ("order", {}, "order"),
        ("max_price", {"prompt": "cheap"}, "max_price.prompt"),
        ("max_price", {"prompt": ""}, "max_price.prompt"),
        ("max_price", {"prompt": "-1"}, "max_price.prompt"),
        ("max_price", {"prompt": "."}, "max_price.prompt"),
        ("max_price", {"prompt": "1e3"}, "max_price.prompt"),
        ("max_price", {"prompt": "NaN"}, "max_price.prompt"),
        ("max_price", {"prompt": "\u0661"}, "max_price.prompt"),
        ("max_price", {"prompt": -0.1}, "max_price.prompt"),
        ("max_price", {"prompt": 10**400}, "max_price.prompt"),
        ("max_price", {"prompt": True}, "max_price.prompt"),
        ("max_price", {"video": "1"}, "max_price"),
        ("preferred_max_latency", {"p42": 1}, "preferred_max_latency"),
        ("preferred_max_latency", {"p50": 0}, "preferred_max_latency.p50"),
        ("preferred_max_latency", 0, "preferred_max_latency"),
        ("preferred_max_latency", "1", "preferred_max_latency"),
        ("preferred_min_throughput", {"p99": -1}, "preferred_min_throughput.p99"),
        ("preferred_min_throughput", True, "preferred_min_throughput"),
        ("quantizations", ["q8"], "quantizations.0"),
        ("quantizations", "fp8", "quantizations"),
        ("require_parameters", 1, "require_parameters"),
        ("sort", "cost", "sort"),
        ("sort", {"by": "cost"}, "sort.by"),
        ("sort", {"partition": "all"}, "sort.partition"),
        ("sort", {"order": "desc"}, "sort"),
        ("sort", ["price"], "sort"),
        ("zdr", "true", "zdr"),
    ],
)
def test_an_odd_preference_is_named_at_its_path(name: str, value: Any, path: str) -> None:
    assert provider_paths(**{name: value}) == [path]


def test_everything_said_is_read() -> None:
    assert preferences(
        allow_fallbacks=False,
        data_collection="deny",
        enforce_distillable_text=True,
        ignore=["a"],
        only=["b"],
        order=["c/turbo", "d"],
        max_price={"prompt": "1.50", "completion": 0.1, "request": 2, "image": ".5", "audio": "3."},
        preferred_max_latency=2,
        preferred_min_throughput={"p90": 50, "p99": None},
        quantizations=["fp8", "unknown"],
        require_parameters=True,
        sort={"by": "price", "partition": "none"},
        zdr=True,
    ) == ProviderPreferences(
        allow_fallbacks=False,
        data_collection="deny",
        enforce_distillable_text=True,
        ignore=("a",),
        only=("b",),
        order=("c/turbo", "d"),
        max_price_usd={
            "prompt": Decimal("1.5"),
            "completion": Decimal("0.1"),
            "request": Decimal(2),
            "image": Decimal("0.5"),
            "audio": Decimal(3),
        },
        max_latency_s={"p50": 2},
        min_throughput_tps={"p90": 50},
        quantizations=("fp8", "unknown"),
        require_parameters=True,
        sort="price",
        partition="none",
        zdr=True,
    )


@pytest.mark.parametrize("word", ["price", "throughput", "latency", "exacto"])
def test_sort_may_be_a_word(word: str) -> None:
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
def test_row_17_route_fills_the_partition_that_is_left_open(
    route: str | None, provider: dict[str, Any] | None, partition: str | None
) -> None:
    read = accepted(route=route, provider=provider).provider
    assert read is not None
    assert read.partition == partition
