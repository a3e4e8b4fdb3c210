"""Rows 15 to 17, 43 and 60, and the rest of section 7.4: which model a reference comes to."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk, Serve, called, called_by, issue_paths, read_stream
from tests.support.bed import Bed
from tests.support.catalogue import rewritten
from tests.support.gateways import StartGateway, seed_account
from tests.support.server import GatewayServer, as_json

SMALL, SOLO, TEXT, FREE = "acme/small", "acme/solo", "acme/text", "acme/small:free"
ALPHA, BETA = "small-alpha", "small-beta"
METADATA = {"X-Router-Metadata": "enabled"}
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
CALLERS = 8


def routed(desk: Desk, **options: Any) -> tuple[str, str, str]:
    """The model that answered, the strategy's word, and the upstream model that was called."""
    before = len(called(desk))
    answer = desk.ok(headers=METADATA, **options)
    (upstream,) = called(desk)[before:]
    metadata = answer["router_metadata"]
    named = options.get("model") or options["models"][0]
    assert metadata["requested"] == named
    assert desk.generation(answer["id"])["model"] == answer["model"]
    return answer["model"], metadata["strategy"], upstream


@pytest.mark.parametrize(
    "reference", ["acme/small:weird", "acme/text:free", "acme/small:nitro:free", "~acme/small"]
)
def test_a_name_that_comes_to_nothing(desk: Desk, reference: str) -> None:
    error = desk.refused(400, "invalid_request", model=reference)

    assert error["message"] == f"{reference} is not a valid model ID"


@pytest.fixture(scope="module")
def gateway(serve: Serve) -> GatewayServer:
    """Of these tests' own: one that others use remembers who failed, and asks them last."""
    return serve(ROUTER_OUTAGE_WINDOW_SECONDS="0.001")().server


def test_a_model_of_another_kind(desk: Desk) -> None:
    error = desk.refused(400, "invalid_request", model="typesafe/jev-1.13")

    assert error["message"] == "typesafe/jev-1.13 does not serve chat completions"


def test_the_workspaces_default_may_be_any_reference(
    desk: Desk, orm_of: Callable[[Any], Any]
) -> None:
    from accounts.models import Workspace

    with orm_of(desk.server):
        mine = Workspace.objects.filter(pk=desk.account.workspace_id)
        mine.update(default_text_model="~acme/small-latest:floor")
    body = b'{"messages": [{"role": "user", "content": "Hello"}]}'

    response = desk.raw(body, headers=METADATA)

    assert response.status_code == 200, response.text
    answer = as_json(response)
    assert (answer["model"], called(desk)) == (SMALL, [ALPHA])
    metadata = answer["router_metadata"]
    assert (metadata["requested"], metadata["strategy"]) == ("~acme/small-latest:floor", "latest")


def test_route_sort_looks_at_all_models_at_once(desk: Desk) -> None:
    wanted = {"sort": "price", "ignore": ["alpha"]}

    def first(**route: Any) -> str:
        return called_by(desk, model=SMALL, models=[SOLO], provider=wanted, **route)

    # Gamma serves the second model, for half of what beta asks.
    assert first(route="sort") == "solo"
    assert first() == first(route="fallback") == first(route=None) == BETA
    # The object's own word counts.
    by_model = {**wanted, "sort": {"by": "price", "partition": "model"}}
    assert called_by(desk, model=SMALL, models=[SOLO], provider=by_model, route="sort") == BETA


def test_another_route_is_refused(desk: Desk) -> None:
    assert issue_paths(desk.refused(400, "invalid_request", route="zig")) == ["route"]


@pytest.mark.parametrize(
    ("asked", "model", "strategy", "upstream"),
    [
        ({"model": FREE}, FREE, "direct", ALPHA),
        ({"model": "~acme/small-latest:floor"}, SMALL, "latest", ALPHA),
        ({"model": "acme/solo:exacto"}, SOLO, "direct", "solo"),
        ({"models": [SOLO, SMALL]}, SOLO, "fallback", "solo"),
        ({"model": SOLO, "models": [SOLO]}, SOLO, "direct", "solo"),
        ({"model": "router/free"}, FREE, "free", ALPHA),
        ({"model": "router/auto"}, FREE, "auto", ALPHA),
        ({"model": "auto:nitro"}, FREE, "auto", ALPHA),
        ({"model": "~acme/none-latest", "models": [SOLO]}, SOLO, "latest", "solo"),
        ({"model": "router/fusion", "models": [SOLO]}, SOLO, "fusion", "solo"),
    ],
)
def test_references_come_to_models(
    desk: Desk, asked: dict[str, Any], model: str, strategy: str, upstream: str
) -> None:
    desk.model = asked.get("model", SOLO)
    body = {key: value for key, value in asked.items() if key != "model"}
    if "model" not in asked:
        body["model"] = asked["models"][0]

    assert routed(desk, **({"model": desk.model} | body)) == (model, strategy, upstream)


@pytest.mark.parametrize(
    "reference", ["router/pareto-code", "router/bodybuilder", "router/fusion", "~acme/none-latest"]
)
def test_a_choice_without_models_is_not_found(desk: Desk, reference: str) -> None:
    error = desk.refused(404, "not_found", model=reference)

    assert error["message"] == f"No model found for {reference}"


def auto(**settings: Any) -> dict[str, Any]:
    return {"model": "router/auto", "plugins": [{"id": "auto-router", **settings}]}


def test_the_auto_router_keeps_to_its_plugin(desk: Desk) -> None:
    paid = {"excluded_models": ["*:free"]}

    assert routed(desk, **auto(allowed_models=["acme/so*"])) == (SOLO, "auto", "solo")
    # All that cost something cost the same, so they share a band.
    assert routed(desk, **auto(**paid, cost_tier="low"))[0] == SMALL
    assert routed(desk, **auto(**paid, allowed_models=["*/text", "acme/solo"]))[0] == SOLO
    assert routed(desk, **auto(allowed_models=["*"], cost_tier="max"))[0] == SMALL
    # Not its router, and switched off.
    assert (
        routed(desk, **auto(allowed_models=["acme/so*"]) | {"model": "router/auto-beta"})[0] == FREE
    )
    assert routed(desk, **auto(allowed_models=["acme/so*"], enabled=False))[0] == FREE


def test_the_auto_router_finds_what_fits_or_nothing(desk: Desk) -> None:
    only_text = auto(allowed_models=[TEXT])
    assert routed(desk, **only_text)[0] == TEXT
    desk.spent_nano = desk.total_usage_nano()
    desk.upstream.clear()

    error = desk.refused(404, "not_found", tools=TOOLS, **only_text)

    assert error["message"] == "No model found for router/auto"


TIGHT: list[tuple[dict[str, Any], str, list[str], list[str]]] = [
    (auto(allowed_models=[TEXT]) | {"tools": TOOLS}, "Tool Compatibility", ["delta"], []),
    (
        auto(allowed_models=[SOLO, TEXT]) | {"provider": {"only": ["beta"]}},
        *("Allowed Providers", ["delta", "gamma"], ["beta"]),
    ),
    (
        auto(allowed_models=[SOLO]) | {"provider": {"max_price": {"prompt": "0.000001"}}},
        *("Max Price", ["gamma"], []),
    ),
    (
        {"model": "router/free", "provider": {"order": ["delta"], "allow_fallbacks": False}},
        *("Allowed Providers", ["alpha"], ["delta"]),
    ),
]


@pytest.mark.parametrize(("asked", "step", "available", "requested"), TIGHT)
def test_a_router_that_finds_nothing_says_why(
    desk: Desk, asked: dict[str, Any], step: str, available: list[str], requested: list[str]
) -> None:
    response = desk.post(headers=METADATA, **asked)

    error = desk.check_refused(response, 404, "not_found")
    assert error["metadata"] == {
        "error_type": "not_found",
        "failed_routing_step": f"Filter by {step}",
        "available_providers": available,
        "requested_providers": requested,
    }
    told = as_json(response)["router_metadata"]
    assert (told["requested"], told["summary"]) == (asked["model"], "available=0")
    assert told["strategy"] == asked["model"].removeprefix("router/")
    assert told["endpoints"] == {"total": 0, "available": []}


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "router/pareto-code"},
        {"model": "~acme/none-latest"},
        auto(allowed_models=["nobody/*"]),
    ],
)
def test_where_there_is_no_model_at_all_no_filter_is_named(
    desk: Desk, asked: dict[str, Any]
) -> None:
    response = desk.post(headers=METADATA, **asked)

    metadata = desk.check_refused(response, 404, "not_found")["metadata"]
    assert metadata["failed_routing_step"] == "Resolve Models"
    assert metadata["available_providers"] == metadata["requested_providers"] == []
    assert as_json(response)["router_metadata"]["requested"] == asked["model"]


def test_who_owes_is_told_so_before_that_nothing_was_found(
    desk: Desk, audited: GatewayServer
) -> None:
    broke = Desk(audited, desk.upstream, seed_account(audited, credits_usd="0"))

    for asked in ({"model": "router/pareto-code"}, auto(allowed_models=["nobody/*"])):
        error = broke.refused(402, "payment_required", **asked)
        assert error["metadata"]["limit_source"] == "router_credits"
    # What costs nothing may be asked for without credit.
    broke.refused(404, "not_found", model="router/free", provider={"only": ["delta"]})


def test_the_auto_router_passes_over_what_the_preferences_leave_no_endpoint(desk: Desk) -> None:
    answered = routed(desk, model="router/auto", provider={"only": ["delta"]})
    free = routed(desk, model="router/free", provider={"only": ["alpha"]})

    assert answered == (TEXT, "auto", "text")
    assert free == (FREE, "free", ALPHA)
    desk.spent_nano = desk.total_usage_nano()
    desk.upstream.clear()
    desk.refused(404, "not_found", model="router/free", provider={"only": ["delta"]})


def test_the_auto_router_falls_back_on_the_next_models(desk: Desk) -> None:
    desk.upstream.script("gamma", {"status": 500})

    wanted = auto(allowed_models=[SOLO, TEXT])
    answer = desk.ok(headers=METADATA, **wanted)

    assert called(desk) == ["solo", "text"]
    assert answer["model"] == TEXT
    assert answer["router_metadata"]["strategy"] == "auto"


def test_a_pinned_model_is_taken_again(desk: Desk) -> None:
    said = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi", "model": SOLO},
        {"role": "user", "content": "Again"},
    ]

    assert routed(desk, **auto(pin_model=True), messages=said)[0] == SOLO
    assert routed(desk, **auto(), messages=said)[0] == FREE
    assert routed(desk, **auto(pin_model=True, excluded_models=[SOLO]), messages=said)[0] == FREE


def test_online_is_refused_as_the_plugin_is(desk: Desk) -> None:
    by_plugin = desk.refused(400, "invalid_request", model=SOLO, plugins=[{"id": "web"}])
    by_suffix = desk.refused(400, "invalid_request", model="acme/solo:online")
    on_a_router = desk.refused(400, "invalid_request", model="router/auto:online")

    assert by_plugin["message"] == by_suffix["message"] == on_a_router["message"]
    # Who switches the plugin off has the last word.
    off = [{"id": "web", "enabled": False}]
    assert called_by(desk, model="acme/solo:online", plugins=off) == "solo"


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "@preset/missing"},
        {"model": "@Preset/missing"},
        {"model": "acme/solo@preset/missing"},
        {"model": "acme/solo:nitro@preset/missing"},
        {"preset": "missing"},
        {"models": ["acme/solo", "@preset/missing"]},
        {"model": "@preset/missing", "preset": "missing"},
        # The preset comes before the model in the order of refusals.
        {"model": "nope/none@preset/missing"},
    ],
)
def test_a_preset_nobody_has(desk: Desk, asked: dict[str, Any]) -> None:
    error = desk.refused(404, "not_found", **asked)

    assert error["message"] == "Preset not found: missing"


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "@preset/one", "preset": "other"},
        {"model": "@preset/one:nitro"},
        {"model": "acme/solo@preset/one:free"},
    ],
)
def test_presets_that_cannot_be_meant(desk: Desk, asked: dict[str, Any]) -> None:
    desk.refused(400, "invalid_request", **asked)


# --- On a gateway of the test's own ---------------------------------------------------------------


@pytest.fixture(scope="module")
def own_server(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[GatewayServer]:
    """Its catalogue has an alias and a priority tier, and it has a list for auto."""
    folder = tmp_path_factory.mktemp("models")
    catalogue = yaml.safe_load(rewritten(simulator.url))
    small, *_, solo, text, _ = catalogue["models"]
    small["aliases"], text["aliases"] = ["acme/tiny"], ["router/fusion"]
    fast = {**solo["endpoints"][0], "tag": "gamma/priority", "upstream_model": "solo-fast"}
    fast["pricing"] = {"prompt": "0.000009", "completion": "0.000009"}
    solo["endpoints"].append(fast)
    file = folder / "catalogue.yaml"
    file.write_text(yaml.safe_dump(catalogue, sort_keys=False), encoding="utf-8")
    with StartGateway(stores, folder) as starter:
        server = starter.build(ROUTER_AUTO_MODELS="router/fusion, acme/so*, gone/model")
        server.manage("load_catalogue", str(file))
        server.start()
        yield server


@pytest.fixture
def own(own_server: GatewayServer, simulator: SimulatedUpstream) -> Desk:
    simulator.clear()
    return Desk(own_server, simulator, seed_account(own_server, credits_usd="100"), SMALL)


def test_aliases_and_the_operators_list(own: Desk) -> None:
    assert routed(own, model="acme/tiny:floor") == (SMALL, "alias", ALPHA)
    assert routed(own, model="router/fusion") == (TEXT, "fusion", "text")
    # Both cost the same; the other models are not on the list.
    assert routed(own, model="auto") == (SOLO, "auto", "solo")
    assert routed(own, model="auto", tools=TOOLS)[0] == SOLO
    assert routed(own, **auto(allowed_models=["router/fusion"]))[0] == TEXT
    folded = own.ok(model="acme/tiny", models=[SMALL], headers=METADATA)
    assert folded["router_metadata"]["endpoints"]["total"] == 3


def test_suffixes_sort_and_open_tiers(own: Desk) -> None:
    assert {called_by(own, model="acme/small:floor") for _ in range(5)} == {ALPHA}
    _streams(own, "alpha", tokens_per_s=20, words=8)
    _streams(own, "beta", tokens_per_s=200, words=80)

    def beta_is_called(**options: Any) -> bool:
        return called_by(own, model="acme/small:nitro", **options) == BETA

    # Figures are a second old at most.
    own.server.wait_until(lambda: all(beta_is_called() for _ in range(5)), within_s=20)
    # An explicit sort beats the suffix.
    assert called_by(own, model="acme/small:nitro", provider={"sort": "price"}) == ALPHA

    def statistics() -> list[Any]:
        path = "/api/v1/models/acme/small/endpoints"
        return as_json(own.server.get(path, key=own.account.api_key))["data"]["endpoints"]

    own.server.wait_until(lambda: statistics()[1]["uptime_last_5m"] == 100, within_s=20)
    alpha, beta, turbo = statistics()
    assert alpha["throughput_last_30m"]["p50"] < beta["throughput_last_30m"]["p50"]
    assert turbo["throughput_last_30m"] is None
    sorted_path = "/api/v1/models?sort=throughput-high-to-low"
    assert as_json(own.server.get(sorted_path, key=own.account.api_key))["data"][0]["id"] == SMALL
    for persona in ("alpha", "beta"):
        own.upstream.control("PUT", f"/_persona/{persona}", {})


def test_a_tier_that_a_suffix_opened_is_tried_and_an_order_closes_it(own: Desk) -> None:
    own.upstream.script("gamma", {"status": 500}, {"status": 500})
    assert own.post(model=SOLO).status_code == 502
    assert called(own) == ["solo"]
    own.upstream.clear()
    own.upstream.script("gamma", {"status": 500})

    answer = own.ok(model="acme/solo:nitro")

    assert sorted(called(own)) == ["solo", "solo-fast"]
    assert answer["model"] == SOLO
    own.upstream.clear()
    own.upstream.script("gamma", {"status": 500}, {"status": 500})
    assert own.post(model="acme/solo:nitro", provider={"order": ["gamma"]}).status_code == 502
    assert called(own) == ["solo"]


def _streams(desk: Desk, provider: str, *, tokens_per_s: int, words: int) -> None:
    """So many streamed answers that the provider's pace is known."""
    desk.upstream.control("PUT", f"/_persona/{provider}", {"tokens_per_s": tokens_per_s})
    said = [{"role": "user", "content": f"say {words} words"}]
    wanted = {"only": [provider], "ignore": ["beta/turbo"]}

    def one(_: int) -> None:
        read_stream(desk.post(stream=True, messages=said, provider=wanted))

    with ThreadPoolExecutor(CALLERS) as crowd:
        list(crowd.map(one, range(CALLERS)))
