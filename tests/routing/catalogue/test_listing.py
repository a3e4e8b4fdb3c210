"""What an account's rules leave of the listing."""

from dataclasses import replace
from typing import Any

import pytest

from routing.catalogue.listing import NO_RULES, ListingRules, list_permitted, top_endpoint
from routing.entities.entries import Snapshot
from tests.routing.selection.entries import endpoint, model
from tests.routing.selection.snapshots import snapshot

CATALOGUE = snapshot(
    [
        model(
            endpoint("alpha", zdr=True),
            endpoint("beta", collects_data=True, region="us"),
            endpoint("beta/priority", tier="priority"),
            id="a/both",
        ),
        model(endpoint("beta", region="europe"), id="a/beta"),
        model(endpoint("gamma", zdr=True), id="a/gamma"),
        replace(model(endpoint("alpha"), id="a/hidden"), visible=False),
    ]
)


def list_tags(rules: ListingRules, catalogue: Snapshot = CATALOGUE) -> dict[str, list[str]]:
    found = list_permitted(catalogue, rules)
    return {each.id: [end.tag for end in each.endpoints] for each in found}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"allowed_providers": ("alpha",)}, {"a/both": ["alpha"]}),
        (
            {"allowed_providers": ("Beta",)},
            {"a/both": ["beta", "beta/priority"], "a/beta": ["beta"]},
        ),
        ({"allowed_providers": ("beta/priority",)}, {"a/both": ["beta/priority"]}),
        ({"ignored_providers": ("beta", "GAMMA")}, {"a/both": ["alpha"]}),
        ({"allowed_providers": ("beta",), "ignored_providers": ("beta",)}, {}),
        ({"allowed_providers": ("nobody",)}, {}),
        ({"zdr": True}, {"a/both": ["alpha"], "a/gamma": ["gamma"]}),
        ({"denies_collection": True, "region": "us"}, {}),
        ({"region": "europe"}, {"a/beta": ["beta"]}),
    ],
)
def test_rules_leave_the_endpoints_that_may_be_used(
    rules: dict[str, Any], expected: dict[str, list[str]]
) -> None:
    assert list_tags(ListingRules(**rules)) == expected
    # The second time it is remembered.
    assert list_tags(ListingRules(**rules)) == expected


def test_without_rules_the_listing_is_as_it_is() -> None:
    assert list_permitted(CATALOGUE, NO_RULES) is CATALOGUE.listing


def test_a_narrowed_model_is_priced_by_what_is_left() -> None:
    cheap = endpoint("alpha", pricing={"prompt": "0.000001", "completion": "0"})
    dear = endpoint("beta", pricing={"prompt": "0.000009", "completion": "0"})

    (found,) = list_permitted(
        snapshot([model(cheap, dear)]), ListingRules(ignored_providers=("alpha",))
    )

    best = top_endpoint(found)
    assert best is not None
    assert best.tag == "beta"
    assert [end.tag for end in found.by_price] == ["beta"]


def test_listings_of_many_accounts_do_not_pile_up() -> None:
    for n in range(50):
        list_tags(ListingRules(ignored_providers=(f"p{n}",)))

    (kept,) = [each for each in CATALOGUE._derived.values() if hasattr(each, "by_rules")]
    assert len(kept.by_rules) <= 8
