"""Model references by table, and what several of them come to together."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from routing.entities.entries import Snapshot
from routing.selection.auto import AutoOptions, AutoSettings
from routing.selection.resolution import (
    UnknownModelReference,
    WrongKind,
    find_model,
    resolve_models,
)
from routing.selection.types import Requirements, Resolution, Sort
from tests.routing.selection.entries import endpoint, model
from tests.routing.selection.snapshots import priced_model, snapshot

ASK = Requirements(kinds=frozenset({"openai"}), output_modalities=frozenset({"text"}))
FAMILY = {"family": "acme/small"}
CATALOGUE = snapshot(
    [
        priced_model("acme/small-1", "0.000004", created=1, **FAMILY),
        priced_model("acme/small-2", "0.000003", created=2, **FAMILY),
        priced_model("acme/small-2:free", "0", created=2, **FAMILY),
        replace(priced_model("acme/small-3", created=3, **FAMILY), visible=False),
        priced_model("acme/large", "0.000009"),
        priced_model("acme/large:thinking", "0.000019"),
        priced_model("acme/vector", output_modalities=("embeddings",)),
        model(endpoint(kind="decisions"), id="acme/foreign"),
        priced_model("acme/odd:nitro", "0.000008"),
        model(id="acme/bare"),
        model(endpoint(status=-5), id="acme/off"),
    ],
    small="acme/small-2",
    router__fusion="acme/large",
    acme__tiny="acme/small-1",
)


def resolve_all(
    *references: str, ask: Requirements = ASK, catalogue: Snapshot = CATALOGUE
) -> Resolution:
    return resolve_models(catalogue, references, ask, auto=AutoSettings(), random=lambda: 0.0)


def list_ids(resolution: Resolution) -> list[str]:
    return [each.id for each in resolution.models]


@pytest.mark.parametrize(
    ("references", "expected", "strategy"),
    [
        (["acme/large"], ["acme/large"], "direct"),
        (["acme/large:thinking"], ["acme/large:thinking"], "direct"),
        (["acme/large:nitro"], ["acme/large"], "direct"),
        (["acme/small-2:free:online"], ["acme/small-2:free"], "direct"),
        (["acme/bare"], ["acme/bare"], "direct"),
        (["acme/off"], ["acme/off"], "direct"),
        (["acme/small-3"], ["acme/small-3"], "direct"),
        (["small"], ["acme/small-2"], "alias"),
        (["small:floor"], ["acme/small-2"], "alias"),
        (["acme/tiny"], ["acme/small-1"], "alias"),
        (["~acme/small-latest"], ["acme/small-2"], "latest"),
        (["~acme/small-latest:exacto"], ["acme/small-2"], "latest"),
        (["~acme/small-latest:free"], ["acme/small-2:free"], "latest"),
        (["router/fusion"], ["acme/large"], "fusion"),
        (["router/free"], ["acme/small-2:free"], "free"),
        (["acme/large", "acme/small-1"], ["acme/large", "acme/small-1"], "fallback"),
        (["acme/small-2", "small"], ["acme/small-2"], "direct"),
        (["acme/large", "acme/large:nitro", "small"], ["acme/large", "acme/small-2"], "fallback"),
        (["small", "acme/large"], ["acme/small-2", "acme/large"], "alias"),
        (["acme/large", "router/free"], ["acme/large", "acme/small-2:free"], "free"),
        # What comes to nothing is passed over while something else is named.
        (["~acme/none-latest", "acme/large"], ["acme/large"], "latest"),
        (["router/pareto-code", "acme/large"], ["acme/large"], "pareto"),
    ],
)
def test_references_come_to_models(
    references: Sequence[str], expected: list[str], strategy: str
) -> None:
    found = resolve_all(*references)

    assert list_ids(found) == expected
    assert found.strategy == strategy


@pytest.mark.parametrize(
    "reference",
    [
        *("nope/none", "acme/large:weird", "acme/large:free", "acme/large:weird:nitro", ":nitro"),
        *("acme/large:nitro:thinking", "acme/large:", "ACME/large", "~acme/small", "router/other"),
        *("acme/small-1:free", "router/auto:free", "~acme/small-latest:extended", ""),
    ],
)
def test_what_nobody_is_called_is_unknown(reference: str) -> None:
    for references in ([reference], ["acme/large", reference]):
        with pytest.raises(UnknownModelReference) as caught:
            resolve_all(*references)
        assert caught.value.reference == reference


def test_a_choice_without_models_is_not_found() -> None:
    chosen = {"router/pareto-code": "pareto", "router/bodybuilder": "bodybuilder"}
    # The last is a family that nobody is in; its variant does not matter.
    families = ("~acme/none-latest", "~acme/large-latest", "~-latest:x")
    for reference, strategy in (chosen | dict.fromkeys(families, "latest")).items():
        found = resolve_all(reference)
        assert (found.models, found.pool, found.strategy) == ((), (), strategy)


@pytest.mark.parametrize("reference", ["acme/vector", "acme/foreign", "acme/vector:nitro"])
def test_a_model_of_another_kind_is_told_apart(reference: str) -> None:
    for references in ([reference], ["acme/large", reference]):
        with pytest.raises(WrongKind):
            resolve_all(*references)


def test_what_the_format_asks_for_is_not_the_wrong_kind() -> None:
    ask = ASK._replace(output_modalities=frozenset({"embeddings"}))

    assert list_ids(resolve_all("acme/vector", ask=ask)) == ["acme/vector"]


def test_who_asks_to_decide_gets_a_model_that_decides_whatever_else_it_gives_out() -> None:
    judge = model(endpoint(decides="native"), id="acme/judge")
    deciding = replace(judge, output_modalities=("embeddings",))
    ask = ASK._replace(kinds=frozenset({"native"}))

    assert list_ids(resolve_all("acme/judge", ask=ask, catalogue=snapshot([deciding]))) == [
        "acme/judge"
    ]


def test_a_router_of_free_models_stays_with_the_conversation_s() -> None:
    catalogue = snapshot([priced_model(f"acme/free-{n}", "0") for n in range(3)])
    for sticky in ("acme/free-0", "acme/free-2"):
        found = resolve_models(
            catalogue,
            ["router/free"],
            ASK,
            auto=AutoSettings(),
            random=lambda: 0.0,
            sticky_model=sticky,
        )
        assert list_ids(found)[0] == sticky


def test_an_endpoint_without_a_most_of_output_is_an_offer() -> None:
    endless = model(endpoint(max_completion_tokens=None), id="acme/endless")

    assert list_ids(resolve_all("router/auto", catalogue=snapshot([endless]))) == ["acme/endless"]


def test_a_catalogue_name_is_taken_before_it_is_read() -> None:
    found = resolve_all("acme/odd:nitro")

    assert list_ids(found) == ["acme/odd:nitro"]
    assert found.sort is None
    taken = snapshot([priced_model("acme/own")], auto="acme/own", router__auto="acme/own")
    assert list_ids(resolve_all("auto", catalogue=taken)) == list_ids(
        resolve_all("router/auto", catalogue=taken)
    )
    assert resolve_all("auto", catalogue=taken).strategy == "auto"
    assert resolve_all("auto", catalogue=taken).virtual is None


@pytest.mark.parametrize(
    ("references", "sort", "tiers", "plugins"),
    [
        (["acme/large"], None, set(), ()),
        (["acme/large:nitro"], "throughput", {"priority"}, ()),
        (["acme/large:floor"], "price", {"flex"}, ()),
        (["acme/large:exacto"], "exacto", set(), ()),
        (["acme/large:online"], None, set(), ("web",)),
        (["small:online:online"], None, set(), ("web",)),
        (["router/free:nitro"], "throughput", {"priority"}, ()),
        (["acme/large:thinking:floor:online"], "price", {"flex"}, ("web",)),
        # The first that sorts counts; tiers and plugins add up.
        (["acme/large:nitro:floor"], "throughput", {"priority", "flex"}, ()),
        (["acme/large", "acme/small-1:floor"], "price", {"flex"}, ()),
        (["acme/large:online", "small:exacto"], "exacto", set(), ("web",)),
        (["acme/large:exacto", "small:nitro"], "exacto", {"priority"}, ()),
    ],
)
def test_suffixes_have_effects(
    references: list[str], sort: Sort | None, tiers: frozenset[str], plugins: tuple[str, ...]
) -> None:
    found = resolve_all(*references)

    assert (found.sort, found.admitted_tiers, found.plugins) == (sort, tiers, plugins)


def test_routers_are_named_and_concrete_models_are_not() -> None:
    routers = {"router/free": "router/free", "auto": "router/auto", "small": None}
    routers |= {"router/auto-beta:nitro": "router/auto-beta", "router/fusion": None}

    assert {name: resolve_all(name).virtual for name in routers} == routers
    assert resolve_all("acme/large", "router/free").virtual == "router/free"
    # Only where a router finds none is it said which it looked at.
    assert resolve_all("router/free").pool == ()


@pytest.mark.parametrize(("router", "pool"), [("router/auto", "a/dear"), ("router/free", "a/free")])
def test_a_router_that_finds_none_tells_which_it_looked_at(router: str, pool: str) -> None:
    catalogue = snapshot(
        [priced_model("a/dear"), priced_model("a/dearer"), priced_model("a/free", "0")]
    )
    endless = ASK._replace(prompt_tokens=10**9)
    auto = AutoSettings(wishes={"router/auto": AutoOptions(allowed=("a/dear",))})

    found = resolve_models(catalogue, [router], endless, auto=auto, random=lambda: 0.0)

    assert (list_ids(found), [each.id for each in found.pool]) == ([], [pool])


def test_of_equally_new_models_the_one_without_a_variant_is_the_latest() -> None:
    twins = [priced_model("acme/b:free", "0", family="f/f"), priced_model("acme/c", family="f/f")]

    assert list_ids(resolve_all("~f/f-latest", catalogue=snapshot(twins))) == ["acme/c"]


def test_one_model_is_named_for_reading_too() -> None:
    def find_id(reference: str) -> str | None:
        found = find_model(CATALOGUE, reference)
        return None if found is None else found.id

    assert find_id("acme/large:nitro") == "acme/large"
    assert find_id("small") == "acme/small-2"
    assert find_id("~acme/small-latest") == "acme/small-2"
    assert find_id("~acme/none-latest") is find_id("router/auto") is find_id("x/y") is None
