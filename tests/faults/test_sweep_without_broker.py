"""A dead broker freezes no money: web processes sweep expired holds by themselves."""

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from accounts.models import Account, ApiKey, Hold, SpendCounter
from accounts.windows import window_starts
from routing.metering.models import Generation
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.postgres import free_port
from tests.support.processes import eventually
from tests.support.server import GatewayServer

pytestmark = [pytest.mark.both, pytest.mark.thorough]
OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]


def test_an_expired_hold_is_swept_by_a_web_process_while_redis_is_gone(
    start_gateway: StartGateway, orm_of: OrmOf, stores: Bed
) -> None:
    gone = f"redis://127.0.0.1:{free_port()}/0" if stores.is_postgres else "none"
    server = start_gateway(redis_url=gone, HOLD_SWEEP_SECONDS="0.2")
    account = seed_account(server)

    with orm_of(server):
        with transaction.atomic():
            generation_id = _leave_a_hold(account.account_id)
        eventually(
            lambda: not Hold.objects.filter(pk=generation_id).exists(),
            within_s=15,
            what="the sweep",
            log=None,
        )
        assert Account.objects.get(pk=account.account_id).held_nano == 0
        assert Generation.objects.get(pk=generation_id).lost
    assert server.manage("audit_ledger")["mismatches"] == []


def _leave_a_hold(account_id: str, held_nano: int = 1_000_000) -> str:
    """As a process that died would have left it."""
    key = ApiKey.objects.get(account_id=account_id, kind=ApiKey.Kind.INFERENCE)
    assert key.workspace_id is not None
    placed = datetime.now(UTC) - timedelta(minutes=16)
    counters = [
        SpendCounter.objects.create(
            scope=SpendCounter.Scope.KEY,
            scope_id=str(key.pk),
            window=window,
            window_start=start,
            held_nano=held_nano,
        )
        for window, start in window_starts(placed).items()
    ]
    Account.objects.filter(pk=account_id).update(held_nano=held_nano)
    hold = Hold.objects.create(
        generation_id=f"gen-{uuid.uuid4().hex}",
        account_id=account_id,
        api_key=key,
        workspace_id=key.workspace_id,
        amount_nano=held_nano,
        counter_ids=",".join(str(counter.pk) for counter in counters),
        model="acme/small",
        created_at=placed,
        lease_expires_at=placed + timedelta(minutes=15),
    )
    return hold.generation_id
