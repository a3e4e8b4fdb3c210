from typing import Any
from urllib.parse import parse_qsl

import pytest

from gateway.http.errors import SchemaInvalid
from routing.catalogue.listing import LearnedStats
from routing.catalogue.load import load_catalogue
from routing.catalogue.query import (
    ModelPage,
    ModelQuery,
    Now,
    count_models,
    filter_models,
    list_page,
)
from routing.catalogue.snapshot import build_snapshot
from routing.entities.entries import Snapshot
from routing.metering.popularity import Calls
from routing.selection.types import EndpointStats, Percentiles

DAY_S = 86_400
NOW_S = 100 * DAY_S


def endpoint(prompt: str, completion: str = "0.000001", **fields: Any) -> dict[str, Any]:
    pricing = {"prompt": prompt, "completion": completion}
    return {"provider": "acme", "upstream_model": "m", "pricing": pricing, **fields}


def model(slug: str, day: int, *endpoints: dict[str, Any], **fields: Any) -> dict[str, Any]:
    known = {"id": slug, "name": slug, "created": day * DAY_S, "endpoints": list(endpoints)}
    return known | fields


PROVIDERS = {"acme": "Acme Inc", "other": "Other"}
SCIENCE: dict[str, Any] = {"categories": ["science", "legal"], "tokenizer": "Llama3"}
DEAR = endpoint("0.000009", "0.00002", zdr=True, supported_parameters=["tools"])
IMAGES = {"context_length": 9000, "input_modalities": ["text", "image"]}
CHEAP = endpoint("0.000001", supported_parameters=["tools", "seed"])
MIDDLE = [
    endpoint("0.000005", provider="other", region="europe"),
    endpoint("0.000007", provider="other", tag="other/us", region="us"),
]
CATALOGUE: dict[str, Any] = {
    "providers": [
        {"slug": slug, "name": name, "base_url": "http://127.0.0.1:9/v1"}
        for slug, name in PROVIDERS.items()
    ],
    "models": [
        model("a/cheap", 10, CHEAP, context_length=1000, family="a/gpt", distillable=True),
        model("a/dear", 90, DEAR, **SCIENCE, **IMAGES),
        model("b/middle", 50, *MIDDLE, context_length=5000),
        model("b/sound", 60, endpoint("0.000001"), output_modalities=["audio"]),
    ],
}
NEWEST = ["a/dear", "b/middle", "a/cheap"]


@pytest.fixture
def listed_models(db: None) -> Snapshot:
    assert load_catalogue(CATALOGUE)["errors"] == []
    return build_snapshot()


def read_page(listed_models: Snapshot, words: dict[str, str]) -> ModelPage:
    return list_page(listed_models.listing, words, Now(NOW_S), path="/models")


KEPT: list[tuple[str, list[str]]] = [
    *[(query, NEWEST) for query in ("", "unknown=ignored", "sort=", "use_rss=false")],
    ("output_modalities=all", ["a/dear", "b/sound", "b/middle", "a/cheap"]),
    ("output_modalities=audio,image", ["b/sound"]),
    ("input_modalities=image", ["a/dear"]),
    ("supported_parameters=tools, seed", ["a/cheap"]),
    ("category=science", ["a/dear"]),
    ("q=MIDD", ["b/middle"]),
    ("context=5000", ["a/dear", "b/middle"]),
    ("min_price=5", ["a/dear", "b/middle"]),
    ("max_price=5.0", ["b/middle", "a/cheap"]),
    ("min_price=2&max_price=8", ["b/middle"]),
    ("min_output_price=2", ["a/dear"]),
    ("max_output_price=1", ["b/middle", "a/cheap"]),
    ("arch=a/gpt,llama3", ["a/dear", "a/cheap"]),
    ("model_authors=B", ["b/middle"]),
    ("providers=acme inc", ["a/dear", "a/cheap"]),
    ("distillable=true", ["a/cheap"]),
    ("distillable=false", ["a/dear", "b/middle"]),
    ("zdr=true", ["a/dear"]),
    ("region=eu", ["b/middle"]),
    ("min_age_days=50", ["b/middle", "a/cheap"]),
    ("max_age_days=10", ["a/dear"]),
    ("min_tool_success_rate=0.5", []),
    ("sort=pricing-low-to-high", ["a/cheap", "b/middle", "a/dear"]),
    ("sort=pricing-high-to-low", ["a/dear", "b/middle", "a/cheap"]),
    ("sort=context-high-to-low", ["a/dear", "b/middle", "a/cheap"]),
    *[(f"sort={word}", NEWEST) for word in ("newest", "latency-low-to-high")],
    ("sort=intelligence-high-to-low", NEWEST),
]


def list_ids(listed_models: Snapshot, query: str, *known: LearnedStats) -> list[str]:
    asked = ModelQuery.read(dict(parse_qsl(query, keep_blank_values=True)))
    return [found.id for found in filter_models(listed_models.listing, asked, Now(NOW_S, *known))]


def test_a_filter_keeps_what_it_says(listed_models: Snapshot) -> None:
    for query, ids in KEPT:
        assert list_ids(listed_models, query) == ids, query


ODD = [
    *("category=cooking", "supported_parameters=tools,nope", "output_modalities=smell"),
    *("input_modalities=all", "context=0", "context=many", f"context={'9' * 5000}", "offset=-1"),
    *("offset=٣", "limit=0", "limit=1001", "limit=1.5", "min_price=-1", "max_price=NaN"),
    *("max_output_price=x", "distillable=yes", "zdr=false", "region=europe", "min_age_days=-1"),
    *("max_tool_success_rate=1.1", "min_agentic_index=high", "sort=oldest", "use_rss=true"),
    "use_rss_chat_links=1",
]


def test_an_odd_value_is_refused_by_name(listed_models: Snapshot) -> None:
    for query in ODD:
        name, _, value = query.partition("=")
        with pytest.raises(SchemaInvalid, match=f"^{name}: ") as caught:
            read_page(listed_models, {name: value})

        (issue,) = caught.value.metadata["issues"]
        assert caught.value.text == f"{name}: {issue['message']}"
        assert issue["path"] == name


def test_pages_follow_one_another_to_the_end(listed_models: Snapshot) -> None:
    first = read_page(listed_models, {"limit": "2", "q": "/"})
    second = read_page(listed_models, {"limit": "2", "offset": "2", "q": "/"})

    assert [found.id for found in [*first.models, *second.models]] == NEWEST
    assert (first.total_count, second.total_count) == (3, 3)
    assert first.next == "/models?limit=2&q=%2F&offset=2"
    beyond = read_page(listed_models, {"offset": "1" * 18})
    assert (list(beyond.models), beyond.total_count, beyond.next, second.next) == (
        [],
        3,
        None,
        None,
    )


def test_counting_looks_at_what_comes_out(listed_models: Snapshot) -> None:
    assert count_models(listed_models.listing, {}) == 3
    assert count_models(listed_models.listing, {"output_modalities": "audio"}) == 1
    assert count_models(listed_models.listing, {"output_modalities": "all", "q": "cheap"}) == 4


def alike(p50: float) -> Percentiles:
    return Percentiles(p50, p50 * 2, p50 * 3, p50 * 4)


# By the tag of an endpoint.
FIGURES = {
    "a/cheap acme": EndpointStats(alike(0.5), alike(40), tool_success=0.9, calls=50),
    "b/middle other": EndpointStats(alike(0.9), alike(10), tool_success=1.0, calls=10),
    "b/middle other/us": EndpointStats(alike(0.2), alike(30), tool_success=0.5, calls=30),
    "b/sound acme": EndpointStats(alike(0.1), alike(99), tool_success=0.1, calls=10),
}
CALLS = {"a/cheap": Calls(week=1, month=90), "a/dear": Calls(week=5, month=7)}


def learned_stats(listed_models: Snapshot) -> LearnedStats:
    ends = [end for model in listed_models.listing for end in model.endpoints]
    named = {f"{end.model_id} {end.tag}": end.pk for end in ends}
    return LearnedStats({named[name]: figures for name, figures in FIGURES.items()}, calls=CALLS)


TAUGHT: list[tuple[str, list[str]]] = [
    ("sort=throughput-high-to-low", ["a/cheap", "b/middle", "a/dear"]),
    ("sort=latency-low-to-high", ["b/middle", "a/cheap", "a/dear"]),
    ("sort=most-popular", ["a/cheap", "a/dear", "b/middle"]),
    ("sort=top-weekly", ["a/dear", "a/cheap", "b/middle"]),
    ("sort=agentic-high-to-low", NEWEST),
    # The mean of the endpoints, each as often as it is called: 0.9 and (10 + 15) / 40.
    ("min_tool_success_rate=0.5", ["b/middle", "a/cheap"]),
    ("min_tool_success_rate=0.63", ["a/cheap"]),
    ("max_tool_success_rate=0.63", ["b/middle"]),
    ("min_tool_success_rate=0.9&max_tool_success_rate=0.9", ["a/cheap"]),
    ("max_tool_success_rate=0.1", []),
    ("max_tool_success_rate=1&output_modalities=audio", ["b/sound"]),
]


def test_what_traffic_has_taught_orders_and_filters(listed_models: Snapshot) -> None:
    for query, ids in TAUGHT:
        assert list_ids(listed_models, query, learned_stats(listed_models)) == ids, query
