"""Limits that only warn refuse nothing and miss nothing, and hold again when they are to."""

from datetime import UTC, datetime

import pytest

from accounts.models import ApiKey, GuardrailKey, SpendCounter
from accounts.services.guardrails import change_guardrail, create_guardrail
from accounts.services.key_limits import read_usage
from accounts.services.keys import change_key
from accounts.services.records import SYSTEM
from accounts.services.workspace_budgets import set_budget
from accounts.spending import UNREACHABLE_NANO
from routing.ledger.orders import Payer
from tests.routing.ledger.books import (
    CENT,
    is_refused,
    placed,
    renewed,
    settle,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def set_monthly(payer: Payer, cents: int, enforcement: str) -> None:
    set_budget(
        account_id=payer.account_id,
        reference=str(payer.workspace_id),
        interval="monthly",
        limit_nano=cents * CENT,
        include_byok=None,
        enforcement=enforcement,
        by=SYSTEM,
    )


def month(payer: Payer) -> SpendCounter:
    return SpendCounter.objects.get(scope_id=payer.workspace_id.hex, window="month")


def limit_key(payer: Payer, cents: int, enforcement: str) -> None:
    changes = {"limit_nano": cents * CENT, "limit_enforcement": enforcement}
    change_key(keys=ApiKey.objects.filter(pk=payer.key_id), changes=changes)


def test_a_budget_that_warns_refuses_nothing_and_counts(writer, payer) -> None:
    set_monthly(payer, 10, "warn")
    for _ in range(3):
        settle(writer, placed(writer, renewed(payer), 8 * CENT), 8 * CENT)

    assert (month(payer).spent_nano, month(payer).limit_nano) == (24 * CENT, UNREACHABLE_NANO)


def test_what_is_under_way_counts_in_a_budget_that_is_set_to_warn_meanwhile(writer, payer) -> None:
    before = placed(writer, renewed(payer), 8 * CENT)
    set_monthly(payer, 10, "warn")
    placed(writer, renewed(payer), CENT)

    settle(writer, before, 8 * CENT)

    assert month(payer).spent_nano == 8 * CENT


def test_a_budget_holds_from_the_moment_it_is_to_block(writer, payer) -> None:
    set_monthly(payer, 10, "warn")
    settle(writer, placed(writer, renewed(payer), 6 * CENT), 6 * CENT)
    under_way = placed(writer, renewed(payer), 2 * CENT)

    set_monthly(payer, 10, "block")

    assert is_refused(writer, renewed(payer), 2 * CENT + 1)
    placed(writer, renewed(payer), 2 * CENT)
    settle(writer, under_way, 2 * CENT)
    set_monthly(payer, 10, "warn")
    placed(writer, renewed(payer), 20 * CENT)


def test_a_guardrail_that_warns_refuses_nothing_until_it_is_to_block(writer, payer) -> None:
    budget = {"limit_nano": 10 * CENT, "reset_interval": "monthly", "budget_enforcement": "warn"}
    guardrail = create_guardrail(
        account_id=payer.account_id,
        workspace_id=payer.workspace_id,
        by=SYSTEM,
        settings={"name": "soft"} | budget,
    )
    GuardrailKey.objects.create(guardrail=guardrail, api_key_id=payer.key_id)
    settle(writer, placed(writer, renewed(payer), 8 * CENT), 8 * CENT)
    under_way = placed(writer, renewed(payer), 5 * CENT)

    change_guardrail(
        account_id=payer.account_id,
        guardrail_id=guardrail.pk,
        by=SYSTEM,
        changes={"limit_nano": 15 * CENT, "budget_enforcement": "block"},
    )

    assert is_refused(writer, renewed(payer), 2 * CENT + 1)
    settle(writer, under_way, 5 * CENT)
    placed(writer, renewed(payer), 2 * CENT)


def test_a_key_whose_limit_warns_is_refused_nothing_until_it_is_to_block(writer, payer) -> None:
    limit_key(payer, 10, "warn")
    settle(writer, placed(writer, renewed(payer), 15 * CENT), 15 * CENT)
    key = ApiKey.objects.get(pk=payer.key_id)
    assert read_usage(key=key, at=datetime.now(UTC)).counted_nano(key) == 15 * CENT
    under_way = placed(writer, renewed(payer), 4 * CENT)

    limit_key(payer, 20, "block")

    assert is_refused(writer, renewed(payer), CENT + 1)
    settle(writer, under_way, 4 * CENT)
    limit_key(payer, 20, "warn")
    placed(writer, renewed(payer), 9 * CENT)
