"""The keys of a team's own credentials: tried, kept out of sight, and whose they are."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.byok import load_credentials, unseal_key
from accounts.models import ApiKey, AuditRecord, ByokCredential
from accounts.ports import KeyTrial
from accounts.services.keys import create_key, rotate_key
from tests.accounts.brought import HASHES, KEY, NEW, Providers, brought, caller_of, key_of
from tests.accounts.dump import database_text
from tests.support.management import Manager, manager

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("providers")]


def test_a_key_is_tried_before_it_is_kept_and_outside_of_any_transaction(
    mine: Manager, providers: Providers
) -> None:
    # The test itself is one; what is begun within it is a savepoint.
    within: list[bool] = []
    providers.meanwhile = lambda: within.append(bool(connection.savepoint_ids))
    providers.verdict = KeyTrial("untold", "the provider did not answer")
    made = brought(mine)
    path = f"/byok/{made['id']}"
    # One that does not say is believed.
    assert ByokCredential.objects.get().key_said == "the provider did not answer"
    assert (AuditRecord.objects.latest("pk").after or {})["key_said"] == providers.verdict.said
    row = ByokCredential.objects.values().get()

    providers.verdict = KeyTrial("refused", "the provider answered 401")
    said = "key: Invalid input: the provider answered 401, so it does not take this key"
    assert mine.refused(400, "POST", "/byok", NEW) == said
    assert mine.refused(400, "PATCH", path, {"key": "sk-another-one"}) == said
    assert ByokCredential.objects.values().get() == row
    assert providers.asked[1:] == [("openai", KEY), ("openai", "sk-another-one")]

    providers.verdict = KeyTrial("accepted", "the provider answered 200")
    rotated = mine.ok("PATCH", path, {"key": "  gsk_another-key-9876 "})["data"]
    assert rotated == made | {"label": "gsk_...9876"}
    record = AuditRecord.objects.latest("pk")
    assert (record.action, record.object_id) == ("rotated", made["id"])
    (entry,) = caller_of(key_of(mine)).byok
    assert unseal_key(entry) == "gsk_another-key-9876"
    assert within == [False] * 4


def test_no_key_is_kept_or_recorded_as_it_is(mine: Manager) -> None:
    cloud = '{\n "private_key": "canary-of-a-cloud-key", "id": 1}'
    made = [brought(mine), brought(mine, key=cloud)]
    mine.ok("PATCH", f"/byok/{made[0]['id']}", {"key": "canary-of-a-new-key-0000"})
    assert made[1]["label"] == "{...}"
    sealed = list(ByokCredential.objects.values_list("sealed", flat=True))

    kept = database_text()

    for canary in (KEY, "canary-of-a-cloud-key", "canary-of-a-new-key"):
        assert canary not in kept
    assert all(kept.count(each) == 1 for each in sealed)
    assert "sealed" not in repr([r.after for r in AuditRecord.objects.all()])
    (*_, entry) = load_credentials(key_of(mine))
    assert unseal_key(entry) == '{"private_key":"canary-of-a-cloud-key","id":1}'
    assert entry.sealed not in repr(entry)


def test_a_deleted_credential_is_wiped(mine: Manager) -> None:
    key, made = key_of(mine), brought(mine)
    assert len(caller_of(key).byok) == 1

    assert mine.ok("DELETE", f"/byok/{made['id']}") == {"deleted": True}

    row = ByokCredential.objects.get()
    assert (row.sealed, row.deleted_at is None) == ("", False)
    assert caller_of(key).byok == ()
    for method, body in (("GET", None), ("PATCH", {"name": "x"}), ("DELETE", None)):
        mine.refused(404, method, f"/byok/{made['id']}", body)
    assert mine.ok("GET", "/byok") == {"data": [], "total_count": 0}
    record = AuditRecord.objects.latest("pk")
    assert (record.action, record.after) == ("deleted", None)


# --- Who may use them ----------------------------------------------------------------------------


def test_a_rotated_key_of_the_account_is_still_the_one_that_was_meant(mine: Manager) -> None:
    key = key_of(mine)
    made = brought(mine, **{HASHES: [key.hash]})
    rotate_key(keys=ApiKey.objects.filter(pk=key.pk))
    key.refresh_from_db()

    assert mine.ok("GET", f"/byok/{made['id']}")["data"][HASHES] == [key.hash]
    assert [entry.id for entry in caller_of(key).byok] == [made["id"]]


def test_whoever_brought_none_costs_no_query(mine: Manager) -> None:
    key, second = key_of(mine), key_of(mine, "second")
    manager("other")

    with CaptureQueriesContext(connection) as before:
        assert caller_of(key).byok == ()
    brought(mine)
    with CaptureQueriesContext(connection) as after:
        (found,) = caller_of(key).byok

    assert (len(before), len(after)) == (1, 2)
    assert caller_of(second).byok[0] is found


def test_a_key_gets_what_is_for_it_in_order(mine: Manager) -> None:
    key, another = key_of(mine), key_of(mine, "another")
    systems = create_key(
        account=mine.account, name="s", workspace=mine.account.workspaces.get(is_default=True)
    )[0]
    team = str(mine.workspace("team").pk)
    brought(mine, name="last", is_fallback=True)
    brought(mine, name="first")
    brought(mine, name="off", disabled=True)
    brought(mine, name="mine alone", **{HASHES: [key.hash]})
    brought(mine, name="the admin's", allowed_user_ids=[mine.admin.public_id])
    brought(mine, name="nobody's", allowed_user_ids=[])
    brought(mine, name="the team's", workspace_id=team)
    brought(mine, name="everybody's")
    ByokCredential.objects.filter(name="everybody's").update(workspace=None, sort_order=0)
    brought(manager("other"), name="theirs")

    def names(key: ApiKey) -> list[str | None]:
        ids = [entry.id for entry in caller_of(key).byok]
        return [ByokCredential.objects.get(pk=each).name for each in ids]

    common = ["first", "everybody's"]
    assert names(key) == [*common, "mine alone", "the admin's", "last"]
    assert names(another) == [*common, "the admin's", "last"]
    assert names(systems) == [*common, "last"]
    management = ApiKey.objects.get(account=mine.account, kind="management")
    assert caller_of(management).byok == ()
