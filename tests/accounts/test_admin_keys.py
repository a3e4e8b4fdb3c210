"""Keys and the books as an operator sees them."""

import re
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client

from accounts.keystring import hash_key
from accounts.models import (
    Account,
    ApiKey,
    AuditRecord,
    Hold,
    LedgerEntry,
    Membership,
    SpendCounter,
    User,
    Workspace,
)
from accounts.services.keys import create_key
from accounts.services.organization import admit_member, open_account, open_workspace
from accounts.spending import ALL_TIME
from routing.metering.models import Generation
from tests.support.admin_pages import page
from tests.support.operations import fill

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def add(client: Client, payer: Account, **changes: Any) -> Any:
    usual = {"account": str(payer.pk), "kind": "inference", "name": "new", "limit_usd": ""}
    return client.post(page(ApiKey, "add"), usual | changes)


def change(client: Client, key: ApiKey, **changes: str) -> Any:
    usual = {"name": key.name, "workspace": str(key.workspace_id)}
    usual |= {"limit_usd": "", "limit_reset": ""}
    return client.post(page(ApiKey, "change", key.pk), usual | changes)


def act(client: Client, action: str, *keys: ApiKey, **more: str) -> Any:
    chosen = [str(key.pk) for key in keys]
    data = {"action": action, "_selected_action": chosen, **more}
    return client.post(page(ApiKey), data, follow=True)


def test_a_new_key_is_shown_once_and_kept_nowhere(admin_client: Client, account: Account) -> None:
    response = add(admin_client, account, limit_usd="1.25", limit_reset="daily")

    (string,) = re.findall(r"sk-rt-v1-[0-9a-f]{64}", response.text)
    made = ApiKey.objects.get()
    assert made.hash == hash_key(string)
    assert (made.limit_nano, made.limit_reset) == (1_250_000_000, "daily")
    assert "no-store" in response["Cache-Control"]
    for path in (page(ApiKey), page(ApiKey, "change", made.pk), page(ApiKey, "history", made.pk)):
        assert string not in admin_client.get(path).text
    assert string not in str(admin_client.cookies)
    assert not any(string in str(row.get_decoded()) for row in Session.objects.all())


def test_a_key_has_kind_and_owner(
    admin_client: Client, account: Account, workspace: Workspace
) -> None:
    member = admit_member(account=account, username="member", role=Membership.Role.MEMBER)

    add(admin_client, account, creator=str(member.pk))
    add(admin_client, account, kind="management")

    inference, management = ApiKey.objects.order_by("pk")
    # Unless another workspace is named, it is the default one.
    assert (inference.workspace, inference.creator) == (workspace, member)
    assert (management.is_management, management.workspace) == (True, None)


def test_a_new_key_must_fit(admin_client: Client, account: Account, workspace: Workspace) -> None:
    elsewhere = open_account(name="other").workspaces.get()
    stranger = User.objects.create(username="stranger")

    for odd in (
        {"workspace": str(elsewhere.pk)},
        {"kind": "management", "workspace": str(workspace.pk)},
        {"creator": str(stranger.pk)},
        {"expires_at_0": "2001-01-01", "expires_at_1": "00:00:00"},
        {"limit_usd": "-1"},
    ):
        assert "errorlist" in add(admin_client, account, **odd).text, odd
    assert not ApiKey.objects.exists()


def test_a_limit_is_typed_in_usd_and_holds_at_once(admin_client: Client, key: ApiKey) -> None:
    scope = {"scope": "key", "scope_id": str(key.pk), "window": "total", "window_start": ALL_TIME}
    SpendCounter.objects.create(**scope, spent_nano=1_200)

    change(admin_client, key, limit_usd="0.5")

    key.refresh_from_db()
    assert key.limit_nano == SpendCounter.objects.get().limit_nano == 500_000_000
    assert 'value="0.5"' in admin_client.get(page(ApiKey, "change", key.pk)).text
    # What it spent stands in the list, in which it is found.
    assert ">0.0000012<" in admin_client.get(page(ApiKey)).text
    for term in (key.hash, key.label, "first", "acme"):
        found = admin_client.get(page(ApiKey), {"q": term}).context["cl"].result_list
        assert [row.pk for row in found] == [key.pk]


def test_hash_and_owner_cannot_be_changed(admin_client: Client, key: ApiKey) -> None:
    other, before = open_account(name="other"), ApiKey.objects.values().get()
    change(admin_client, key)
    assert ApiKey.objects.values().get() == before, "nothing was typed"

    change(admin_client, key, name="renamed", hash="0" * 64, account=str(other.pk), label="x")

    after = ApiKey.objects.values().get()
    assert after == before | {"name": "renamed", "updated_at": after["updated_at"]}


def test_a_key_changes_hands_within_its_account_and_has_limits_as_the_api_takes_them(
    admin_client: Client, account: Account, key: ApiKey
) -> None:
    member = admit_member(account=account, username="member", role=Membership.Role.MEMBER)
    change(admin_client, key, creator=str(member.pk), rate_limits='[{"concurrent": 4}]')

    record = AuditRecord.objects.latest("pk")
    assert record.before == {"creator_id": None, "rate_limits": None}
    assert record.after == {"creator_id": member.pk, "rate_limits": [{"concurrent": 4}]}
    elsewhere = open_account(name="other").workspaces.get()
    stranger = User.objects.create(username="stranger")
    for field, typed, text in (
        ("workspace", str(elsewhere.pk), "belongs to another account"),
        ("workspace", "", "An inference key needs a workspace."),
        ("creator", str(stranger.pk), "is no member of the account"),
        ("rate_limits", '[{"concurrent": 0}]', "0.concurrent: Too small"),
    ):
        assert text in change(admin_client, key, **{field: typed}).text, field
    assert AuditRecord.objects.latest("pk") == record


def test_a_deleted_key_stays_as_a_row_that_nobody_changes(
    admin_client: Client, account: Account, workspace: Workspace, key: ApiKey
) -> None:
    second, _ = create_key(account=account, name="second", workspace=workspace)

    assert admin_client.post(page(ApiKey, "delete", key.pk), {"post": "yes"}).status_code == 302
    act(admin_client, "delete_selected", second, post="yes")

    assert ApiKey.objects.filter(deleted_at__isnull=False).count() == 2
    assert not admin_client.get(page(ApiKey)).context["cl"].result_list
    deleted = admin_client.get(page(ApiKey), {"state": "deleted"}).context["cl"].result_list
    assert len(deleted) == 2
    assert change(admin_client, key, name="again").status_code == 403
    assert "Enabled 0 keys." in act(admin_client, "enable", key).text


@pytest.mark.parametrize("model", [LedgerEntry, Hold, SpendCounter, Generation, AuditRecord])
def test_nobody_writes_the_books_by_hand(admin_client: Client, model: type[Any]) -> None:
    fill(1)
    before = list(model.objects.values())
    row = model.objects.first()

    for kind, *arguments in (("add",), ("change", row.pk), ("delete", row.pk)):
        response = admin_client.post(page(model, kind, *arguments), {"post": "yes"})
        assert response.status_code == 403
    action = {"action": "delete_selected", "_selected_action": [str(row.pk)], "post": "yes"}
    admin_client.post(page(model), action)

    assert list(model.objects.values()) == before


def test_a_management_key_is_for_the_workspaces_that_its_page_names(
    admin_client: Client, account: Account
) -> None:
    ids = {slug: str(open_workspace(account=account, slug=slug).pk) for slug in ("blue", "red")}
    open_workspace(account=open_account(name="other"), slug="foreign")
    kind = {"kind": "management"}
    for wrong in ("foreign", "nowhere"):
        assert "has no workspace" in add(admin_client, account, **kind, for_workspaces=wrong).text
    assert "in its own workspace" in add(admin_client, account, for_workspaces="blue").text
    add(admin_client, account, **kind, for_workspaces="blue, red")

    key = ApiKey.objects.get()
    assert key.managed_workspaces == [ids["blue"], ids["red"]]
    path = page(ApiKey, "change", key.pk)
    assert "blue, red" in admin_client.get(path).text
    named = {"name": key.name, "limit_usd": "", "limit_reset": "", "workspace": ""}
    for said, expected in (("blue, red", 2), ("red", 1), ("", None)):
        before = AuditRecord.objects.count()
        assert admin_client.post(path, named | {"for_workspaces": said}).status_code == 302
        key.refresh_from_db()
        assert (key.managed_workspaces and len(key.managed_workspaces)) == expected
        # What stays as it was is no change.
        assert AuditRecord.objects.count() - before == (expected != 2)
