"""/byok: credentials brought, read, listed and changed through the API."""

import uuid
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.byok import load_credentials, unseal_key
from accounts.models import ApiKey, AuditRecord, ByokCredential, User
from accounts.ports import KeyTrial
from accounts.services import byok
from accounts.services.keys import create_key, rotate_key
from accounts.services.records import SYSTEM
from tests.accounts.dump import database_text
from tests.accounts.own_credentials import (
    FIELDS,
    HASHES,
    KEY,
    NEW,
    Providers,
    bring_credential,
    caller_of,
    key_of,
)
from tests.support.management import Manager, manager

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("providers")]
STRING = "Invalid input: expected string"
ASCII = "Invalid input: expected visible ASCII characters or"
NO_KEY = "Invalid input: no key of this account"
BAD: list[tuple[dict[str, Any], str]] = [
    ({"provider": ...}, f"provider: {STRING}, received undefined"),
    ({"provider": "nope"}, "provider: Invalid input: nope is no provider of the catalogue"),
    ({"key": ...}, f"key: {STRING}, received undefined"),
    ({"key": ""}, "key: Too small: expected string to have >=1 characters"),
    ({"key": "a\nb"}, f"key: {ASCII} a JSON object"),
    ({"key": "{no"}, f"key: {ASCII} a JSON object"),
    ({"key": "k" * 8193}, "key: Too big: expected string to have <=8192 characters"),
    ({"allowed_models": ["m"] * 101}, "allowed_models: Too big: expected array to have <=100"),
    ({HASHES: []}, f"{HASHES}: Too small: expected array to have >=1 items"),
    ({HASHES: ["A" * 64]}, f"{HASHES}.0: Invalid string: must match pattern /^[0-9a-f]{{64}}$/"),
    ({HASHES: ["0" * 64]}, f"{HASHES}.0: {NO_KEY}"),
    ({"declared_zdr": True}, "declared_zdr: Invalid input: this is not declared here"),
    ({"is_byok_only": True, "is_fallback": True}, "is_byok_only: Invalid input: a fallback"),
]


def test_a_new_credential_shows_every_field_but_the_key(mine: Manager) -> None:
    made = bring_credential(mine)

    assert made.keys() == FIELDS
    shown: dict[str, Any] = {
        "provider": "openai",
        "label": "sk-...efgh",
        "name": None,
        "disabled": False,
    }
    shown |= {"is_fallback": False, "sort_order": 0, "allowed_models": None}
    shown |= {"allowed_api_key_hashes": None, "allowed_user_ids": None}
    shown |= {"workspace_id": str(mine.account.workspaces.get().pk)}
    assert made == made | shown | {"id": str(uuid.UUID(made["id"], version=4))}
    assert mine.ok("GET", f"/byok/{made['id']}")["data"] == made
    assert mine.ok("GET", "/byok") == {"data": [made], "total_count": 1}
    assert mine.expect_refusal(400, "GET", "/byok/nothing") == "id: Invalid UUID"


def test_what_is_said_is_kept(mine: Manager) -> None:
    workspace, key = mine.workspace("team"), key_of(mine)
    said = {
        "name": "n" * 255,
        "workspace_id": str(workspace.pk),
        "disabled": True,
        "is_fallback": True,
        "allowed_models": [f"never/heard-of-{number}" for number in range(100)],
        "allowed_api_key_hashes": [key.hash],
        "allowed_user_ids": [],
    }

    made = bring_credential(mine, **said, key="x", unknown="field")

    assert made == made | said | {"label": "..."}
    assert mine.ok("GET", f"/byok/{made['id'].upper()}")["data"] == made


def test_what_breaks_the_rules_is_refused(mine: Manager) -> None:
    others = manager("other")
    key, workspace = key_of(others), others.workspace("team")
    management = ApiKey.objects.get(account=mine.account, kind="management")
    foreign = "workspace_id: Invalid input: no workspace of this account"
    of_others: list[tuple[dict[str, Any], str]] = [
        ({HASHES: [key.hash]}, f"{HASHES}.0: {NO_KEY}"),
        ({HASHES: [management.hash]}, f"{HASHES}.0: {NO_KEY}"),
        ({"workspace_id": str(workspace.pk)}, foreign),
    ]

    for changes, said in BAD + of_others:
        body = {name: each for name, each in (NEW | changes).items() if each is not ...}
        assert mine.expect_refusal(400, "POST", "/byok", body).startswith(said), changes
    assert mine.expect_refusal(400, "GET", f"/byok?workspace_id={workspace.pk}") == foreign
    assert not ByokCredential.objects.exists()


def test_an_account_has_so_many_and_no_more(mine: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byok, "CREDENTIALS_MAX", 2)
    team = str(mine.workspace("team").pk)
    made = [bring_credential(mine), bring_credential(mine, workspace_id=team)]

    said = mine.expect_refusal(400, "POST", "/byok", NEW)
    assert said.startswith("An account can have at most ")

    mine.ok("DELETE", f"/byok/{made[1]['id']}")
    bring_credential(mine)


def test_places_are_counted_in_each_section_of_each_workspace(mine: Manager) -> None:
    team = str(mine.workspace("team").pk)
    said: list[dict[str, Any]] = [
        {},
        {"provider": "acme"},
        {"is_fallback": True},
        {"workspace_id": team},
        {},
        {"is_fallback": True},
    ]
    assert [bring_credential(mine, **each)["sort_order"] for each in said] == [0, 1, 0, 0, 2, 1]
    # The free place of one that is gone is not the next one's.
    first, *_, third = reversed(mine.ok("GET", "/byok?limit=100")["data"])
    assert mine.ok("DELETE", f"/byok/{first['id']}") == {"deleted": True}
    assert bring_credential(mine)["sort_order"] == 3
    moved = mine.ok("PATCH", f"/byok/{third['id']}", {"is_fallback": False})["data"]
    assert (moved["is_fallback"], moved["sort_order"]) == (False, 4)


def test_lists_are_narrowed_and_paged(mine: Manager) -> None:
    team = str(mine.workspace("team").pk)
    for provider in ("openai", "acme", "openai"):
        bring_credential(mine, provider=provider)
    bring_credential(mine, workspace_id=team)
    ByokCredential.objects.filter(workspace__id=team).update(workspace=None)
    bring_credential(mine, workspace_id=team)

    def places(query: str) -> list[tuple[str, int]]:
        return [(e["provider"], e["sort_order"]) for e in mine.ok("GET", f"/byok{query}")["data"]]

    everywhere = ("openai", 0)
    default = [everywhere, ("openai", 2), ("acme", 1), ("openai", 0)]
    assert places("") == places("?workspace_id=&provider=null") == default
    assert places("?provider=acme") == [("acme", 1)]
    assert places("?provider=nobody") == []
    assert places(f"?workspace_id={team}") == [("openai", 0), everywhere]
    assert places("?limit=1&offset=2") == [("acme", 1)]
    assert mine.ok("GET", "/byok?limit=1&provider=openai")["total_count"] == 3
    for query in ("limit=0", "limit=101", "offset=-1", "workspace_id=x", "provider=%00"):
        mine.expect_refusal(400, "GET", f"/byok?{query}")


def test_omitted_is_unchanged_and_null_is_cleared(mine: Manager) -> None:
    key = key_of(mine)
    made = bring_credential(
        mine, name="n", allowed_models=["a/b"], allowed_api_key_hashes=[key.hash]
    )
    path = f"/byok/{made['id']}"

    changed = mine.ok("PATCH", path, {"disabled": True, "provider": "acme", "sort_order": 9})
    assert changed["data"] == made | {"disabled": True}
    nothing = {"name": None, "allowed_models": None, HASHES: None, "allowed_user_ids": None}
    assert mine.ok("PATCH", path, nothing)["data"] == made | nothing | {"disabled": True}
    narrowed = {HASHES: [key.hash], "allowed_user_ids": [mine.admin.public_id]}
    assert mine.ok("PATCH", path, narrowed)["data"][HASHES] == [key.hash]
    for body in ({}, {"provider": "acme"}):
        assert mine.expect_refusal(400, "PATCH", path, body) == "No update fields provided"
    assert mine.expect_refusal(400, "PATCH", path, {HASHES: []}).startswith(f"{HASHES}: Too small")
    assert mine.expect_refusal(400, "PATCH", path, {"key": ""}).startswith("key: Too small")


def test_what_moved_meanwhile_is_a_conflict(mine: Manager, providers: Providers) -> None:
    made = bring_credential(mine)
    path, changes = f"/byok/{made['id']}", {"key": "sk-another-key-1234", "name": "mine"}

    def change() -> None:
        row = ByokCredential.objects.get()
        byok.change_credential(row=row, changes={"name": "theirs"}, by=SYSTEM)

    providers.meanwhile = change
    said = mine.expect_refusal(409, "PATCH", path, changes)
    assert said == "Resource conflict. Please try again later."
    shown = mine.ok("GET", path)["data"]
    assert (shown["name"], shown["label"]) == ("theirs", made["label"])
    assert mine.ok("PATCH", path, {"name": "mine"})["data"]["name"] == "mine"

    row = ByokCredential.objects.get()
    providers.meanwhile = lambda: byok.delete_credential(row=row, by=SYSTEM)
    mine.expect_refusal(409, "PATCH", path, changes)
    assert ByokCredential.objects.get().sealed == ""


def test_a_place_that_is_taken_is_a_conflict(
    mine: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_credential(mine)
    path = f"/byok/{bring_credential(mine, is_fallback=True)['id']}"
    monkeypatch.setattr(byok, "find_next_place", lambda row: (0, 1))

    mine.expect_refusal(409, "PATCH", path, {"is_fallback": False})

    monkeypatch.undo()
    assert mine.ok("PATCH", path, {"is_fallback": False})["data"]["sort_order"] == 1


def test_everything_at_once_takes_no_more_queries(mine: Manager) -> None:
    first, second = key_of(mine), key_of(mine, "second")
    made = bring_credential(mine, **{HASHES: [first.hash]})
    path = f"/byok/{made['id']}"
    body = {
        "key": "sk-another-key-1234",
        "name": "n",
        "is_fallback": True,
        "allowed_models": ["m"],
        "allowed_user_ids": [mine.admin.public_id],
        HASHES: [second.hash, first.hash],
    }

    changed = mine.ok("PATCH", path, body)["data"]

    assert changed[HASHES] == body[HASHES]
    assert mine.queries == 6
    stranger = User.objects.create(username="stranger")
    said = mine.expect_refusal(400, "PATCH", path, {"allowed_user_ids": [stranger.public_id]})
    assert "allowed_user_ids.0: Invalid input: no member of this account" in said
    # Nothing moved is nothing recorded.
    mine.ok("PATCH", path, {"name": "n", "disabled": False})
    assert AuditRecord.objects.filter(object_id=made["id"]).count() == 2
    assert ByokCredential.objects.get().version == 1


def test_credentials_are_moved_within_their_section(mine: Manager) -> None:
    for name in "abcd":
        bring_credential(mine, name=name)
    bring_credential(mine, name="x", is_fallback=True)
    mine.ok("DELETE", f"/byok/{ByokCredential.objects.get(name='b').pk}")

    def order() -> str:
        rows = ByokCredential.objects.living().filter(is_fallback=False).order_by("sort_order")
        return "".join(f"{row.name}{row.sort_order}" for row in rows)

    def move(name: str, places: int) -> str:
        row = ByokCredential.objects.get(name=name)
        byok.move_credential(row=row, places=places, by=SYSTEM)
        return order()

    assert order() == "a0c2d3"
    assert move("d", -1) == "a0d1c2"
    assert move("a", 5) == "d0c1a2"
    assert move("a", -9) == "a0d1c2"
    assert move("a", -1) == "a0d1c2"


# --- Their keys: tried, kept out of sight, and whose they are -------------------------------------


def test_a_key_is_tried_before_it_is_kept_and_outside_of_any_transaction(
    mine: Manager, providers: Providers
) -> None:
    # The test itself is one; what is begun within it is a savepoint.
    within: list[bool] = []
    providers.meanwhile = lambda: within.append(bool(connection.savepoint_ids))
    providers.verdict = KeyTrial("untold", "the provider did not answer")
    made = bring_credential(mine)
    path = f"/byok/{made['id']}"
    # One that does not say is believed.
    assert ByokCredential.objects.get().key_said == "the provider did not answer"
    assert (AuditRecord.objects.latest("pk").after or {})[
        "key_said"
    ] == providers.verdict.explanation
    row = ByokCredential.objects.values().get()

    providers.verdict = KeyTrial("refused", "the provider answered 401")
    said = "key: Invalid input: the provider answered 401, so it does not take this key"
    assert mine.expect_refusal(400, "POST", "/byok", NEW) == said
    assert mine.expect_refusal(400, "PATCH", path, {"key": "sk-another-one"}) == said
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
    made = [bring_credential(mine), bring_credential(mine, key=cloud)]
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
    key, made = key_of(mine), bring_credential(mine)
    assert len(caller_of(key).byok) == 1

    assert mine.ok("DELETE", f"/byok/{made['id']}") == {"deleted": True}

    row = ByokCredential.objects.get()
    assert (row.sealed, row.deleted_at is None) == ("", False)
    assert caller_of(key).byok == ()
    for method, body in (("GET", None), ("PATCH", {"name": "x"}), ("DELETE", None)):
        mine.expect_refusal(404, method, f"/byok/{made['id']}", body)
    assert mine.ok("GET", "/byok") == {"data": [], "total_count": 0}
    record = AuditRecord.objects.latest("pk")
    assert (record.action, record.after) == ("deleted", None)


# --- Who may use them -----------------------------------------------------------------------------


def test_a_rotated_key_of_the_account_is_still_the_one_that_was_meant(mine: Manager) -> None:
    key = key_of(mine)
    made = bring_credential(mine, **{HASHES: [key.hash]})
    rotate_key(keys=ApiKey.objects.filter(pk=key.pk))
    key.refresh_from_db()

    assert mine.ok("GET", f"/byok/{made['id']}")["data"][HASHES] == [key.hash]
    assert [entry.id for entry in caller_of(key).byok] == [made["id"]]


def test_whoever_brought_none_costs_no_query(mine: Manager) -> None:
    key, second = key_of(mine), key_of(mine, "second")
    manager("other")

    with CaptureQueriesContext(connection) as before:
        assert caller_of(key).byok == ()
    bring_credential(mine)
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
    bring_credential(mine, name="last", is_fallback=True)
    bring_credential(mine, name="first")
    bring_credential(mine, name="off", disabled=True)
    bring_credential(mine, name="mine alone", **{HASHES: [key.hash]})
    bring_credential(mine, name="the admin's", allowed_user_ids=[mine.admin.public_id])
    bring_credential(mine, name="nobody's", allowed_user_ids=[])
    bring_credential(mine, name="the team's", workspace_id=team)
    bring_credential(mine, name="everybody's")
    ByokCredential.objects.filter(name="everybody's").update(workspace=None, sort_order=0)
    bring_credential(manager("other"), name="theirs")

    def names(key: ApiKey) -> list[str | None]:
        ids = [entry.id for entry in caller_of(key).byok]
        return [ByokCredential.objects.get(pk=each).name for each in ids]

    common = ["first", "everybody's"]
    assert names(key) == [*common, "mine alone", "the admin's", "last"]
    assert names(another) == [*common, "the admin's", "last"]
    assert names(systems) == [*common, "last"]
    management = ApiKey.objects.get(account=mine.account, kind="management")
    assert caller_of(management).byok == ()
