"""Every change of a key leaves a record that nobody changes afterwards."""

import sqlite3
from contextlib import closing
from importlib import import_module
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.test import Client

from accounts.models import ApiKey, AuditRecord
from accounts.models.record import AppendOnly
from accounts.services.keys import create_key, rotate_key, set_disabled
from accounts.services.organization import open_account
from accounts.services.records import command_actor, record_change
from tests.accounts.office import KEYS, Office, key_path
from tests.support.admin_pages import page
from tests.support.bed import Bed

pytestmark = [pytest.mark.django_db, pytest.mark.both]
KEEP = import_module("accounts.migrations.0013_sqlite_keeps_records").KEEP


def last() -> AuditRecord:
    record = AuditRecord.objects.order_by("-pk").first()
    assert record is not None
    return record


def read_change(record: AuditRecord) -> tuple[str, Any, Any]:
    return record.action, record.before, record.after


def test_changes_through_the_api_name_the_management_key(office: Office) -> None:
    manager = ApiKey.objects.get()
    made = office.new(limit=5)
    key = ApiKey.objects.get(hash=made["data"]["hash"])
    office.ok("PATCH", key_path(made), {"limit": 7, "name": "k", "disabled": True})
    new = office.ok("POST", key_path(made, "/rotate"))
    office.ok("DELETE", key_path(new))

    records = list(AuditRecord.objects.filter(object_id=str(key.pk)).order_by("pk"))
    created, updated, rotated, deleted = map(read_change, records)
    assert created[:2] == ("created", None)
    assert created[2].items() >= {"hash": key.hash, "limit_nano": 5 * 10**9}.items()
    before, after = {"disabled": False, "limit_nano": 5 * 10**9}, {"disabled": True}
    assert updated == ("updated", before, after | {"limit_nano": 7 * 10**9})
    assert rotated[0] == "rotated"
    assert (rotated[1]["hash"], rotated[2]["hash"]) == (key.hash, new["data"]["hash"])
    assert (deleted[0], set(deleted[2])) == ("deleted", {"deleted_at"})
    for record in records:
        assert (record.object_type, record.account_id) == ("key", office.account.pk)
        by = (record.management_key, record.operator, record.command)
        assert by == (manager, None, "")


def test_what_changes_nothing_is_refused_or_fails_leaves_no_record(office: Office) -> None:
    made = office.new()
    count = AuditRecord.objects.count()

    office.ok("PATCH", key_path(made), {"name": "k"})
    office.ok("GET", key_path(made))
    office.expect_refusal(400, "PATCH", key_path(made), {"limit": -1})
    office.expect_refusal(400, "POST", KEYS, {"name": ""})
    office.expect_refusal(404, "DELETE", key_path({"hash": "0" * 64}))
    with transaction.atomic():
        set_disabled(keys=ApiKey.objects.filter(hash=made["data"]["hash"]), disabled=True)
        assert AuditRecord.objects.count() == count + 1
        transaction.set_rollback(True)
    # One without an author is none.
    nobody = {"at": office.account.created_at, "action": "x", "object_type": "key"}
    with pytest.raises(DatabaseError), transaction.atomic():
        AuditRecord.objects.create(**nobody, object_id="1")

    assert AuditRecord.objects.count() == count


def test_changes_in_the_admin_name_the_operator(admin_client: Client) -> None:
    account = open_account(name="acme")
    form = {"account": str(account.pk), "kind": "inference", "name": "new"}
    admin_client.post(page(ApiKey, "add"), form)
    key = ApiKey.objects.get()
    change = {"name": "renamed", "workspace": str(key.workspace_id), "limit_usd": "2"}
    admin_client.post(page(ApiKey, "change", key.pk), change)
    for action in ("disable", "enable"):
        admin_client.post(page(ApiKey), {"action": action, "_selected_action": [str(key.pk)]})
    admin_client.post(page(ApiKey, "delete", key.pk), {"post": "yes"})

    records = list(AuditRecord.objects.exclude(action="signed in").order_by("pk"))
    actions = [record.action for record in records]
    assert actions == ["created", "updated", "updated", "updated", "deleted"]
    assert {str(record.operator) for record in records} == {"admin"}
    before, after = {"name": "new", "limit_nano": None}, {"name": "renamed"}
    assert read_change(records[1]) == ("updated", before, after | {"limit_nano": 2 * 10**9})


def test_changes_by_commands_name_the_command_and_only_what_moved_is_kept() -> None:
    account = open_account(name="acme")
    key, _ = create_key(account=account, name="k", workspace=account.workspaces.get())
    assert last().command == "shell"
    rotate_key(keys=ApiKey.objects.filter(pk=key.pk), by=command_actor("nightly"))
    assert last().command == "nightly"

    common: dict[str, Any] = {"by": command_actor("test"), "action": "updated", "object_id": 1}
    common |= {"object_type": "thing", "account_id": account.pk}
    with transaction.atomic():
        same = record_change(**common, before={"a": 1}, after={"a": 1})
        record_change(**common, before={"a": 1, "b": 2}, after={"a": 1, "b": 3})
    assert same is None
    assert read_change(last()) == ("updated", {"b": 2}, {"b": 3})


def test_records_are_neither_changed_nor_removed(office: Office) -> None:
    record = last()
    record.action = "nothing"

    for attempt in (
        record.save,
        record.delete,
        lambda: AuditRecord.objects.update(action="nothing"),
        lambda: AuditRecord.objects.filter(pk=record.pk).delete(),
        lambda: AuditRecord.objects.bulk_update([record], ["action"]),
    ):
        with pytest.raises(AppendOnly), transaction.atomic():
            attempt()
    assert last().action == "created"


def test_the_database_keeps_records_from_sql_as_well(office: Office) -> None:
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            # The test bed goes without it, to empty tables between tests.
            cursor.execute(KEEP["accounts_auditrecord_no_delete"])
    for sql in ("UPDATE accounts_auditrecord SET action = ''", "DELETE FROM accounts_auditrecord"):
        with (
            pytest.raises(DatabaseError, match="kept as they were written"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(sql)
    assert last().action == "created"


def test_a_new_database_on_sqlite_keeps_records(stores: Bed) -> None:
    if stores.is_postgres:
        return  # The test before this one has asked it.
    url = stores.create()
    try:
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
            found = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
            assert {name for (name,) in found} >= set(KEEP)
    finally:
        stores.drop(url)
