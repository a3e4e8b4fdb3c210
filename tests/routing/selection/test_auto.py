"""The routers that choose: against the definition read aloud."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.entities.entries import ModelEntry, Snapshot
from routing.selection.auto import (
    COST_TIERS,
    AutoOptions,
    AutoSettings,
    CostTier,
    UsableModels,
    choose_auto_models,
    choose_free_models,
)
from routing.selection.price_bands import PriceIndex
from routing.selection.types import Requirements
from tests.routing.selection.entries import endpoint, model
from tests.routing.selection.snapshots import priced_model, snapshot

TEXT = frozenset({"text"})
ASK = Requirements(kinds=frozenset({"openai"}), output_modalities=TEXT)


def choose_auto(
    models: Sequence[ModelEntry] | Snapshot,
    ask: Requirements = ASK,
    *,
    names: tuple[str, ...] = (),
    **more: Any,
) -> list[str]:
    catalogue = models if isinstance(models, Snapshot) else snapshot(models)
    wishes = AutoOptions(**{key: more.pop(key) for key in list(more) if key in AutoOptions._fields})
    settings = AutoSettings(names, usable=passing(more.pop("usable", None)))
    return [each.id for each in choose_auto_models(catalogue, ask, settings, wishes, **more)]


def passing(test: Callable[[ModelEntry], bool] | None) -> UsableModels:
    return iter if test is None else lambda models: filter(test, models)


def in_cents(*cents: int) -> list[ModelEntry]:
    return [
        priced_model(f"a/m{n}", str(Decimal(price).scaleb(-8))) for n, price in enumerate(cents)
    ]


# --- Bands ----------------------------------------------------------------------------------------


def band_of(price: int, prices: Sequence[int]) -> int:
    """The percent rank of a price: the share of the others that are cheaper."""
    others = len(prices) - 1
    rank = Fraction(100 * sum(other < price for other in prices), others) if others else 0
    return next(band for band in (4, 3, 2, 1, 0) if rank >= 20 * band)


def choose_by_definition(prices: Sequence[int], tier: CostTier) -> list[int]:
    """Prices of the three cheapest models of the tier's band or of the nearest, by definition."""
    bands: dict[int, list[int]] = {}
    for price in sorted(prices):
        bands.setdefault(band_of(price, prices), []).append(price)
    wanted = COST_TIERS.index(tier)
    nearest = min(bands, key=lambda band: (abs(band - wanted), band))
    return bands[nearest][:3]


@given(st.lists(st.integers(0, 12), min_size=1, max_size=40), st.sampled_from(COST_TIERS))
def test_the_three_cheapest_of_a_price_band_are_taken(prices: list[int], tier: CostTier) -> None:
    found = choose_auto(in_cents(*prices), cost_tier=tier)

    assert [prices[int(id.removeprefix("a/m"))] for id in found] == choose_by_definition(
        prices, tier
    )


def test_without_a_setting_the_cheapest_are_taken_and_an_empty_band_gives_way() -> None:
    assert choose_auto(in_cents(5, 1)) == ["a/m1"]
    assert choose_auto(in_cents(5, 1), cost_tier="xhigh") == ["a/m0"]
    # Both bands are two away: the cheaper one.
    assert choose_auto(in_cents(5, 1), cost_tier="high") == ["a/m1"]
    assert choose_auto(in_cents(3, 3, 3, 3), cost_tier="max") == ["a/m0", "a/m1", "a/m2"]
    assert choose_auto([]) == []


# --- Who is a candidate ---------------------------------------------------------------------------

WIDE: dict[str, Any] = {
    "input_modalities": ("text", "image", "audio", "video", "file"),
    "output_modalities": ("text", "image"),
}


@pytest.mark.parametrize(
    ("ask", "lacking"),
    [
        ({"tools": True}, {"supported_parameters": frozenset({"temperature"})}),
        ({"input_modalities": frozenset({"image"})}, {"input_modalities": ("text",)}),
        ({"input_modalities": frozenset({"text", "file"})}, {"input_modalities": ("text",)}),
        ({"output_modalities": frozenset({"text", "image"})}, {"output_modalities": ("text",)}),
        ({"prompt_tokens": 1001}, {"context_length": 1000}),
        ({"prompt_tokens": 1001}, {"max_prompt_tokens": 1000}),
        ({"prompt_tokens": 600, "output_tokens": 500}, {"context_length": 1000}),
        ({}, {"kind": "anthropic"}),
        ({}, {"tier": "priority"}),
        ({}, {"status": -3}),
        ({}, {"pricing": None}),
    ],
)
def test_a_model_that_cannot_take_the_request_is_passed_over(
    ask: dict[str, Any], lacking: dict[str, Any]
) -> None:
    cheap = model(
        endpoint(**{**WIDE, "pricing": {"prompt": "0", "completion": "0"}} | lacking), id="a/cheap"
    )
    models = [cheap, model(endpoint(**WIDE), id="a/able")]

    assert choose_auto(models, ASK._replace(**ask)) == ["a/able"]


def test_an_output_that_is_cut_to_the_endpoints_maximum_fits() -> None:
    end = endpoint(context_length=1000, max_completion_tokens=300)
    ask = ASK._replace(prompt_tokens=700, output_tokens=9000)

    assert choose_auto([model(end, id="a/short")], ask) == ["a/short"]
    assert choose_auto([model(end, id="a/short")], ask._replace(prompt_tokens=701)) == []


def test_a_models_price_is_that_of_its_cheapest_endpoint_that_fits() -> None:
    small = endpoint(
        "small", pricing={"prompt": "0.000001", "completion": "0"}, context_length=1000
    )
    large = endpoint("large", pricing={"prompt": "0.000009", "completion": "0"})
    models = [model(small, large, id="a/two"), priced_model("a/one", "0.000005")]

    assert choose_auto(models) == ["a/two"]
    assert choose_auto(models, ASK._replace(prompt_tokens=5000)) == ["a/one"]
    assert choose_auto(models, ASK._replace(prompt_tokens=5000), cost_tier="max") == ["a/two"]


def test_a_tier_counts_where_the_request_opened_it() -> None:
    flex = model(endpoint("acme/flex", tier="flex"), id="a/flex")

    assert choose_auto([flex]) == []
    assert choose_auto([flex], tiers=frozenset({"flex"})) == ["a/flex"]
    assert choose_auto([flex], ASK._replace(service_tier="flex")) == ["a/flex"]


def test_hidden_models_and_those_that_write_no_text_are_left_out() -> None:
    hidden = replace(priced_model("a/hidden"), visible=False)
    models = [hidden, priced_model("a/image", output_modalities=("image",)), priced_model("a/text")]
    models[1] = replace(models[1], output_modalities=("image",))

    assert choose_auto(models, ASK._replace(output_modalities=frozenset())) == ["a/text"]
    # The operator's own list may name what is not listed.
    assert choose_auto(models, names=("a/hidden",)) == ["a/hidden"]


PLAIN = in_cents(1, 2, 3, 4)


@pytest.mark.parametrize(
    ("wishes", "ids"),
    [
        ({"names": ("a/m1", "a/m2", "gone/x")}, ["a/m1"]),
        ({"names": ("a/*",)}, ["a/m0"]),
        ({"allowed": ("a/m3",)}, ["a/m3"]),
        ({"allowed": ("A/M[3]", "*3")}, ["a/m3"]),
        ({"allowed": ("small",)}, ["a/m2"]),
        ({"allowed": ("a/m2", "a/m3"), "names": ("a/m3",)}, ["a/m3"]),
        ({"excluded": ("a/m0", "*1")}, ["a/m2"]),
        ({"excluded": ("small", "a/m0", "a/m1")}, ["a/m3"]),
        ({"allowed": ("a/*",), "excluded": ("*",)}, []),
        ({"allowed": ("b/*",)}, []),
        ({"pinned": "a/m2"}, ["a/m2", "a/m0"]),
        ({"pinned": "small"}, ["a/m2", "a/m0"]),
        ({"pinned": "a/m2", "excluded": ("a/m2",)}, ["a/m0"]),
        ({"pinned": "gone/x", "sticky_model": "a/m3"}, ["a/m3", "a/m0"]),
        ({"pinned": "a/m1", "sticky_model": "a/m3"}, ["a/m1", "a/m0"]),
        ({"sticky_model": "a/m0"}, ["a/m0"]),
    ],
)
def test_lists_and_earlier_choices_narrow_the_candidates(
    wishes: dict[str, Any], ids: list[str]
) -> None:
    assert choose_auto(snapshot(PLAIN, small="a/m2"), **wishes) == ids


def test_models_without_a_usable_endpoint_are_passed_over_band_by_band() -> None:
    def usable(model: ModelEntry) -> bool:
        return model.id in ("a/m3", "a/m2")

    assert choose_auto(PLAIN, usable=usable) == ["a/m2"]
    assert choose_auto(PLAIN, usable=usable, cost_tier="max") == ["a/m3"]
    assert choose_auto(PLAIN, usable=usable, pinned="a/m0") == ["a/m2"]


def test_ids_that_differ_in_case_alone_are_two_models() -> None:
    assert choose_auto([priced_model("a/x"), priced_model("a/X")], allowed=("a/x",)) == [
        "a/X",
        "a/x",
    ]


# --- router/free ----------------------------------------------------------------------------------


def free(models: Sequence[ModelEntry], mark: float = 0.0, **more: Any) -> list[str]:
    settings = AutoSettings(("a/paid",), usable=passing(more.pop("usable", None)))
    found = choose_free_models(snapshot(models), ASK, settings, random=lambda: mark, **more)
    return [each.id for each in found]


def test_only_models_that_can_cost_nothing_are_drawn() -> None:
    zero = {"prompt": "0", "completion": "0"}
    mixed = model(endpoint(pricing=zero), endpoint("beta"), id="a/mixed")
    tiered = model(endpoint(pricing=zero), endpoint("b/priority", tier="priority"), id="a/tiered")
    models = [priced_model("a/free", "0"), priced_model("a/paid"), mixed, tiered]

    assert free(models) == ["a/free"]
    assert free(models, tiers=frozenset({"priority"})) == ["a/free"]
    assert free(models[1:]) == []


def test_each_free_model_is_drawn_as_often_as_another() -> None:
    models = in_cents(*[0] * 5)
    firsts = [free(models, mark / 100)[0] for mark in range(100)]

    assert {id: firsts.count(id) for id in set(firsts)} == {f"a/m{n}": 20 for n in range(5)}
    for mark in (0.0, 0.5, 0.999):
        assert len(set(free(models, mark))) == 3


def test_a_conversation_stays_with_its_free_model() -> None:
    models = in_cents(0, 0, 0, 0, 1)

    assert free(models, sticky_model="a/m3")[0] == "a/m3"
    assert free(models, sticky_model="a/m4")[0] == "a/m0"
    assert free(models, usable=lambda each: each.id == "a/m2") == ["a/m2"]


def test_shelves_are_kept_and_do_not_grow_without_end() -> None:
    catalogue = snapshot(PLAIN)
    for n in range(200):
        choose_auto(catalogue, allowed=(f"author{n}/*",))

    assert 0 < len(catalogue.derive(PriceIndex)._shelves) <= 64
