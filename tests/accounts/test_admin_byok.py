"""A team's own credentials as an operator looks after them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from accounts import ports
from accounts.byok import load_credentials, unseal_key
from accounts.models import (
    Account,
    ApiKey,
    AuditRecord,
    ByokCredential,
    Membership,
    User,
    Workspace,
)
from accounts.ports import KeyTrial, register_higher_apps
from accounts.services.byok import create_credential
from accounts.services.organization import open_account
from accounts.services.records import SYSTEM
from tests.accounts.dump import database_text
from tests.accounts.higher import ReplacedApps
from tests.support.admin_pages import page
from tests.support.operations import generation

pytestmark = [pytest.mark.django_db, pytest.mark.both]
KEY = "sk-canary-0123456789abcdef"
ACCEPTED = KeyTrial("accepted", "the provider answered 200")
REFUSED = KeyTrial("refused", "the provider answered 401")


@pytest.fixture(autouse=True)
def trials() -> Iterator[list[KeyTrial]]:
    """What providers say of keys; the last one counts."""
    before, said = ports._registered[:], [ACCEPTED]

    def try_key(slug: str, key: str) -> KeyTrial:
        # The test itself is a transaction; what is begun within it is a savepoint.
        assert not connection.savepoint_ids
        return said[-1]

    register_higher_apps(
        ReplacedApps(is_known_provider=lambda slug: slug == "acme", try_key=try_key)
    )
    yield said
    ports._registered[:] = before


def bring_credential(account: Account, name: str = "n", **said: Any) -> ByokCredential:
    whose: dict[str, Any] = {"account_id": account.pk, "workspace_id": None, "by": SYSTEM}
    whose |= {"provider": "acme", "key": KEY, "trial": ACCEPTED}
    return create_credential(**whose, name=name, **said).row


def add(client: Client, account: Account, **said: Any) -> Any:
    typed = {"account": str(account.pk), "provider": "acme", "key": KEY}
    return client.post(page(ByokCredential, "add"), typed | said)


def change(client: Client, row: ByokCredential, **said: Any) -> Any:
    return client.post(page(ByokCredential, "change", row.pk), {"name": row.name or ""} | said)


def do(client: Client, action: str, *rows: ByokCredential) -> Any:
    chosen = [str(row.pk) for row in rows]
    typed = {"action": action, "_selected_action": chosen}
    return client.post(page(ByokCredential, "changelist"), typed, follow=True)


def errors_of(response: Any) -> Any:
    return response.context["adminform"].form.errors


def test_one_is_brought_for_a_workspace(
    admin_client: Client, account: Account, workspace: Workspace, key: ApiKey
) -> None:
    member = User.objects.create(username="member", public_id="user_x")
    Membership.objects.create(account=account, user=member)
    typed = {"workspace": str(workspace.pk), "name": "ours", "is_fallback": "on"}
    typed |= {"allowed_models": "acme/small, acme/large", "allowed_user_ids": "user_x"}
    response = add(admin_client, account, **typed, allowed_keys=str(key.pk))

    assert response.status_code == 302, errors_of(response)
    row = ByokCredential.objects.get()
    kept = (row.workspace, row.name, row.is_fallback, row.label)
    assert kept == (workspace, "ours", True, "sk-...cdef")
    assert row.allowed_models == ["acme/small", "acme/large"]
    assert (row.allowed_key_ids, row.allowed_user_ids) == ([key.pk], ["user_x"])
    record = AuditRecord.objects.latest("pk")
    assert (record.action, str(record.operator)) == ("created", "admin")
    shown = admin_client.get(page(ByokCredential, "change", row.pk)).text
    listed = admin_client.get(page(ByokCredential, "changelist")).text
    for text in (shown, listed, database_text()):
        assert KEY not in text
    assert row.sealed not in shown + listed
    assert "the provider answered 200" in listed


def test_key_and_settings_change(admin_client: Client, account: Account, key: ApiKey) -> None:
    assert add(admin_client, account, allowed_models="acme/small").status_code == 302
    row = ByokCredential.objects.get()
    # One without a workspace serves all of them.
    assert row.workspace is None
    (entry,) = load_credentials(key)
    assert unseal_key(entry) == KEY
    off = {"disabled": "on", "allowed_models": "", "allowed_keys": f"{key.pk}"}

    response = change(admin_client, row, name="renamed", key="sk-new-0123456789wxyz", **off)

    assert response.status_code == 302, errors_of(response)
    row.refresh_from_db()
    assert (row.name, row.label, row.disabled) == ("renamed", "sk-...wxyz", True)
    assert (row.allowed_models, row.allowed_key_ids) == (None, [key.pk])
    record = AuditRecord.objects.latest("pk")
    assert (record.action, str(record.operator)) == ("rotated", "admin")
    assert change(admin_client, row, disabled="on", allowed_keys=f"{key.pk}").status_code == 302
    row.refresh_from_db()
    assert row.version == 1


def test_what_is_not_the_account_s_or_no_good_key_is_refused(
    admin_client: Client, account: Account, trials: list[KeyTrial]
) -> None:
    foreign = str(open_account(name="other").workspaces.get().pk)
    odd = {"provider": "nope", "key": "a b", "allowed_keys": "999", "workspace": foreign}
    for field, typed in [*odd.items(), ("key", "")]:
        assert list(errors_of(add(admin_client, account, **{field: typed}))) == [field]
    assert not ByokCredential.objects.exists()

    row = bring_credential(account)
    trials.append(REFUSED)
    assert list(errors_of(add(admin_client, account))) == ["key"]
    assert list(errors_of(change(admin_client, row, key="sk-new-0123456789"))) == ["key"]
    row.refresh_from_db()
    assert (row.version, ByokCredential.objects.count()) == (0, 1)


def test_they_are_reordered_disabled_and_deleted(admin_client: Client, account: Account) -> None:
    rows = {name: bring_credential(account, name) for name in "abc"}

    def order() -> str:
        living = ByokCredential.objects.living().order_by("sort_order")
        return "".join(row.name or "" for row in living)

    do(admin_client, "move_up", rows["b"], rows["c"])
    assert order() == "bca"
    do(admin_client, "move_down", rows["b"])
    assert order() == "cba"
    do(admin_client, "disable", rows["a"], rows["b"])
    assert set(ByokCredential.objects.filter(disabled=True)) == {rows["a"], rows["b"]}
    do(admin_client, "enable", rows["a"])
    assert set(ByokCredential.objects.filter(disabled=True)) == {rows["b"]}
    gone = page(ByokCredential, "delete", rows["b"].pk)
    assert admin_client.post(gone, {"post": "yes"}).status_code == 302
    assert order() == "ca"
    assert ByokCredential.objects.get(name="b").sealed == ""
    do(admin_client, "delete_selected", rows["a"])
    assert "b" not in admin_client.get(page(ByokCredential, "changelist")).context["cl"].result_list
    by_admin = AuditRecord.objects.filter(object_type="byok_credential", operator__isnull=False)
    assert set(by_admin.values_list("action", flat=True)) >= {"updated", "deleted"}


def test_its_page_shows_what_it_was_used_for(
    admin_client: Client, account: Account, workspace: Workspace, key: ApiKey
) -> None:
    row, now = bring_credential(account), datetime.now(UTC)
    owner = {"account": account, "workspace": workspace, "api_key": key, "created_at": now}
    detail = {"byok": {"id": str(row.pk)}}
    served: dict[str, Any] = {"is_byok": True, "detail": detail, "status": 200}
    generation(id="gen-1", **owner, **served, upstream_cost_nano=1500, charge_nano=75)
    generation(id="gen-2", **owner, **served, upstream_cost_nano=500, charge_nano=25)
    generation(id="gen-3", **owner, **served | {"status": 502}, upstream_cost_nano=9)
    # Partly on the gateway's credential, which answered last.
    partly = {**served["detail"], "own_cost_nano": 0, "own_fee_nano": 0}
    mixed = {**served, "is_byok": False, "detail": partly}
    generation(id="gen-5", **owner, **mixed, upstream_cost_nano=700, charge_nano=700)
    another = {**served, "detail": {"byok": {"id": "another"}}}
    generation(id="gen-4", **owner, **another, upstream_cost_nano=9)

    shown = admin_client.get(page(ByokCredential, "change", row.pk)).text

    assert "3 calls, USD 0.000002 at list price, USD 0.0000001 in fees" in shown
