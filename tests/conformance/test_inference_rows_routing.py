"""Rows 28 to 42, 44 and 50: which endpoint a request goes to, and which it must not go to."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import HELLO, Desk, Serve, called, called_by, issue_paths, read_stream
from tests.support.catalogue import rewritten
from tests.support.gateways import StartGateway, seed_account
from tests.support.server import GatewayServer

SMALL = "acme/small"
ALPHA, BETA, TURBO = "small-alpha", "small-beta", "small-beta-turbo"
METADATA = {"X-Router-Metadata": "enabled"}
CALLERS = 8
# (prompt, completion) in USD per token.
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def gateway(serve: Serve) -> GatewayServer:
    """Of these tests' own: one that others use remembers who failed, and asks them last."""
    return serve(ROUTER_OUTAGE_WINDOW_SECONDS="0.001")().server


@pytest.fixture
def small(desk: Desk) -> Desk:
    desk.model = SMALL
    return desk


@pytest.fixture
def desk_on(
    start_gateway: StartGateway, simulator: SimulatedUpstream, tmp_path: Path
) -> Callable[[Change], Desk]:
    """A desk on a gateway of the test's own, with a changed conformance catalogue."""

    def open_(change: Change) -> Desk:
        simulator.clear()
        catalogue = yaml.safe_load(rewritten(simulator.url))
        change({model["id"]: model for model in catalogue["models"]})
        file = tmp_path / "catalogue.yaml"
        file.write_text(yaml.safe_dump(catalogue, sort_keys=False), encoding="utf-8")
        server = start_gateway.build()
        server.manage("load_catalogue", str(file))
        server.start()
        return Desk(server, simulator, seed_account(server, credits_usd="100"), SMALL)

    return open_


def nowhere(desk: Desk, step: str, **options: Any) -> dict[str, Any]:
    """The metadata of a 404 by that filter; nothing was sent anywhere."""
    error = desk.refused(404, "not_found", **options)
    metadata: dict[str, Any] = error["metadata"]
    assert metadata["failed_routing_step"] == step
    return metadata


def test_no_provider_that_is_allowed_serves_the_model(small: Desk) -> None:
    metadata = nowhere(small, "Filter by Allowed Providers", provider={"only": ["gamma"]})

    assert metadata["available_providers"] == ["alpha", "beta"]
    assert metadata["requested_providers"] == ["gamma"]


def test_the_account_s_own_list_narrows_the_request_s(
    small: Desk, orm_of: Callable[[Any], Any]
) -> None:
    from accounts.models import Account

    with orm_of(small.server):
        mine = Account.objects.filter(pk=small.account.account_id)
        mine.update(allowed_providers=["beta"], ignored_providers=["beta/turbo"])

    assert {called_by(small) for _ in range(5)} == {BETA}
    small.spent_nano = small.total_usage_nano()
    small.upstream.clear()
    only_alpha = {"only": ["alpha"]}
    metadata = nowhere(small, "Filter by Allowed Providers", provider=only_alpha)
    assert metadata["requested_providers"] == ["alpha"]


def test_a_base_slug_means_all_of_a_provider_and_a_full_one_that_endpoint(small: Desk) -> None:
    both = {called_by(small, provider={"only": ["Beta"]}) for _ in range(40)}
    turbo = {called_by(small, provider={"only": ["beta/turbo"]}) for _ in range(5)}

    # Prices of 6 and 14: turbo is drawn about every seventh time.
    assert both == {BETA, TURBO}
    assert turbo == {TURBO}


def test_a_list_is_tried_in_turn(small: Desk) -> None:
    small.upstream.script("beta", {"status": 500}, {"status": 500})

    answer = small.ok(provider={"order": ["beta", "alpha"]}, headers=METADATA)

    assert called(small) == [BETA, TURBO, ALPHA]
    assert answer["provider"] == "Alpha"
    metadata = answer["router_metadata"]
    assert metadata["attempt"] == 3
    assert [each["status"] for each in metadata["attempts"]] == [500, 500, 200]
    assert small.paid_nano(answer) > 0


def test_without_fallbacks_the_listed_endpoint_s_error_is_told(small: Desk) -> None:
    small.upstream.script("beta", {"status": 503})
    wanted = {"order": ["beta/turbo"], "allow_fallbacks": False}

    response = small.post(provider=wanted, headers=METADATA)

    error = small.told(response, 503, "provider_overloaded")
    assert error["metadata"]["provider_name"] == "Beta"
    assert "previous_errors" not in error["metadata"]
    assert called(small) == [TURBO]
    assert response.json()["router_metadata"]["attempt"] == 1


def test_without_fallbacks_only_the_first_choice_is_tried(small: Desk) -> None:
    for persona in ("alpha", "beta"):
        small.upstream.script(persona, {"status": 503}, repeat=True)

    response = small.post(provider={"allow_fallbacks": False})

    small.told(response, 503, "provider_overloaded")
    assert len(called(small)) == 1


def test_a_list_of_models_is_gone_through_all_the_same(small: Desk) -> None:
    for persona in ("alpha", "beta"):
        small.upstream.script(persona, {"status": 503}, repeat=True)

    answer = small.ok(models=["acme/solo"], provider={"allow_fallbacks": False})

    assert answer["model"] == "acme/solo"
    first, second = called(small)
    assert first in {ALPHA, BETA, TURBO}
    assert second == "solo"


def test_a_price_may_be_equal_to_its_cap(small: Desk) -> None:
    nowhere(small, "Filter by Max Price", provider={"max_price": {"prompt": "0.5"}})

    assert called_by(small, provider={"max_price": {"prompt": "1"}}) == ALPHA
    assert called_by(small, provider={"max_price": {"prompt": 1, "completion": 2}}) == ALPHA


def test_a_price_cap_is_a_number(small: Desk) -> None:
    error = small.refused(400, "invalid_request", provider={"max_price": {"prompt": "cheap"}})

    assert issue_paths(error) == ["provider.max_price.prompt"]


def test_nobody_else_promises_not_to_collect(small: Desk) -> None:
    wanted = {"data_collection": "deny", "ignore": ["alpha"]}

    nowhere(small, "Filter by Data Policy", provider=wanted)

    assert called_by(small, provider={"data_collection": "deny"}) == ALPHA


def test_zero_data_retention(small: Desk) -> None:
    assert {called_by(small, provider={"zdr": True}) for _ in range(10)} == {ALPHA}


def test_quantizations(small: Desk) -> None:
    bf16 = {called_by(small, provider={"quantizations": ["bf16"]}) for _ in range(5)}
    error = small.post(provider={"quantizations": ["q8"]})

    assert bf16 <= {BETA, TURBO}
    assert error.status_code == 400
    assert called_by(small, provider={"quantizations": ["fp8"]}) == ALPHA


def test_parameters_are_required_where_the_caller_says_so(small: Desk) -> None:
    strict = {"require_parameters": True}
    nowhere(small, "Filter by Parameters", provider=strict, top_k=5)

    small.ok(top_k=5)
    small.ok(provider=strict, max_completion_tokens=20, reasoning={"effort": "low"})

    assert all("top_k" not in entry["body"] for entry in small.upstream.requests())


def test_a_sort_by_price_is_no_lottery(small: Desk) -> None:
    assert {called_by(small, provider={"sort": "price"}) for _ in range(50)} == {ALPHA}


def test_the_workspace_s_own_sort_is_used_where_none_is_named(
    small: Desk, orm_of: Callable[[Any], Any]
) -> None:
    from accounts.models import Workspace

    with orm_of(small.server):
        mine = Workspace.objects.filter(pk=small.account.workspace_id)
        mine.update(default_provider_sort="price")

    assert {called_by(small) for _ in range(20)} == {ALPHA}
    assert called_by(small, provider={"order": ["beta/turbo"]}) == TURBO


def test_prices_of_one_and_three_are_drawn_nine_to_one(desk_on: Callable[[Change], Desk]) -> None:
    def two(models: dict[str, Any]) -> None:
        alpha, beta, _ = models[SMALL]["endpoints"]
        alpha["pricing"] = {"prompt": "0.0000005", "completion": "0.0000005"}
        beta["pricing"] = {"prompt": "0.0000015", "completion": "0.0000015"}
        models[SMALL]["endpoints"] = [alpha, beta]

    desk = desk_on(two)

    with ThreadPoolExecutor(CALLERS) as crowd:
        statuses = Counter(crowd.map(lambda _: desk.post().status_code, range(1000)))

    assert statuses == {200: 1000}
    # Five standard deviations of a fair draw.
    assert Counter(called(desk))[ALPHA] == pytest.approx(900, abs=48)


def test_sorted_over_all_models(desk_on: Callable[[Change], Desk]) -> None:
    def cheap_gamma(models: dict[str, Any]) -> None:
        (gamma,) = models["acme/solo"]["endpoints"]
        gamma["pricing"] = {"prompt": "0.0000001", "completion": "0.0000001"}

    desk = desk_on(cheap_gamma)
    wanted = {"sort": {"by": "price", "partition": "none"}}

    answer = desk.ok(models=[SMALL, "acme/solo"], provider=wanted, headers=METADATA)
    by_model = desk.ok(models=[SMALL, "acme/solo"], provider={"sort": "price"})

    assert called(desk) == ["solo", ALPHA]
    assert answer["model"] == "acme/solo"
    assert answer["router_metadata"]["strategy"] == "fallback"
    assert by_model["model"] == SMALL


def test_who_is_fast_enough_goes_first(desk_on: Callable[[Change], Desk]) -> None:
    desk = desk_on(lambda models: None)
    for reference, tokens_per_s, words in (
        ("alpha", 20, 8),
        ("beta/turbo", 20, 8),
        ("beta", 200, 80),
    ):
        persona = reference.split("/")[0]
        desk.upstream.control("PUT", f"/_persona/{persona}", {"tokens_per_s": tokens_per_s})
        only = {"only": [reference], "ignore": ["beta/turbo"] if reference == "beta" else []}
        _streams(desk, words, provider=only)
    wanted = {"preferred_min_throughput": {"p90": 50}}

    def beta_leads() -> bool:
        desk.upstream.clear()
        desk.ok(provider=wanted)
        return called(desk) == [BETA]

    # Figures are a second old at most.
    desk.server.wait_until(lambda: all(beta_leads() for _ in range(10)), within_s=20)
    desk.upstream.clear()
    desk.upstream.script("beta", {"status": 500})
    answer = desk.ok(provider={**wanted, "ignore": ["beta/turbo"]}, headers=METADATA)

    assert called(desk) == [BETA, ALPHA]
    assert answer["provider"] == "Alpha"
    for persona in ("alpha", "beta"):
        desk.upstream.control("PUT", f"/_persona/{persona}", {})


def _streams(desk: Desk, words: int, **options: Any) -> None:
    """So many streamed answers that their pace is known."""
    said = [{"role": "user", "content": f"say {words} words"}]

    def one(_: int) -> None:
        read_stream(desk.post(stream=True, messages=said, **options))

    with ThreadPoolExecutor(CALLERS) as crowd:
        list(crowd.map(one, range(CALLERS)))


def test_a_percentile_nobody_knows(small: Desk) -> None:
    error = small.refused(400, "invalid_request", provider={"preferred_max_latency": {"p42": 1}})

    assert 'Unrecognized key: "p42"' in error["message"]


def test_tools_for_a_model_that_takes_none(small: Desk) -> None:
    tool = {"type": "function", "function": {"name": "weather"}}

    nowhere(small, "Filter by Tool Compatibility", model="acme/text", tools=[tool])

    assert called_by(small, model="acme/text", tools=[]) == "text"


def test_a_stream_that_nobody_takes_is_an_ordinary_error(serve: Serve) -> None:
    small = serve()()
    small.upstream.clear()
    for persona, hint in (("alpha", "7"), ("beta", "3")):
        limited = {"status": 429, "headers": {"Retry-After": hint}}
        small.upstream.script(persona, limited, repeat=True)

    response = small.post(stream=True, messages=HELLO)

    error = small.told(response, 429, "rate_limit_exceeded")
    assert response.headers["Retry-After"] == "3"
    assert len(error["metadata"]["previous_errors"]) == 2
    assert sorted(called(small)) == [ALPHA, BETA, TURBO]
