"""Rows 28 to 42, 44, 45 and 50: which endpoint a request goes to, and which it must not go to."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import (
    Desk,
    called_by,
    called_models,
    read_stream,
    returning,
)
from tests.support.gateways import SeededAccount
from tests.support.server import GatewayServer, as_json

SMALL, PACED = "acme/small", "acme/paced"
ALPHA, BETA, TURBO = "small-alpha", "small-beta", "small-beta-turbo"
METADATA = {"X-Router-Metadata": "enabled"}
CALLERS = 8


@pytest.fixture
def small(
    wide_server: GatewayServer, simulator: SimulatedUpstream, wide_account: SeededAccount
) -> Desk:
    return returning(Desk(wide_server, simulator, wide_account, SMALL))


def nowhere(desk: Desk, step: str, **options: Any) -> dict[str, Any]:
    """The metadata of a 404 by that filter; nothing was sent anywhere."""
    error = returning(desk).expect_refusal(404, "not_found", **options)
    metadata: dict[str, Any] = error["metadata"]
    assert metadata["failed_routing_step"] == step
    return metadata


def test_the_account_s_own_list_narrows_the_request_s(
    own_wide_desk: Desk, orm_of: Callable[[Any], Any]
) -> None:
    from accounts.models import Account

    own_wide_desk.model = SMALL
    with orm_of(own_wide_desk.server):
        mine = Account.objects.filter(pk=own_wide_desk.account.account_id)
        mine.update(allowed_providers=["beta"], ignored_providers=["beta/turbo"])

    assert {called_by(own_wide_desk) for _ in range(5)} == {BETA}
    metadata = nowhere(own_wide_desk, "Filter by Allowed Providers", provider={"only": ["alpha"]})
    assert metadata["requested_providers"] == ["alpha"]


def test_a_list_is_tried_in_turn(small: Desk) -> None:
    small.upstream.script("beta", {"status": 500}, {"status": 500})

    answer = small.ok(provider={"order": ["beta", "alpha"]}, headers=METADATA)

    assert called_models(small) == [BETA, TURBO, ALPHA]
    assert answer["provider"] == "Alpha"
    metadata = answer["router_metadata"]
    assert metadata["attempt"] == 3
    assert [each["status"] for each in metadata["attempts"]] == [500, 500, 200]
    assert small.paid_nano(answer) > 0


def test_without_fallbacks_the_listed_endpoint_s_error_is_told(small: Desk) -> None:
    small.upstream.script("beta", {"status": 503})
    wanted = {"order": ["beta/turbo"], "allow_fallbacks": False}

    response = small.post(provider=wanted, headers=METADATA)

    error = small.check_error(response, 503, "provider_overloaded")
    assert error["metadata"]["provider_name"] == "Beta"
    assert "previous_errors" not in error["metadata"]
    assert called_models(small) == [TURBO]
    assert response.json()["router_metadata"]["attempt"] == 1


# --- Prices and paces, at models of their own -----------------------------------------------------


@pytest.fixture
def weighed_desk(small: Desk) -> Desk:
    small.model = "acme/weighed"
    return small


def test_who_is_fast_enough_goes_first(weighed_desk: Desk) -> None:
    desk = weighed_desk
    desk.model = PACED
    for provider, tokens_per_s, words in (("alpha", 20, 8), ("beta", 200, 80)):
        desk.upstream.control("PUT", f"/_persona/{provider}", {"tokens_per_s": tokens_per_s})
        _streams(desk, words, provider={"only": [provider]})
    wanted = {"preferred_min_throughput": {"p90": 50}}

    def beta_leads(**options: Any) -> bool:
        return {called_by(desk, **options) for _ in range(10)} == {"paced-beta"}

    # Figures are a second old at most.
    desk.server.wait_until(lambda: beta_leads(provider=wanted), within_s=20)
    desk.server.wait_until(lambda: beta_leads(model=f"{PACED}:nitro"), within_s=20)
    # An explicit sort beats the suffix.
    by_price = {"model": f"{PACED}:nitro", "provider": {"sort": "price"}}
    assert called_by(desk, **by_price) == "paced-alpha"
    returning(desk).upstream.script("beta", {"status": 500})
    assert desk.ok(provider=wanted)["provider"] == "Alpha"
    assert called_models(desk) == ["paced-beta", "paced-alpha"]
    path = f"/api/v1/models/{PACED}/endpoints"
    alpha, beta = as_json(desk.server.get(path, key=desk.account.api_key))["data"]["endpoints"]
    assert alpha["throughput_last_30m"]["p50"] < beta["throughput_last_30m"]["p50"]
    for persona in ("alpha", "beta"):
        desk.upstream.control("PUT", f"/_persona/{persona}", {})


def _streams(desk: Desk, words: int, **options: Any) -> None:
    """So many streamed answers that their pace is known."""
    said = [{"role": "user", "content": f"say {words} words"}]

    def one(_: int) -> None:
        read_stream(desk.post(stream=True, messages=said, **options))

    with ThreadPoolExecutor(CALLERS) as crowd:
        list(crowd.map(one, range(CALLERS)))


# --- Sessions -------------------------------------------------------------------------------------

ONLY_BETA = {"only": ["beta"], "ignore": ["beta/turbo"]}


@pytest.mark.parametrize("way", ["body", "header", "header of a stream"])
def test_a_session_stays_where_it_was_served(small: Desk, way: str) -> None:
    sessions = range(3)

    def name_session(number: int) -> dict[str, Any]:
        name = f"{way} {number}"
        return {"session_id": name} if way == "body" else {"headers": {"x-session-id": name}}

    for number in sessions:
        session = name_session(number)
        if way == "header of a stream":
            small.stream(**session, provider=ONLY_BETA)
        else:
            assert called_by(small, **session, provider=ONLY_BETA) == BETA
        # Without a session four of five go to the cheapest.
        assert [called_by(small, **session) for _ in range(4)] == [BETA] * 4


def test_who_fails_is_left_and_who_answers_is_kept(small: Desk) -> None:
    assert called_by(small, session_id="moving", provider=ONLY_BETA) == BETA
    returning(small).upstream.script("beta", {"status": 503})

    small.ok(session_id="moving")

    first, moved = called_models(small)
    assert first == BETA
    assert {called_by(small, session_id="moving") for _ in range(5)} == {moved}
