"""Random catalogues, requests, policies and states: what `select` may ever be asked, in small.

Values come from short lists, so that prices tie, lists overlap and limits are met exactly. Most of
a case says nothing: with every restriction in force at once nothing would be left to choose from.
"""

import string
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from routing.entities.entries import EndpointEntry, ModelEntry
from routing.entities.vocabulary import QUANTIZATIONS, REGIONS, STATUSES
from routing.selection.types import (
    EndpointState,
    EndpointStats,
    HealthSnapshot,
    Percentiles,
    Policy,
    Requirements,
)
from tests.routing.selection import entries
from tests.routing.selection.oracle_steps import MEDIA, Case

# Several times as many as of simpler things: few in a change's run, many in a nightly's.
ON_MANY: Final = settings(
    max_examples=5 * settings().max_examples, suppress_health_check=list(HealthCheck)
)
# As `slug: display name`.
PROVIDERS: Final = {"alpha": "Alpha AI", "beta": "Beta", "gamma": "gamma", "delta": "Delta (EU)"}
_SUFFIXES: Final = ("", "/turbo", "/eu", "/fp8")
PLACES: Final = [
    *((slug, f"{slug}{suffix}") for suffix in _SUFFIXES for slug in PROVIDERS),
    *(("alpha", "alpha/flex"), ("beta", "beta/flex")),
    *(("alpha", "alpha/priority"), ("beta", "beta/priority")),
]
PARAMETERS: Final = (
    *("temperature", "tools", "response_format", "structured_outputs", "verbosity"),
    *("max_tokens", "max_completion_tokens", "reasoning", "seed"),
)
# Several that cost the same in sum, and nothing.
PRICES: Final = [
    {"prompt": prompt, "completion": completion}
    for prompt, completion in (
        *(("0.000001", "0.000002"), ("0.000002", "0.000001"), ("0.000003", "0.000006")),
        *(("0.0000005", "0.0000005"), ("0", "0.00001"), ("0", "0")),
    )
]
_MORE_PRICES: Final = {"request": "0.001", "image": "0.002", "audio": "0.00001"}
_LENGTHS: Final = (1000, 4000, 16_000)
_SECONDS: Final = (0.1, 0.5, 1.0, 3.0)
_RATES: Final = (10.0, 30.0, 50.0, 90.0)
_PERCENTILES: Final = ("p50", "p75", "p90", "p99")
_POOL: Final = 2000
# No share of weights that these prices can make is a multiple of one in so many.
_CHANCES: Final = 99_730


# --- Endpoints and models: drawn out of a pool, so that a case is made of few draws ---------------


def _shape(number: int) -> EndpointEntry:
    """The first few of the pool are plain, the later ones have more and more to say."""
    chance = Random(number)
    slug, tag = PLACES[number % len(PLACES)]
    oddities = {
        "pricing": lambda: chance.choice([None, *PRICES, *PRICES]),
        "more": lambda: True,
        "kind": lambda: chance.choice(["openai", "openai", "anthropic"]),
        "status": lambda: chance.choice([-1, -2, -2, *STATUSES]),
        "region": lambda: chance.choice(REGIONS),
        "quantization": lambda: chance.choice(QUANTIZATIONS),
        "context_length": lambda: chance.choice(_LENGTHS),
        "max_prompt_tokens": lambda: chance.choice(_LENGTHS),
        "input_modalities": lambda: ("text", *chance.sample(list(MEDIA), 3)),
        "output_modalities": lambda: ("text", "image"),
        "collects_data": lambda: True,
        "zdr": lambda: True,
    }
    odd = chance.sample(list(oddities), number * 6 // _POOL)
    said: dict[str, Any] = {name: oddities[name]() for name in odd}
    pricing = said.pop("pricing", chance.choice(PRICES))
    more = _MORE_PRICES if said.pop("more", False) and pricing else {}
    provider = entries.provider(slug, kind=said.pop("kind", "openai"), name=PROVIDERS[slug])
    suffix = tag.rpartition("/")[2]
    return entries.endpoint(
        tag,
        provider=provider,
        tier=suffix if suffix in ("flex", "priority") else "default",
        pricing=pricing and {**pricing, **more},
        supported_parameters=frozenset(chance.sample(PARAMETERS, chance.randint(3, 9))),
        max_completion_tokens=chance.choice([None, *_LENGTHS]),
        **{"context_length": None} | said,
    )


POOL: Final = [_shape(number) for number in range(_POOL)]


@st.composite
def models(draw: Any, id: str, first_pk: int) -> ModelEntry:
    numbers = st.integers(0, _POOL - 1)
    fewest = draw(one([3, 3, 1, 0]))
    chosen = draw(
        st.lists(
            numbers, min_size=fewest, max_size=6, unique_by=lambda number: number % len(PLACES)
        )
    )
    distillable = draw(st.booleans())
    own = [
        replace(POOL[number], pk=first_pk + at, distillable=distillable)
        for at, number in enumerate(chosen)
    ]
    return replace(entries.model(*own, id=id), distillable=distillable)


# --- Requests and policies ------------------------------------------------------------------------


def one(words: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(list(words))


def some(words: Any, *, most: int = 3) -> st.SearchStrategy[frozenset[Any]]:
    return st.frozensets(one(words), min_size=1, max_size=most)


def references() -> st.SearchStrategy[tuple[str, ...]]:
    """Slugs, tags and display names in any case, and one that matches nothing."""
    known = [*PROVIDERS, *PROVIDERS, *PROVIDERS.values(), *(tag for _, tag in PLACES), "nobody"]
    spelled = [spell(name) for spell in (str, str.upper, str.title) for name in known]
    return st.lists(one(spelled), min_size=1, max_size=3).map(tuple)


def caps() -> st.SearchStrategy[dict[str, Decimal]]:
    """At, above and below the prices there are."""
    values = one(["0", "0.5", "1", "3", "1000"]).map(Decimal)
    kinds = one(["prompt", "completion", "request", "image", "audio"])
    return st.dictionaries(kinds, values, min_size=1, max_size=2)


def cutoffs(values: tuple[float, ...]) -> st.SearchStrategy[dict[str, float]]:
    return st.dictionaries(one(_PERCENTILES), one(values), min_size=1, max_size=2)


_ASKED: Final[dict[str, st.SearchStrategy[Any]]] = {
    "kinds": st.just(frozenset({"openai", "anthropic"})),
    "input_modalities": some(["text", *MEDIA]),
    "output_modalities": some(["text", "image"]),
    "supplied_parameters": some(PARAMETERS),
    "prompt_tokens": one([10, 1000, 3999, 4000]),
    "output_tokens": one([1, 1000, 1001, 20_000]),
    "service_tier": one(["auto", "default", "scale", "priority", "flex"]),
}
_FILTERED: Final[dict[str, st.SearchStrategy[Any]]] = {
    "only": references(),
    "ignore": references(),
    "account_allowed": references(),
    "account_ignored": references(),
    "deny_data_collection": st.just(True),
    "zdr": st.just(True),
    "distillable_only": st.just(True),
    "region": one(["global", *REGIONS]),
    "quantizations": some(QUANTIZATIONS, most=6),
    "max_price_usd": caps(),
    "require_parameters": st.just(True),
}
_ORDERED: Final[dict[str, st.SearchStrategy[Any]]] = {
    "order": references(),
    "allow_fallbacks": st.just(False),
    "sort": one(["price", "throughput", "latency", "exacto"]),
    "across_models": st.just(True),
    "max_latency_s": cutoffs(_SECONDS),
    "min_throughput_tps": cutoffs(_RATES),
    "admitted_tiers": some(["flex", "priority"]),
}


@st.composite
def a_few(draw: Any, of: dict[str, st.SearchStrategy[Any]], *, most: int) -> dict[str, Any]:
    """Values for some of the names."""
    return {name: draw(of[name]) for name in draw(st.lists(one(of), max_size=most, unique=True))}


@st.composite
def asks(draw: Any) -> Requirements:
    said = {"kinds": frozenset({"openai"})} | draw(a_few(_ASKED, most=2))
    supplied = said.get("supplied_parameters", frozenset())
    # One word for both spellings of the output's cap.
    required = {"max_tokens" if name == "max_completion_tokens" else name for name in supplied}
    return Requirements(**said, tools="tools" in supplied, required_parameters=frozenset(required))


@st.composite
def policies(draw: Any) -> Policy:
    said = draw(a_few(_FILTERED, most=2)) | draw(a_few(_ORDERED, most=3))
    if "order" in said:
        # `policy_of` lets no suffix open a tier where an order is given.
        said.pop("admitted_tiers", None)
    by_whom = {"sort_named": draw(st.booleans())} if "sort" in said else {}
    if by_whom.get("sort_named") is False and "order" not in said:
        by_whom["sort_is_default"] = draw(st.booleans())
    return Policy(**said, **by_whom, models_named=draw(st.booleans()))


# --- What was learned -----------------------------------------------------------------------------


def _figures(number: int) -> EndpointStats | None:
    chance = Random(number)

    def percentiles(values: tuple[float, ...]) -> Percentiles | None:
        found = Percentiles(*sorted(chance.choices(values, k=4)))
        return chance.choice([None, found, found])

    success = chance.choice([None, 0.0, 0.5, 0.89, 0.9, 1.0])
    known = EndpointStats(percentiles(_SECONDS), percentiles(_RATES), success)
    return known if number else None


FIGURES: Final = [_figures(number) for number in range(200)]


@st.composite
def states(draw: Any, keys: list[int]) -> EndpointState:
    if not keys:
        return EndpointState()
    some_keys = st.frozensets(one(keys), max_size=3)
    learned: dict[str, st.SearchStrategy[Any]] = {
        "unstable": some_keys,
        "parked": some_keys,
        "half_open": some_keys,
        "failing": some_keys,
        "sticky": one([*keys, 999]),
        "sticky_by_session": st.just(True),
        "byok": st.lists(one(keys), max_size=3, unique=True),
        "figures": st.tuples(*[one(FIGURES)] * len(keys)),
    }
    said = draw(a_few(learned, most=4))
    unstable, parked, half_open, failing = (
        said.pop(name, frozenset()) for name in HealthSnapshot._fields
    )
    figures = zip(keys, said.pop("figures", ()), strict=False)
    return EndpointState(
        figures={key: known for key, known in figures if known is not None},
        health=HealthSnapshot(unstable, parked - half_open, half_open - unstable, failing),
        byok={key: (place,) for place, key in enumerate(said.pop("byok", ()))},
        **said,
    )


@st.composite
def cases(draw: Any) -> Case:
    # Keys that do not run in the order of models, prices or tags.
    chosen = [
        draw(models(f"acme/{letter}", 100 - 10 * at))
        for at, letter in enumerate(string.ascii_lowercase[: draw(st.integers(1, 3))])
    ]
    keys = [each.pk for model in chosen for each in model.endpoints]
    return Case(
        models=chosen,
        ask=draw(asks()),
        policy=draw(policies()),
        state=draw(states(keys)),
        chance=(10 * draw(st.integers(0, _CHANCES // 10 - 1)) + 3) / _CHANCES,
    )
