"""What a refused hold is told of account, key and budgets: as they stood, and what was asked."""

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from accounts.models import ApiKey, SpendCounter
from accounts.services.spend_scopes import outdate_limits
from accounts.spending import SpendScope, format_guardrail_scope_id
from routing.ledger.holds import CounterReading, _refuse_raised_hold, lock_accounts
from routing.ledger.orders import OUTDATED, BudgetState, HoldRefusal, Payer, TopUpOrder
from tests.routing.ledger.books import (
    CENT,
    USD,
    carry_out,
    hold_order,
    key_counters,
    new_payer,
    open_holds,
    place_standing,
    release_order,
    renew_payer,
    settle_order,
    totals,
)

PLAIN = SpendScope("workspace", "w", "month", 9, counts_byok=False)
WITH_BYOK = PLAIN._replace(counts_byok=True)


def test_own_credentials_count_where_a_counter_counts_them() -> None:
    counting = CounterReading(1, 2, 4, 8, counts_byok=True)
    assert (counting.counted_nano, counting.counted_held_nano) == (5, 10)
    plain = counting._replace(counts_byok=False)
    assert (plain.counted_nano, plain.counted_held_nano) == (1, 2)
    assert CounterReading() == (0, 0, 0, 0, False)


def test_a_raise_is_refused_as_the_hold_as_a_whole() -> None:
    budgets = BudgetState(PLAIN, 9, 30, 10), BudgetState(WITH_BYOK, 9, 30, 17)
    said = HoldRefusal(10, 100, 50, 5, 40, "daily", byok_nano=7, budgets=budgets)

    whole = _refuse_raised_hold(said, 20, 3)

    own = BudgetState(PLAIN, 9, 10, 30), BudgetState(WITH_BYOK, 9, 7, 40)
    assert whole == HoldRefusal(30, 100, 30, 5, 20, "daily", byok_nano=10, budgets=own)
    counting = replace(said, key_asked_nano=17)
    assert _refuse_raised_hold(counting, 20, 3) == replace(
        whole, key_held_nano=40 - 23, key_asked_nano=17 + 23
    )


class Session:
    """Notes the statements: no store shows which locks were not asked for."""

    def __init__(self, *, is_sqlite: bool) -> None:
        self.is_sqlite = is_sqlite
        self.sent: list[tuple[str, Any]] = []

    def build_membership(self, column: str, ids: list[UUID]) -> tuple[str, list[UUID]]:
        return column, ids

    def execute(self, sql: str, parameters: Any) -> None:
        self.sent.append((sql, parameters))


@pytest.mark.parametrize("is_sqlite", [True, False])
@pytest.mark.parametrize("even_one", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_several_accounts_are_locked_in_their_order_and_one_where_it_is_read_first(
    is_sqlite: bool, even_one: bool, count: int
) -> None:
    ids = [UUID(int=number) for number in range(count)]
    session: Any = Session(is_sqlite=is_sqlite)

    lock_accounts(session, [Payer(i, i, 1, ()) for i in [*ids[::-1], ids[0]]], even_one=even_one)

    is_locked = not is_sqlite and (even_one or count > 1)
    assert [parameters for _, parameters in session.sent] == ([ids] if is_locked else [])


# --- In the books ---------------------------------------------------------------------------------


def with_budgets(payer: Payer) -> tuple[Payer, SpendScope]:
    """The payer under a budget that counts own credentials, and one that only warns."""
    with transaction.atomic():
        outdate_limits(payer.account_id)
    budget = SpendScope("workspace", payer.workspace_id.hex, "month", 30 * CENT, counts_byok=True)
    guardrail = format_guardrail_scope_id(uuid4(), key=payer.key_id)
    only_warns = SpendScope("guardrail", guardrail, "week", CENT, False, is_enforced=False)
    return renew_payer(payer)._replace(budgets=(budget, only_warns)), budget


@pytest.mark.django_db(transaction=True)
@pytest.mark.both
def test_a_refusal_says_what_was_left_held_and_asked(writer) -> None:
    payer, budget = with_budgets(new_payer(USD, limit_nano=50 * CENT))

    def refuse(amount_nano: int, byok_nano: int) -> HoldRefusal:
        refusal = carry_out(writer, hold_order(payer, amount_nano, byok_nano=byok_nano))
        assert isinstance(refusal, HoldRefusal)
        return refusal

    # Nothing was counted yet, and there are no counters.
    assert refuse(2 * USD, CENT) == HoldRefusal(
        *(2 * USD, USD, 0, 50 * CENT, 0, None, None, CENT),
        budgets=(BudgetState(budget, 30 * CENT, 0, 2 * USD + CENT),),
    )
    spent = place_standing(writer, payer, 10 * CENT)
    carry_out(writer, settle_order(spent, 10 * CENT, byok_nano=4 * CENT))
    place_standing(writer, payer, 5 * CENT, byok_nano=2 * CENT)
    assert refuse(20 * CENT, 3 * CENT) == HoldRefusal(
        *(20 * CENT, 90 * CENT, 5 * CENT, 40 * CENT, 5 * CENT, None, None, 3 * CENT),
        budgets=(BudgetState(budget, 16 * CENT, 7 * CENT, 23 * CENT),),
    )
    assert totals(payer)[2] == 5 * CENT
    # A key without a limit has nothing to say.
    ApiKey.objects.filter(pk=payer.key_id).update(limit_nano=None)
    assert refuse(20 * CENT, 3 * CENT).key_left_nano is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.both
def test_a_raise_that_fails_leaves_what_was_held(writer) -> None:
    payer = new_payer(USD, limit_nano=50 * CENT)
    hold = place_standing(writer, payer, 10 * CENT)

    def top_up(amount_nano: int, whose: Payer = payer) -> Any:
        return carry_out(writer, TopUpOrder(hold.generation_id, whose, amount_nano))

    for more in (USD, 41 * CENT):
        refused = top_up(more)
        assert isinstance(refused, HoldRefusal)
        assert (refused.asked_nano, refused.held_nano) == (10 * CENT + more, 0)
        assert totals(payer) == (USD, 0, 10 * CENT)
        assert key_counters(payer)["total"] == (0, 10 * CENT)
    older = payer._replace(limits_version=payer.limits_version + 1)
    assert top_up(CENT, older) is OUTDATED
    assert carry_out(writer, hold_order(older, CENT)) is OUTDATED
    assert top_up(40 * CENT) is True
    assert open_holds(payer) == [50 * CENT]
    carry_out(writer, release_order(hold))
    # One that is gone is raised no more, whether its amount would fit or not.
    assert [top_up(USD + 1), top_up(CENT)] == [False, False]
    assert (totals(payer), key_counters(payer)["total"]) == ((USD, 0, 0), (0, 0))


@pytest.mark.django_db(transaction=True)
@pytest.mark.both
def test_a_free_hold_fits_though_its_key_s_limit_is_used_up(writer) -> None:
    payer = new_payer(USD, limit_nano=10 * CENT)
    carry_out(writer, settle_order(place_standing(writer, payer, 10 * CENT), 11 * CENT))
    assert isinstance(carry_out(writer, hold_order(payer, 1)), HoldRefusal)
    place_standing(writer, payer, 0)
    # One by one, too.
    assert carry_out(writer, hold_order(payer, 0)._replace(replayed=True)) is True


@pytest.mark.django_db(transaction=True)
@pytest.mark.both
def test_a_limit_that_counts_own_credentials_is_used_to_its_end(writer) -> None:
    payer = new_payer(USD, limit_nano=10 * CENT)
    ApiKey.objects.filter(pk=payer.key_id).update(include_byok_in_limit=True)
    place_standing(writer, payer, 0)
    SpendCounter.objects.filter(scope_id=str(payer.key_id)).update(counts_byok=True)
    place_standing(writer, payer, 4 * CENT, byok_nano=5 * CENT)
    assert isinstance(carry_out(writer, hold_order(payer, 0, byok_nano=CENT + 1)), HoldRefusal)
    place_standing(writer, payer, 0, byok_nano=CENT)


@pytest.mark.django_db(transaction=True)
@pytest.mark.both
def test_a_raise_is_held_to_limits_that_came_after_its_hold(writer) -> None:
    before = new_payer(USD)
    hold = place_standing(writer, before, 8 * CENT)
    payer, _ = with_budgets(before)
    refused = carry_out(writer, TopUpOrder(hold.generation_id, payer, 22 * CENT + 1))
    assert isinstance(refused, HoldRefusal)
    assert carry_out(writer, TopUpOrder(hold.generation_id, payer, 22 * CENT)) is True


@pytest.mark.django_db(transaction=True)
@pytest.mark.both
def test_who_owes_may_still_use_an_own_credential_alone(writer) -> None:
    payer = new_payer(CENT)
    carry_out(writer, settle_order(place_standing(writer, payer, CENT), 2 * CENT))
    own = hold_order(payer, 0, byok_nano=CENT)
    # Together with others, and by itself where an earlier commit of it may stand.
    assert carry_out(writer, own) is True
    assert carry_out(writer, hold_order(payer, 0, byok_nano=1)._replace(replayed=True)) is True
    for amount_nano, byok_nano in ((0, 0), (1, CENT)):
        order = hold_order(payer, amount_nano, byok_nano=byok_nano)
        assert isinstance(carry_out(writer, order), HoldRefusal)
