import re
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client

from accounts.keystring import hash_of
from accounts.models import Account, ApiKey, Membership, SpendCounter, User, Workspace
from accounts.services.accounts import admit_member, open_account
from accounts.services.keys import create_key
from accounts.windows import ALL_TIME
from tests.support.operations import page

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
    assert made.hash == hash_of(string)
    assert (made.limit_nano, made.limit_reset) == (1_250_000_000, "daily")
    assert "no-store" in response["Cache-Control"]
    for path in (page(ApiKey), page(ApiKey, "change", made.pk), page(ApiKey, "history", made.pk)):
        assert string not in admin_client.get(path).text
    assert string not in str(admin_client.cookies)
    assert not any(string in str(row.get_decoded()) for row in Session.objects.all())


def test_an_inference_key_lives_in_the_default_workspace_unless_another_is_named(
    admin_client: Client, account: Account, workspace: Workspace
) -> None:
    add(admin_client, account)

    assert ApiKey.objects.get().workspace == workspace


def test_a_management_key_has_no_workspace(admin_client: Client, account: Account) -> None:
    add(admin_client, account, kind="management")

    assert ApiKey.objects.get().is_management


def test_a_new_key_must_fit_its_account(
    admin_client: Client, account: Account, workspace: Workspace
) -> None:
    elsewhere = open_account(name="other").workspaces.get()
    stranger = User.objects.create(username="stranger")

    for odd in (
        {"workspace": str(elsewhere.pk)},
        {"kind": "management", "workspace": str(workspace.pk)},
        {"creator": str(stranger.pk)},
        {"expires_at_0": "2001-01-01", "expires_at_1": "00:00:00"},
        {"limit_usd": "-1"},
        {"name": ""},
        {"account": ""},
    ):
        assert "errorlist" in add(admin_client, account, **odd).text, odd
    assert not ApiKey.objects.exists()


def test_a_member_can_own_a_key(admin_client: Client, account: Account) -> None:
    member = admit_member(account=account, username="member", role=Membership.Role.MEMBER)

    add(admin_client, account, creator=str(member.pk))

    assert ApiKey.objects.get().creator == member


def test_a_limit_is_typed_in_usd_and_holds_at_once(admin_client: Client, key: ApiKey) -> None:
    SpendCounter.objects.create(
        scope="key", scope_id=str(key.pk), window="total", window_start=ALL_TIME
    )

    change(admin_client, key, limit_usd="0.5")

    key.refresh_from_db()
    assert key.limit_nano == 500_000_000
    assert SpendCounter.objects.get().limit_nano == 500_000_000
    assert 'value="0.5"' in admin_client.get(page(ApiKey, "change", key.pk)).text


def test_saving_the_page_unchanged_changes_nothing(admin_client: Client, key: ApiKey) -> None:
    before = ApiKey.objects.values().get()

    change(admin_client, key)

    assert ApiKey.objects.values().get() == before


def test_hash_and_owner_cannot_be_changed(admin_client: Client, key: ApiKey) -> None:
    other = open_account(name="other")

    change(admin_client, key, name="renamed", hash="0" * 64, account=str(other.pk), label="x")

    changed = ApiKey.objects.get()
    assert changed.name == "renamed"
    assert (changed.hash, changed.label, changed.account_id) == (
        key.hash,
        key.label,
        key.account_id,
    )


def test_keys_are_disabled_and_enabled(admin_client: Client, key: ApiKey) -> None:
    assert "Disabled 1 key." in act(admin_client, "disable", key).text
    assert not ApiKey.objects.usable(datetime.now(UTC)).exists()

    assert "Enabled 1 key." in act(admin_client, "enable", key).text
    assert ApiKey.objects.usable(datetime.now(UTC)).exists()

    change(admin_client, key, disabled="on")
    assert not ApiKey.objects.usable(datetime.now(UTC)).exists()


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


def test_a_key_is_found_by_its_hash_and_label(admin_client: Client, key: ApiKey) -> None:
    for term in (key.hash, key.label, "first", "acme"):
        found = admin_client.get(page(ApiKey), {"q": term}).context["cl"].result_list
        assert [row.pk for row in found] == [key.pk]


def test_what_a_key_spent_stands_in_the_list(admin_client: Client, key: ApiKey) -> None:
    SpendCounter.objects.create(
        scope="key", scope_id=str(key.pk), window="total", window_start=ALL_TIME, spent_nano=1_200
    )

    assert ">0.0000012<" in admin_client.get(page(ApiKey)).text
