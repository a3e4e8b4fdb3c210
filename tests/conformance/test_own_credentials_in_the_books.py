"""What calls on a team's own credentials leave in the books, and which limits they count toward."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any

import pytest

from tests.conformance.desk import Desk, exact, nano
from tests.conformance.own_credentials import (
    MINE,
    SHARED,
    bring,
    credentials_at,
    fingerprint,
    priced_nano,
    refusal,
)
from tests.support.gateways import seed_account
from tests.support.server import GatewayServer

pytestmark = [pytest.mark.both, pytest.mark.thorough]
Orm = Callable[[GatewayServer], AbstractContextManager[None]]
HELLO = [{"role": "user", "content": "say 100 words"}]
# 13 bytes of text, 16 tokens for the message, 200 of the answer.
ESTIMATE_NANO = (13 + 16) * 1000 + 200 * 2000


@pytest.fixture
def desk(own_wide_desk: Desk) -> Desk:
    return own_wide_desk


@pytest.fixture
def broke(desk: Desk) -> Desk:
    """A caller without credits."""
    desk.account = seed_account(desk.server, credits_usd="0")
    return desk


def ask(desk: Desk, **body: Any) -> Any:
    return desk.post(messages=HELLO, max_tokens=200, **body)


def good(desk: Desk, **body: Any) -> Any:
    answer = ask(desk, **body)
    assert answer.status_code == 200, answer.text
    return exact(answer)


def list_nano(answer: Any) -> int:
    return nano(answer["usage"]["cost_details"]["upstream_inference_cost"])


def limit(desk: Desk, limit_nano: int, *, counts: bool) -> None:
    body = {"limit": limit_nano / 1e9, "include_byok_in_limit": counts}
    changed = desk.manage("PATCH", f"/keys/{desk.account.api_key_hash}", body)
    assert changed.status_code == 200, changed.text


def figures(desk: Desk) -> tuple[int, int]:
    data = exact(desk.server.get("/api/v1/key", key=desk.account.api_key))["data"]
    assert data["byok_usage"] == data["byok_usage_daily"] == data["byok_usage_monthly"]
    return nano(data["usage"]), nano(data["byok_usage"])


def test_a_limit_that_counts_them_holds_and_another_does_not(desk: Desk) -> None:
    bring(desk, "gamma", MINE)
    limit(desk, ESTIMATE_NANO, counts=True)
    good(desk)
    # What was spent and the next estimate are too much together.
    refused = desk.check_error(ask(desk), 402, "payment_required")
    assert refused["metadata"]["limit_source"] == "router_key_limit"
    limit(desk, 1, counts=False)
    good(desk)
    assert len(credentials_at(desk)) == 2


def test_falling_through_holds_the_shared_price_in_place_of_the_list_price(desk: Desk) -> None:
    bring(desk, "gamma", MINE)
    limit(desk, ESTIMATE_NANO, counts=True)
    desk.upstream.script("gamma", refusal(401))

    answer = good(desk)

    assert credentials_at(desk) == [fingerprint(MINE), SHARED]
    assert figures(desk) == (nano(answer["usage"]["cost"]), 0)


def test_a_fee_is_a_share_of_the_list_price_and_an_entry_of_its_own(equipped_desk: Desk) -> None:
    desk = equipped_desk
    bring(desk, "gamma", MINE)

    answer = good(desk)

    assert list_nano(answer) == priced_nano(answer["usage"])
    fee = int((Decimal(list_nano(answer)) * Decimal("0.05")).to_integral_value())
    entries = desk.server.manage("ledger", "--generation", answer["id"])["entries"]
    amounts = {entry["kind"]: entry["amount_nano"] for entry in entries}
    assert amounts == {"usage": 0, "byok_fee": fee}
    assert figures(desk) == (fee, list_nano(answer))
    assert nano(desk.generation(answer["id"])["usage"]) == fee
    assert desk.total_usage_nano() == nano(answer["usage"]["cost"]) == fee > 0
    desk.account = seed_account(desk.server, credits_usd="0")
    bring(desk, "gamma", MINE)
    assert desk.post().status_code == 402
    desk.server.check_books()


def test_whoever_owes_calls_on_its_own_credentials(desk: Desk, orm_of: Orm) -> None:
    bring(desk, "gamma", MINE)
    with orm_of(desk.server):
        from tests.conformance.money import book_usage

        book_usage(desk.account.account_id, until_balance_nano=-(10**12))

    assert good(desk)["usage"]["is_byok"] is True
    assert desk.post(model="acme/text").status_code == 402


def test_an_empty_account_calls_on_its_own_credentials_only(broke: Desk) -> None:
    # A request that no endpoint can serve is told so whatever the balance.
    given: dict[str, Any] = {"provider": {"only": ["nobody"]}}
    assert broke.post(**given).status_code == 402
    bring(broke, "gamma", MINE)
    assert broke.post(**given).status_code == 404

    assert broke.paid_nano(broke.ok()) == 0
    assert broke.post(model="acme/text").status_code == 402
    # The balance counts again where a shared endpoint is chosen.
    broke.upstream.script("gamma", refusal(500))
    refused = broke.check_error(broke.post(), 402, "payment_required")
    assert refused["message"].startswith("Insufficient credits.")
    # Nothing was sent for it, and nothing is held.
    assert credentials_at(broke) == [fingerprint(MINE)] * 2


def test_an_empty_account_goes_on_to_its_fallback_credential(broke: Desk) -> None:
    bring(broke, "gamma", MINE, is_fallback=True)

    answer = broke.ok()

    assert answer["usage"]["is_byok"] is True
    assert broke.paid_nano(answer) == 0
    assert credentials_at(broke) == [fingerprint(MINE)]
