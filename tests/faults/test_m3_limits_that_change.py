"""M3 for limits that are set while requests run, and what these ask for beyond what they hold."""

import uuid

import pytest
from django.db import connection, transaction

from accounts.models import SpendCounter
from accounts.services.spend_scopes import close_scopes
from accounts.spending import SpendScope, guardrail_scope_id
from routing.metering.orders import OUTDATED, Refusal, TopUpOrder
from tests.faults.test_m3_four_limits_at_once import in_process, put_on
from tests.routing.metering.books import (
    CENT,
    USD,
    assert_books_agree,
    carry_out,
    hold_order,
    new_payer,
    renewed,
    running_writer,
    settle_order,
)

pytestmark = pytest.mark.both


@in_process
@pytest.mark.parametrize("kind", ["key", "workspace", "guardrail"])
def test_what_running_requests_ask_for_beyond_is_measured_by_the_new_limit(kind: str) -> None:
    """Nobody else has met the limit before they do."""
    payer = new_payer(USD)
    first, second = (hold_order(payer, cents * CENT) for cents in (10, 20))

    with running_writer() as writer:
        for hold in (first, second):
            assert carry_out(writer, hold) is True
        now = put_on(kind, payer, 35 * CENT)
        outdated = TopUpOrder(first.generation_id, payer, CENT)
        assert carry_out(writer, outdated) is OUTDATED
        over = outdated._replace(payer=now, amount_nano=5 * CENT + 1)
        assert isinstance(carry_out(writer, over), Refusal)
        assert carry_out(writer, over._replace(amount_nano=5 * CENT)) is True
        assert isinstance(carry_out(writer, hold_order(now, 1)), Refusal)
        for hold, cents in ((first, 15), (second, 20)):
            told = settle_order(hold._replace(payer=now), cents * CENT)
            assert carry_out(writer, told) is True

    limited = SpendCounter.objects.get(limit_nano=35 * CENT)
    assert (limited.spent_nano, limited.held_nano) == (35 * CENT, 0)
    assert_books_agree()


@in_process
def test_a_key_s_limit_that_nobody_met_counts_after_it_is_changed_again() -> None:
    payer = new_payer(USD)

    with running_writer() as writer:
        assert carry_out(writer, hold_order(payer, 30 * CENT)) is True
        for cents in (90, 40):
            put_on("key", payer, cents * CENT)
        now = renewed(payer)
        assert isinstance(carry_out(writer, hold_order(now, 10 * CENT + 1)), Refusal)
        assert carry_out(writer, hold_order(now, 10 * CENT)) is True
        put_on("key", payer, 41 * CENT)
        assert carry_out(writer, hold_order(now, CENT)) is True
        assert isinstance(carry_out(writer, hold_order(now, 1)), Refusal)

    assert_books_agree()


@in_process
def test_a_request_under_way_holds_on_as_many_limits_as_are_set() -> None:
    """None is refused because another one has met too many of them."""
    payer = new_payer(USD)
    scopes: list[SpendScope] = []
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT setval(pg_get_serial_sequence('accounts_spendcounter', 'id'), 100000000)"
            )

    with running_writer() as writer:
        assert carry_out(writer, hold_order(payer, CENT)) is True
        for _ in range(45):
            with transaction.atomic():
                close_scopes(payer.account_id, scopes)
            scope_id = guardrail_scope_id(uuid.uuid4(), key=payer.key_id)
            scopes = [SpendScope("guardrail", scope_id, "day", USD, counts_byok=False)]
            now = renewed(payer)._replace(budgets=tuple(scopes))
            hold = hold_order(now, 1)
            assert carry_out(writer, hold) is True
            assert carry_out(writer, settle_order(hold, 1)) is True

    assert_books_agree()
