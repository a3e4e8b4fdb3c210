"""A key that is given to another member takes along what it spent, for the budgets of both."""

import uuid
from typing import Any

import pytest
from django.db import transaction

from accounts.models import Account, ApiKey, Membership, SpendCounter, User, Workspace
from accounts.services.guardrail_assignments import assign_members
from accounts.services.guardrails import change_guardrail, create_guardrail
from accounts.services.keys import change_key
from accounts.services.organization import admit_member
from accounts.services.records import SYSTEM
from accounts.services.spend_scopes import outdate_limits
from accounts.spending import SpendScope, format_guardrail_scope_id
from routing.ledger.orders import Payer
from routing.metering.reversals import reverse_usage
from tests.routing.ledger.books import (
    CENT,
    USD,
    assert_books_agree,
    is_refused,
    payer_with_new_key,
    place_standing,
    renew_payer,
    settle,
    totals,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]
BUDGET = {"limit_nano": 30 * CENT, "reset_interval": "monthly"}


def members(*names: str) -> list[User]:
    return [User.objects.create_user(username=name) for name in names]


def give(payer: Payer, member: User) -> None:
    change_key(keys=ApiKey.objects.filter(pk=payer.key_id), changes={"creator_id": member.pk})


def limit_member(payer: Payer, user: User, cents: int) -> SpendScope:
    """A guardrail of the member's own, in the payer's account."""
    scope_id = format_guardrail_scope_id(uuid.uuid4(), user=user.pk)
    with transaction.atomic():
        outdate_limits(payer.account_id)
    return SpendScope("guardrail", scope_id, "month", cents * CENT, counts_byok=False)


def read_spent(scope: SpendScope) -> int:
    return SpendCounter.objects.get(scope_id=scope.scope_id).spent_nano


def test_what_a_key_spent_is_its_new_member_s(writer, payer) -> None:
    first, second = members("first", "second")
    ApiKey.objects.filter(pk=payer.key_id).update(creator=first)
    before, after = limit_member(payer, first, 50), limit_member(payer, second, 15)
    mine = renew_payer(payer)._replace(budgets=(before,))
    settle(writer, place_standing(writer, mine, 10 * CENT), 10 * CENT)
    assert read_spent(before) == 10 * CENT

    give(payer, second)

    theirs = renew_payer(payer)._replace(budgets=(after,))
    assert is_refused(writer, theirs, 6 * CENT)
    place_standing(writer, theirs, 5 * CENT)
    assert (read_spent(before), read_spent(after)) == (0, 10 * CENT)


def test_what_is_given_back_is_there_to_be_spent_again(writer, payer) -> None:
    (user,) = members("first")
    ApiKey.objects.filter(pk=payer.key_id).update(creator=user)
    scope = limit_member(payer, user, 10)
    mine = renew_payer(payer)._replace(budgets=(scope,))
    hold = place_standing(writer, mine, 10 * CENT)
    settle(writer, hold, 10 * CENT)
    assert is_refused(writer, mine, CENT)

    reverse_usage(generation_id=hold.generation_id, amount_nano=4 * CENT, source_ref="r")

    place_standing(writer, mine, 4 * CENT)
    assert is_refused(writer, mine, 1)
    assert totals(payer) == (USD, 6 * CENT, 4 * CENT)


def test_what_a_key_holds_is_its_new_member_s_under_a_default_guardrail_too(writer, payer) -> None:
    other = payer_with_new_key(Account.objects.get(pk=payer.account_id))
    first, second = members("first", "second")
    for key, member in ((payer, first), (other, second)):
        ApiKey.objects.filter(pk=key.key_id).update(creator=member)
    default = Workspace.objects.get(pk=payer.workspace_id).default_guardrail_id
    change_guardrail(
        account_id=payer.account_id, guardrail_id=default, by=SYSTEM, changes=dict(BUDGET)
    )
    place_standing(writer, renew_payer(payer), 20 * CENT)
    place_standing(writer, renew_payer(other), CENT)

    give(payer, second)

    assert is_refused(writer, renew_payer(other), 9 * CENT + 1)
    place_standing(writer, renew_payer(other), 9 * CENT)


def test_who_left_and_comes_back_is_held_to_what_the_own_keys_spent(writer, payer) -> None:
    """The key that was given to somebody else meanwhile counts for that one."""
    account = Account.objects.get(pk=payer.account_id)

    def admit(name: str) -> User:
        return admit_member(account=account, username=name, role=Membership.Role.MEMBER)

    back, stays = admit("back"), admit("stays")
    other = payer_with_new_key(account)
    ApiKey.objects.filter(pk__in=(payer.key_id, other.key_id)).update(creator=back)
    mine: Any = {"account_id": account.pk, "by": SYSTEM}
    guardrail = create_guardrail(workspace_id=None, settings={"name": "g", **BUDGET}, **mine)
    assigned: Any = {"guardrail_id": guardrail.pk, "assigner": None, "user_ids": [back.public_id]}
    assign_members(**assigned, **mine)
    for key, cents in ((payer, 20), (other, 5)):
        settle(writer, place_standing(writer, renew_payer(key), cents * CENT), cents * CENT)

    Membership.objects.get(account=account, user=back).delete()
    assert_books_agree()
    give(payer, stays)
    assert_books_agree()
    admit("back")
    assign_members(**assigned, **mine)

    assert is_refused(writer, renew_payer(other), 25 * CENT + 1)
    place_standing(writer, renew_payer(other), 25 * CENT)
