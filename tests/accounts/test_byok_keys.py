"""The keys of a team's own credentials: tried before they are kept, and shown to nobody."""

import pytest
from django.db import connection

from accounts.byok import opened, usable_credentials
from accounts.known_providers import KeyTrial
from accounts.models import ApiKey, AuditRecord, ByokCredential
from accounts.services.keys import create_key
from tests.accounts.brought import FIELDS, KEY, NEW, Providers, brought, caller_of, key_of
from tests.accounts.dump import database_text
from tests.support.management import Manager

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("providers")]


def test_a_key_that_its_provider_refuses_is_refused(mine: Manager, providers: Providers) -> None:
    made = brought(mine)
    row = ByokCredential.objects.values().get()
    providers.verdict = KeyTrial("refused", "the provider answered 401")
    said = "key: Invalid input: the provider answered 401, so it does not take this key"

    assert mine.refused(400, "POST", "/byok", NEW) == said
    assert mine.refused(400, "PATCH", f"/byok/{made['id']}", {"key": "sk-another-one"}) == said

    assert ByokCredential.objects.values().get() == row
    assert providers.asked[1:] == [("openai", KEY), ("openai", "sk-another-one")]


def test_a_provider_that_does_not_say_is_believed(mine: Manager, providers: Providers) -> None:
    providers.verdict = KeyTrial("untold", "the provider did not answer")
    made = brought(mine)

    assert made.keys() == FIELDS
    assert ByokCredential.objects.get().key_said == "the provider did not answer"
    record = AuditRecord.objects.latest("pk")
    assert record.after is not None
    assert record.after["key_said"] == "the provider did not answer"


def test_a_key_is_tried_outside_of_any_transaction(mine: Manager, providers: Providers) -> None:
    # The test itself is one; what is begun within it is a savepoint.
    within: list[bool] = []
    providers.meanwhile = lambda: within.append(bool(connection.savepoint_ids))
    made = brought(mine)
    mine.ok("PATCH", f"/byok/{made['id']}", {"key": "sk-another-key-1234"})

    assert within == [False, False]


def test_a_new_key_takes_the_old_one_s_place(mine: Manager, providers: Providers) -> None:
    key, made = key_of(mine), brought(mine)

    rotated = mine.ok("PATCH", f"/byok/{made['id']}", {"key": "  gsk_another-key-9876 "})["data"]

    assert rotated == made | {"label": "gsk_...9876"}
    (entry,) = caller_of(key).byok
    assert opened(entry) == "gsk_another-key-9876"
    record = AuditRecord.objects.latest("pk")
    assert (record.action, record.object_id) == ("rotated", made["id"])


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
    (*_, entry) = usable_credentials(key_of(mine))
    assert opened(entry) == '{"private_key":"canary-of-a-cloud-key","id":1}'
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


def test_a_deleted_workspace_s_credentials_are_wiped(mine: Manager) -> None:
    team = mine.workspace("team")
    create_key(account=mine.account, name="old", workspace=team)
    ApiKey.objects.filter(workspace=team).update(disabled=True)
    brought(mine, workspace_id=str(team.pk))
    kept = brought(mine)

    assert mine.ok("DELETE", "/workspaces/team") == {"deleted": True}

    assert ByokCredential.objects.get(workspace=team).sealed == ""
    assert [str(row.pk) for row in ByokCredential.objects.living()] == [kept["id"]]
