"""Which of a team's own credentials a key may use, and what it costs to know."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import ApiKey, ByokCredential
from accounts.services.keys import create_key, rotate_key
from tests.accounts.brought import HASHES, brought, caller_of, key_of
from tests.support.management import Manager, manager

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("providers")]


def test_callers_share_what_they_read(mine: Manager) -> None:
    first, second = key_of(mine), key_of(mine, "second")
    brought(mine)

    assert caller_of(first).byok[0] is caller_of(second).byok[0]


def test_a_rotated_key_of_the_account_is_still_the_one_that_was_meant(mine: Manager) -> None:
    key = key_of(mine)
    made = brought(mine, **{HASHES: [key.hash]})
    rotate_key(keys=ApiKey.objects.filter(pk=key.pk))
    key.refresh_from_db()

    assert mine.ok("GET", f"/byok/{made['id']}")["data"][HASHES] == [key.hash]
    assert [entry.id for entry in caller_of(key).byok] == [made["id"]]


def test_whoever_brought_none_costs_no_query(mine: Manager) -> None:
    key = key_of(mine)
    manager("other")

    with CaptureQueriesContext(connection) as before:
        assert caller_of(key).byok == ()
    brought(mine)
    with CaptureQueriesContext(connection) as after:
        assert len(caller_of(key).byok) == 1

    assert (len(before), len(after)) == (1, 2)


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
