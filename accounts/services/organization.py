"""An account as an organization: its members, and settings for all of them."""

from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.models import Account, Membership
from accounts.services.records import Actor, record_change
from gateway.http.errors import NotFound
from gateway.http.paging import Page


def list_members(account_id: UUID, page: Page) -> tuple[list[Any], int]:
    """One page, newest first, with their users, and how many there are. Raises `NotFound` for a
    personal account."""
    members = Membership.objects.filter(account_id=account_id, account__is_personal=False)
    total = members.count()
    if not total and Account.objects.filter(pk=account_id, is_personal=True).exists():
        raise NotFound
    rows = members.select_related("user").order_by("-created_at", "-pk")
    return list(rows[page.rows]), total


def filter_catalogue(*, account_id: UUID, enabled: bool, by: Actor) -> Account:
    """Let GET /models show the account's keys what they may use, or everything."""
    with transaction.atomic():
        account = Account.objects.select_for_update(no_key=True).get(pk=account_id)
        before = account.is_filtered_model_catalog_enabled
        account.is_filtered_model_catalog_enabled = enabled
        account.save(update_fields=["is_filtered_model_catalog_enabled"])
        record_change(
            by=by,
            action="updated",
            object_type="account",
            object_id=account.pk,
            account_id=account.pk,
            before={"is_filtered_model_catalog_enabled": before},
            after={"is_filtered_model_catalog_enabled": enabled},
        )
    return account
