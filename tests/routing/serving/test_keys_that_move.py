"""A key is moved to another workspace while a call of it waits for its hold."""

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.http.errors import Unavailable
from routing.metering.orders import Payer, TopUpOrder
from routing.serving import attempts
from routing.serving.attempts import Attempts


def call_of(workspace: uuid.UUID) -> Any:
    payer = Payer(uuid.uuid4(), workspace, 1, ())
    call = SimpleNamespace(
        caller=SimpleNamespace(workspace_id=workspace, byok=()),
        payer=payer,
        attempts=[],
        plan=SimpleNamespace(tries=(), probe=None),
    )
    call.root = call
    return call


@pytest.mark.parametrize("moved", [True, False])
def test_a_call_never_counts_against_limits_of_a_workspace_it_was_not_begun_in(
    moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = uuid.uuid4()
    call = call_of(here)
    asked: list[TopUpOrder] = []
    now = SimpleNamespace(
        workspace_id=uuid.uuid4() if moved else here, budgets=(), limits_version=7, limited="day"
    )
    ledger = SimpleNamespace(submit=asked.append, wait=lambda ticket, timeout_s: True)
    monkeypatch.setattr(attempts, "ledger", ledger)
    monkeypatch.setattr(attempts, "renewed", lambda caller: now)
    order = TopUpOrder("gen-1", call.payer, 5)

    if moved:
        with pytest.raises(Unavailable):
            Attempts(call)._told_again(order)
        assert (asked, call.payer.limits_version) == ([], 0)
    else:
        assert Attempts(call)._told_again(order) is True
        assert [each.payer for each in asked] == [call.payer]
        assert (call.payer.limits_version, call.payer.limited) == (7, "day")
