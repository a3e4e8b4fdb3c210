"""What request, suffix, workspace and account come to together."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from routing.formats.provider_preferences import ProviderField, resolve_provider
from routing.selection.resolution import build_policy
from routing.selection.types import NO_POLICY, Policy, Resolution, Sort

PLAIN = Resolution((), "direct")
NITRO = Resolution((), "direct", sort="throughput", admitted_tiers=frozenset({"priority"}))


def make_policy(
    field: ProviderField | None,
    resolution: Resolution = PLAIN,
    *,
    route: str | None = None,
    **told: Any,
) -> Policy:
    return build_policy(resolve_provider(field, route=route), resolution=resolution, **told)


def test_a_request_that_wants_nothing_shares_one_policy() -> None:
    assert make_policy(None) is NO_POLICY
    assert make_policy(None, models_named=True) is NO_POLICY
    assert make_policy(None, region="global") is NO_POLICY
    assert make_policy({}) == NO_POLICY


def test_the_whole_provider_object_is_taken_over() -> None:
    lists: ProviderField = {"ignore": ["a"], "only": ["B"], "order": ["c/d"]}
    flags: ProviderField = {"allow_fallbacks": False, "require_parameters": True, "zdr": True}
    flags |= {"data_collection": "deny", "enforce_distillable_text": True}
    figures: ProviderField = {"preferred_max_latency": 1.5}
    figures |= {"preferred_min_throughput": {"p90": 50.0, "p50": None}}
    figures |= {"max_price": {"prompt": "0.1", "image": 2}, "quantizations": ["fp8", "unknown"]}
    sort: ProviderField = {"sort": {"by": "latency", "partition": "none"}}

    assert make_policy(lists | flags | figures | sort, models_named=True) == Policy(
        only=("B",),
        order=("c/d",),
        ignore=("a",),
        allow_fallbacks=False,
        models_named=True,
        deny_data_collection=True,
        zdr=True,
        distillable_only=True,
        quantizations=frozenset({"fp8", "unknown"}),
        max_price_usd={"prompt": Decimal("0.1"), "image": Decimal(2)},
        require_parameters=True,
        sort="latency",
        sort_named=True,
        across_models=True,
        max_latency_s={"p50": 1.5},
        min_throughput_tps={"p90": 50.0},
    )


def test_the_account_only_ever_adds() -> None:
    lists: dict[str, Any] = {"account_allowed": ("a", "b"), "account_ignored": ("c",)}
    flags: dict[str, Any] = {
        "account_zdr": True,
        "account_denies_collection": True,
        "region": "europe",
    }
    without = make_policy(None, **lists, **flags)

    assert without == make_policy({"zdr": False, "data_collection": "allow"}, **lists, **flags)
    added: dict[str, Any] = {"zdr": True, "deny_data_collection": True, "region": "europe"}
    assert without == replace(NO_POLICY, **lists, **added)


SORTS: list[tuple[Any, Resolution, Sort | None, Sort | None, str]] = [
    # provider, resolution, the workspace's default: the sort, and who said it.
    (None, PLAIN, "price", "price", "workspace"),
    (None, NITRO, "price", "throughput", "suffix"),
    ({"sort": "latency"}, NITRO, "price", "latency", "request"),
    ({"sort": {"partition": "none"}}, PLAIN, "price", "price", "workspace"),
    ({"order": ["a"]}, PLAIN, "price", None, "nobody"),
    ({"order": ["a"]}, NITRO, "price", "throughput", "suffix"),
    ({"order": [], "sort": None}, PLAIN, "exacto", "exacto", "workspace"),
    ({"order": ["a"], "sort": "exacto"}, PLAIN, "price", "exacto", "request"),
]


@pytest.mark.parametrize(("field", "resolution", "default", "sort", "by"), SORTS)
def test_request_before_suffix_before_workspace(
    field: Any, resolution: Resolution, default: Sort | None, sort: Sort | None, by: str
) -> None:
    policy = make_policy(field, resolution, default_sort=default)

    assert (policy.sort, policy.sort_named) == (sort, by == "request")
    assert policy.sort_is_default is (by == "workspace")
    assert policy.has_own_sort is (by in ("request", "suffix"))


def test_an_order_closes_the_tier_that_a_suffix_opened() -> None:
    assert make_policy(None, NITRO).admitted_tiers == {"priority"}
    assert make_policy({"sort": "price"}, NITRO).admitted_tiers == {"priority"}
    assert make_policy({"order": ["a"]}, NITRO).admitted_tiers == frozenset()


@pytest.mark.parametrize(
    ("route", "field", "across"),
    [
        ("sort", None, True),
        ("fallback", None, False),
        ("sort", {"sort": {"by": "price", "partition": "model"}}, False),
        (None, {"sort": {"partition": "none"}}, True),
    ],
)
def test_row_17_the_partition_reaches_the_policy(
    route: str | None, field: Any, across: bool
) -> None:
    assert make_policy(field, route=route).across_models is across
