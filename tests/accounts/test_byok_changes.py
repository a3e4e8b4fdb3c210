"""Changes of a team's own credentials: what PATCH leaves as it is, moves, two at a time."""

import pytest

from accounts.models import AuditRecord, ByokCredential, User
from accounts.services import byok
from accounts.services.records import SYSTEM
from tests.accounts.brought import HASHES, Providers, brought, key_of
from tests.support.management import Manager

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("providers")]


def test_omitted_is_unchanged_and_null_is_cleared(mine: Manager) -> None:
    key = key_of(mine)
    made = brought(mine, name="n", allowed_models=["a/b"], allowed_api_key_hashes=[key.hash])
    path = f"/byok/{made['id']}"

    changed = mine.ok("PATCH", path, {"disabled": True, "provider": "acme", "sort_order": 9})
    assert changed["data"] == made | {"disabled": True}
    nothing = {"name": None, "allowed_models": None, HASHES: None, "allowed_user_ids": None}
    assert mine.ok("PATCH", path, nothing)["data"] == made | nothing | {"disabled": True}
    narrowed = {HASHES: [key.hash], "allowed_user_ids": [mine.admin.public_id]}
    assert mine.ok("PATCH", path, narrowed)["data"][HASHES] == [key.hash]
    for body in ({}, {"provider": "acme"}):
        assert mine.refused(400, "PATCH", path, body) == "No update fields provided"
    assert mine.refused(400, "PATCH", path, {HASHES: []}).startswith(f"{HASHES}: Too small")
    assert mine.refused(400, "PATCH", path, {"key": ""}).startswith("key: Too small")


def test_what_changed_meanwhile_is_a_conflict(mine: Manager, providers: Providers) -> None:
    made = brought(mine)
    path = f"/byok/{made['id']}"

    def somebody_else() -> None:
        providers.meanwhile = lambda: None
        row = ByokCredential.objects.get()
        byok.change_credential(row=row, changes={"name": "theirs"}, by=SYSTEM)

    providers.meanwhile = somebody_else
    said = mine.refused(409, "PATCH", path, {"key": "sk-another-key-1234", "name": "mine"})

    assert said == "Resource conflict. Please try again later."
    shown = mine.ok("GET", path)["data"]
    assert (shown["name"], shown["label"]) == ("theirs", made["label"])
    assert mine.ok("PATCH", path, {"name": "mine"})["data"]["name"] == "mine"


def test_what_was_deleted_meanwhile_is_a_conflict(mine: Manager, providers: Providers) -> None:
    made = brought(mine)
    providers.meanwhile = lambda: byok.delete_credential(
        row=ByokCredential.objects.get(), by=SYSTEM
    )

    mine.refused(409, "PATCH", f"/byok/{made['id']}", {"key": "sk-another-key-1234"})

    assert ByokCredential.objects.get().sealed == ""


def test_a_place_that_went_to_another_one_is_a_conflict(
    mine: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought(mine)
    path = f"/byok/{brought(mine, is_fallback=True)['id']}"
    monkeypatch.setattr(byok, "next_place", lambda row: (0, 1))

    mine.refused(409, "PATCH", path, {"is_fallback": False})

    monkeypatch.undo()
    assert mine.ok("PATCH", path, {"is_fallback": False})["data"]["sort_order"] == 1


def test_everything_at_once_takes_no_more_queries(mine: Manager) -> None:
    first, second = key_of(mine), key_of(mine, "second")
    path = f"/byok/{brought(mine, **{HASHES: [first.hash]})['id']}"
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


def test_users_of_others_are_refused(mine: Manager) -> None:
    stranger = User.objects.create(username="stranger")
    path = f"/byok/{brought(mine)['id']}"
    said = mine.refused(400, "PATCH", path, {"allowed_user_ids": [stranger.public_id]})
    assert "allowed_user_ids.0: Invalid input: no member of this account" in said


def test_nothing_moved_is_nothing_recorded(mine: Manager) -> None:
    made = brought(mine, name="n")
    mine.ok("PATCH", f"/byok/{made['id']}", {"name": "n", "disabled": False})

    assert AuditRecord.objects.filter(object_id=made["id"]).count() == 1
    assert ByokCredential.objects.get().version == 0


def test_credentials_are_moved_within_their_section(mine: Manager) -> None:
    for name in "abcd":
        brought(mine, name=name)
    brought(mine, name="x", is_fallback=True)
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
