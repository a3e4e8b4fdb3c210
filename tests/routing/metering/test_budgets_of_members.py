"""A key that is given to another member takes along what it spent, for the budgets of both."""

import uuid

import pytest
from django.db import transaction

from accounts.models import Account, ApiKey, Membership, SpendCounter, User, Workspace
from accounts.services.accounts import admit_member
from accounts.services.guardrail_assignments import assign_members
from accounts.services.guardrails import change_guardrail, create_guardrail
from accounts.services.keys import change_key
from accounts.services.records import SYSTEM
from accounts.services.spend_scopes import outdate_limits
from accounts.spending import SpendScope, guardrail_scope_id
from routing.metering.orders import Payer, Refusal
from routing.metering.reversals import reverse_usage
from tests.routing.metering.books import (
    CENT,
    USD,
    assert_books_agree,
    carry_out,
    hold_order,
    new_payer,
    payer_with_new_key,
    renewed,
    running_writer,
    settle_order,
    totals,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def limited(payer: Payer, user: User, cents: int) -> SpendScope:
    """A guardrail of the member's own, in the payer's account."""
    scope_id = guardrail_scope_id(uuid.uuid4(), user=user.pk)
    scope = SpendScope("guardrail", scope_id, "month", cents * CENT, counts_byok=False)
    with transaction.atomic():
        outdate_limits(payer.account_id)
    return scope


def test_what_a_key_spent_is_its_new_member_s() -> None:
    payer = new_payer(USD)
    first, second = (User.objects.create_user(username=name) for name in ("first", "second"))
    key = ApiKey.objects.filter(pk=payer.key_id)
    key.update(creator=first)
    scopes = limited(payer, first, 50), limited(payer, second, 15)

    with running_writer() as writer:
        hold = hold_order(renewed(payer)._replace(budgets=scopes[:1]), 10 * CENT)
        assert carry_out(writer, hold) is True
        assert carry_out(writer, settle_order(hold, 10 * CENT)) is True
        assert SpendCounter.objects.get(scope_id=scopes[0].scope_id).spent_nano == 10 * CENT
        change_key(keys=key, changes={"creator_id": second.pk})
        theirs = renewed(payer)._replace(budgets=scopes[1:])
        assert isinstance(carry_out(writer, hold_order(theirs, 6 * CENT)), Refusal)
        assert carry_out(writer, hold_order(theirs, 5 * CENT)) is True

    assert SpendCounter.objects.get(scope_id=scopes[0].scope_id).spent_nano == 0
    assert SpendCounter.objects.get(scope_id=scopes[1].scope_id).spent_nano == 10 * CENT
    assert_books_agree()


def test_what_is_given_back_is_there_to_be_spent_again() -> None:
    payer = new_payer(USD)
    user = User.objects.create_user(username="first")
    ApiKey.objects.filter(pk=payer.key_id).update(creator=user)
    scope = limited(payer, user, 10)

    with running_writer() as writer:
        mine = renewed(payer)._replace(budgets=(scope,))
        hold = hold_order(mine, 10 * CENT)
        assert carry_out(writer, hold) is True
        assert carry_out(writer, settle_order(hold, 10 * CENT)) is True
        assert isinstance(carry_out(writer, hold_order(mine, CENT)), Refusal)
        reverse_usage(generation_id=hold.generation_id, amount_nano=4 * CENT, source_ref="r")
        assert carry_out(writer, hold_order(mine, 4 * CENT)) is True
        assert isinstance(carry_out(writer, hold_order(mine, 1)), Refusal)

    assert totals(payer) == (USD, 6 * CENT, 4 * CENT)
    assert_books_agree()


def test_what_a_key_holds_is_its_new_member_s_under_a_default_guardrail_too() -> None:
    payer = new_payer(USD)
    members = [User.objects.create_user(username=name) for name in ("first", "second")]
    other = payer_with_new_key(Account.objects.get(pk=payer.account_id))
    for key, member in zip((payer, other), members, strict=True):
        ApiKey.objects.filter(pk=key.key_id).update(creator=member)
    change_guardrail(
        account_id=payer.account_id,
        guardrail_id=Workspace.objects.get(pk=payer.workspace_id).default_guardrail_id,
        by=SYSTEM,
        changes={"limit_nano": 30 * CENT, "reset_interval": "monthly"},
    )

    with running_writer() as writer:
        for key, cents in ((payer, 20), (other, 1)):
            assert carry_out(writer, hold_order(renewed(key), cents * CENT)) is True
        change_key(
            keys=ApiKey.objects.filter(pk=payer.key_id), changes={"creator_id": members[1].pk}
        )
        assert isinstance(carry_out(writer, hold_order(renewed(other), 9 * CENT + 1)), Refusal)
        assert carry_out(writer, hold_order(renewed(other), 9 * CENT)) is True

    assert_books_agree()


def test_who_left_and_comes_back_is_held_to_what_the_own_keys_spent() -> None:
    """The key that was given to somebody else meanwhile counts for that one."""
    payer = new_payer(USD)
    account = Account.objects.get(pk=payer.account_id)
    back, stays = (
        admit_member(account=account, username=name, role=Membership.Role.MEMBER)
        for name in ("back", "stays")
    )
    other = payer_with_new_key(account)
    ApiKey.objects.filter(pk__in=(payer.key_id, other.key_id)).update(creator=back)
    guardrail = create_guardrail(
        account_id=account.pk,
        workspace_id=None,
        by=SYSTEM,
        settings={"name": "g", "limit_nano": 30 * CENT, "reset_interval": "monthly"},
    )

    def assign() -> None:
        assign_members(
            account_id=account.pk,
            guardrail_id=guardrail.pk,
            by=SYSTEM,
            assigner=None,
            user_ids=[back.public_id],
        )

    assign()
    with running_writer() as writer:
        for key, cents in ((payer, 20), (other, 5)):
            hold = hold_order(renewed(key), cents * CENT)
            assert carry_out(writer, hold) is True
            assert carry_out(writer, settle_order(hold, cents * CENT)) is True
        Membership.objects.get(account=account, user=back).delete()
        assert_books_agree()
        change_key(keys=ApiKey.objects.filter(pk=payer.key_id), changes={"creator_id": stays.pk})
        assert_books_agree()
        admit_member(account=account, username="back", role=Membership.Role.MEMBER)
        assign()
        assert isinstance(carry_out(writer, hold_order(renewed(other), 25 * CENT + 1)), Refusal)
        assert carry_out(writer, hold_order(renewed(other), 25 * CENT)) is True

    assert_books_agree()
