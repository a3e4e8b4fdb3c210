"""What calls on a team's own credentials leave in the books, and which limits they count toward."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk, exact, nano
from tests.support.bed import Bed
from tests.support.catalogue import rewritten
from tests.support.gateways import seed_account
from tests.support.own_credentials import (
    MINE,
    SHARED,
    Serve,
    assert_sound,
    bring,
    credentials_at,
    fingerprint,
    priced_nano,
    refusal,
    serving,
)
from tests.support.server import GatewayServer

pytestmark = [pytest.mark.both, pytest.mark.thorough]
Orm = Callable[[GatewayServer], AbstractContextManager[None]]
HELLO = [{"role": "user", "content": "say 100 words"}]
# 13 bytes of text, 16 tokens for the message, 200 of the answer.
ESTIMATE_NANO = (13 + 16) * 1000 + 200 * 2000


@pytest.fixture(scope="module")
def serve(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[Serve]:
    with serving(tmp_path_factory.mktemp("own-books"), stores, rewritten(simulator.url)) as serve:
        yield serve


@pytest.fixture(scope="module")
def server(serve: Serve) -> Iterator[GatewayServer]:
    running = serve()
    yield running
    assert_sound(running)


@pytest.fixture
def desk(server: GatewayServer, simulator: SimulatedUpstream) -> Desk:
    simulator.clear()
    return Desk(server, simulator, seed_account(server))


def ask(desk: Desk, **body: Any) -> Any:
    return desk.post(messages=HELLO, max_tokens=200, **body)


def good(desk: Desk, **body: Any) -> Any:
    answer = ask(desk, **body)
    assert answer.status_code == 200, answer.text
    return exact(answer)


def list_nano(answer: Any) -> int:
    return nano(answer["usage"]["cost_details"]["upstream_inference_cost"])


def limit(desk: Desk, limit_nano: int, *, counts: bool) -> None:
    path = f"/api/v1/keys/{desk.account.api_key_hash}"
    body = {"limit": limit_nano / 1e9, "include_byok_in_limit": counts}
    changed = desk.server.request("PATCH", path, key=desk.account.management_key, json=body)
    assert changed.status_code == 200, changed.text


def figures(desk: Desk) -> tuple[int, int]:
    data = exact(desk.server.get("/api/v1/key", key=desk.account.api_key))["data"]
    assert data["byok_usage"] == data["byok_usage_daily"] == data["byok_usage_monthly"]
    return nano(data["usage"]), nano(data["byok_usage"])


def test_they_are_counted_beside_what_is_paid(desk: Desk) -> None:
    bring(desk, "gamma", MINE)
    answers = [good(desk) for _ in range(3)]

    assert figures(desk) == (0, sum(map(list_nano, answers)))
    assert desk.total_usage_nano() == 0


def test_a_limit_that_counts_them_holds_and_another_does_not(desk: Desk) -> None:
    bring(desk, "gamma", MINE)
    limit(desk, ESTIMATE_NANO, counts=True)
    good(desk)
    # What was spent and the next estimate are too much together.
    refused = desk.told(ask(desk), 402, "payment_required")
    assert refused["metadata"]["limit_source"] == "router_key_limit"
    limit(desk, 1, counts=False)
    good(desk)
    assert len(credentials_at(desk)) == 2


def test_falling_through_holds_the_shared_price_in_place_of_the_list_price(desk: Desk) -> None:
    bring(desk, "gamma", MINE)
    limit(desk, ESTIMATE_NANO, counts=True)
    no = {"status": 401, "json": {"error": {"message": "no"}}}
    desk.upstream.script("gamma", no)

    answer = good(desk)

    assert credentials_at(desk) == [fingerprint(MINE), SHARED]
    assert figures(desk) == (nano(answer["usage"]["cost"]), 0)


def test_whoever_owes_calls_on_its_own_credentials(
    serve: Serve, simulator: SimulatedUpstream, orm_of: Orm
) -> None:
    simulator.clear()
    server = serve(BYOK_FEE_RATE="0")
    desk = Desk(server, simulator, seed_account(server))
    bring(desk, "gamma", MINE)
    with orm_of(server):
        from accounts.models import Account

        Account.objects.filter(pk=desk.account.account_id).update(total_usage_nano=10**12)

    assert good(desk)["usage"]["is_byok"] is True
    assert desk.post(model="acme/text").status_code == 402


def test_a_fee_is_an_entry_of_its_own(serve: Serve, simulator: SimulatedUpstream) -> None:
    simulator.clear()
    server = serve(BYOK_FEE_RATE="0.05")
    desk = Desk(server, simulator, seed_account(server))
    bring(desk, "gamma", MINE)

    answer = good(desk)

    entries = server.manage("ledger", "--generation", answer["id"])["entries"]
    fee = int((Decimal(list_nano(answer)) * Decimal("0.05")).to_integral_value())
    amounts = {entry["kind"]: entry["amount_nano"] for entry in entries}
    assert amounts == {"usage": 0, "byok_fee": fee}
    assert figures(desk) == (fee, list_nano(answer))
    assert desk.total_usage_nano() == nano(answer["usage"]["cost"]) == fee
    audit = server.manage("audit_ledger")
    assert (audit["mismatches"], audit["open_holds"]) == ([], 0)


# --- What is asked of the account ----------------------------------------------------------------


def test_an_empty_account_calls_on_its_own_credentials_only(desk: Desk) -> None:
    broke = Desk(desk.server, desk.upstream, seed_account(desk.server, credits_usd="0"))
    bring(broke, "gamma", MINE)

    assert broke.paid_nano(broke.ok()) == 0
    assert broke.post(model="acme/text").status_code == 402
    # The balance counts again where a shared endpoint is chosen.
    broke.upstream.script("gamma", refusal(500))
    refused = broke.told(broke.post(), 402, "payment_required")
    assert refused["message"].startswith("Insufficient credits.")
    # Nothing was sent for it, and nothing is held.
    assert credentials_at(broke) == [fingerprint(MINE)] * 2


def test_an_empty_account_goes_on_to_its_fallback_credential(desk: Desk) -> None:
    broke = Desk(desk.server, desk.upstream, seed_account(desk.server, credits_usd="0"))
    bring(broke, "gamma", MINE, is_fallback=True)

    answer = broke.ok()

    assert answer["usage"]["is_byok"] is True
    assert broke.paid_nano(answer) == 0
    assert credentials_at(broke) == [fingerprint(MINE)]


def test_a_request_that_no_endpoint_can_serve_is_told_so_whatever_the_balance(desk: Desk) -> None:
    broke = Desk(desk.server, desk.upstream, seed_account(desk.server, credits_usd="0"))
    given: dict[str, Any] = {"provider": {"only": ["nobody"]}}
    assert broke.post(**given).status_code == 402

    bring(broke, "gamma", MINE)

    assert broke.post(**given).status_code == 404


def test_a_fee_is_a_share_of_the_list_price(serve: Serve, simulator: SimulatedUpstream) -> None:
    simulator.clear()
    server = serve(BYOK_FEE_RATE="0.05")
    desk = Desk(server, simulator, seed_account(server))
    bring(desk, "gamma", MINE)

    answer = desk.ok(messages=[{"role": "user", "content": "say 100 words"}])

    usage = answer["usage"]
    fee = (Decimal(priced_nano(usage)) * Decimal("0.05")).to_integral_value()
    assert nano(usage["cost"]) == fee > 0
    assert nano(usage["cost_details"]["upstream_inference_cost"]) == priced_nano(usage)
    record = desk.generation(answer["id"])
    assert nano(record["usage"]) == fee
    assert desk.total_usage_nano() == fee
    broke = Desk(server, simulator, seed_account(server, credits_usd="0"))
    bring(broke, "gamma", MINE)
    assert broke.post().status_code == 402
