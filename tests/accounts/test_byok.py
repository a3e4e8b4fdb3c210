"""/byok: credentials brought, read and listed through the API."""

import uuid
from typing import Any

import pytest

from accounts.models import ApiKey, ByokCredential
from accounts.services import byok
from tests.accounts.brought import FIELDS, HASHES, NEW, brought, key_of
from tests.support.management import Manager, manager

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("providers")]


def bad(body: dict[str, Any], said: str) -> Any:
    return pytest.param(NEW | body, said, id=said[:60])


PATTERN = "/^[0-9a-f]{64}$/"
BAD = [
    bad({"provider": None}, "provider: Invalid input: expected string, received null"),
    bad({"provider": "nope"}, "provider: Invalid input: nope is no provider of the catalogue"),
    bad({"key": ""}, "key: Too small: expected string to have >=1 characters"),
    bad({"key": 5}, "key: Invalid input: expected string, received number"),
    bad({"key": " "}, "key: Invalid input: expected visible ASCII characters or a JSON object"),
    bad({"key": "a\nb"}, "key: Invalid input: expected visible ASCII characters or a JSON object"),
    bad({"key": "{no"}, "key: Invalid input: expected visible ASCII characters or a JSON object"),
    bad({"key": "k" * 8193}, "key: Too big: expected string to have <=8192 characters"),
    bad({"name": "n" * 256}, "name: Too big: expected string to have <=255 characters"),
    bad({"workspace_id": "x"}, "workspace_id: Invalid UUID"),
    bad({"disabled": "no"}, "disabled: Invalid input: expected boolean, received string"),
    bad({"is_fallback": None}, "is_fallback: Invalid input: expected boolean, received null"),
    bad({"allowed_models": ["m"] * 101}, "allowed_models: Too big: expected array to have <=100"),
    bad({"allowed_models": [1]}, "allowed_models.0: Invalid input: expected string, received num"),
    bad({HASHES: []}, f"{HASHES}: Too small: expected array to have >=1 items"),
    bad({HASHES: ["0" * 64] * 101}, f"{HASHES}: Too big: expected array to have <=100 items"),
    bad({HASHES: ["A" * 64]}, f"{HASHES}.0: Invalid string: must match pattern {PATTERN}"),
    bad({HASHES: ["0" * 64]}, f"{HASHES}.0: Invalid input: no key of this account"),
    bad({"allowed_user_ids": ["u"] * 101}, "allowed_user_ids: Too big: expected array to have"),
    bad({"declared_zdr": True}, "declared_zdr: Invalid input: this is not declared here"),
    bad({"declared_region": "us"}, "declared_region: Invalid input: this is not declared here"),
    bad({"is_byok_only": True, "is_fallback": True}, "is_byok_only: Invalid input: a fallback"),
]


def test_a_new_credential_shows_every_field_but_the_key(mine: Manager) -> None:
    made = brought(mine)

    assert made.keys() == FIELDS
    assert (made["provider"], made["label"], made["name"]) == ("openai", "sk-...efgh", None)
    assert (made["disabled"], made["is_fallback"], made["sort_order"]) == (False, False, 0)
    assert made["workspace_id"] == str(mine.account.workspaces.get().pk)
    lists = ("allowed_models", "allowed_api_key_hashes", "allowed_user_ids")
    assert [made[name] for name in lists] == [None, None, None]
    assert uuid.UUID(made["id"]).version == 4
    assert mine.ok("GET", f"/byok/{made['id']}")["data"] == made
    assert mine.ok("GET", "/byok") == {"data": [made], "total_count": 1}


def test_what_is_said_is_kept(mine: Manager) -> None:
    workspace, key = mine.workspace("team"), key_of(mine)
    said = {
        "name": "",
        "workspace_id": str(workspace.pk),
        "disabled": True,
        "is_fallback": True,
        "allowed_models": ["acme/small", "never/heard-of"],
        "allowed_api_key_hashes": [key.hash],
        "allowed_user_ids": [],
    }

    made = brought(mine, **said, unknown="field")

    assert made == made | said
    assert mine.ok("GET", f"/byok/{made['id'].upper()}")["data"] == made


@pytest.mark.parametrize(("body", "said"), BAD)
def test_what_breaks_the_rules_is_refused(mine: Manager, body: dict[str, Any], said: str) -> None:
    assert mine.refused(400, "POST", "/byok", body).startswith(said)
    assert not ByokCredential.objects.exists()


@pytest.mark.parametrize("field", ["provider", "key"])
def test_what_is_required(mine: Manager, field: str) -> None:
    body = {name: value for name, value in NEW.items() if name != field}
    said = f"{field}: Invalid input: expected string, received undefined"
    assert mine.refused(400, "POST", "/byok", body) == said


def test_bounds_that_still_fit(mine: Manager) -> None:
    made = brought(mine, name="n" * 255, allowed_models=[f"m/{n}" for n in range(100)])
    assert len(made["allowed_models"]) == 100
    assert brought(mine, key="x")["label"] == "..."


def test_an_account_has_so_many_and_no_more(mine: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byok, "CREDENTIALS_MAX", 2)
    team = str(mine.workspace("team").pk)
    made = [brought(mine), brought(mine, workspace_id=team)]

    said = mine.refused(400, "POST", "/byok", NEW)
    assert said.startswith("An account can have at most ")

    mine.ok("DELETE", f"/byok/{made[1]['id']}")
    brought(mine)


def test_keys_and_workspaces_of_others_are_refused(mine: Manager) -> None:
    other = manager("other")
    key, workspace = key_of(other), other.workspace("team")
    management = ApiKey.objects.get(account=mine.account, kind="management")

    for each in (key, management):
        refused = mine.refused(400, "POST", "/byok", NEW | {HASHES: [each.hash]})
        assert refused == f"{HASHES}.0: Invalid input: no key of this account"
    refused = mine.refused(400, "POST", "/byok", NEW | {"workspace_id": str(workspace.pk)})
    assert refused == "workspace_id: Invalid input: no workspace of this account"
    assert mine.refused(400, "GET", f"/byok?workspace_id={workspace.pk}") == refused
    theirs = brought(other)
    path = f"/byok/{theirs['id']}"
    for method, body in (("GET", None), ("PATCH", {"name": "x"}), ("DELETE", None)):
        assert mine.refused(404, method, path, body) == "Resource not found"
    assert other.ok("GET", path)["data"] == theirs


def test_no_id_is_400_and_an_unknown_one_404(mine: Manager) -> None:
    assert mine.refused(400, "GET", "/byok/nothing") == "id: Invalid UUID"
    assert mine.refused(404, "GET", f"/byok/{uuid.uuid4()}") == "Resource not found"


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
    assert [brought(mine, **each)["sort_order"] for each in said] == [0, 1, 0, 0, 2, 1]
    # The free place of one that is gone is not the next one's.
    first, *_, third = reversed(mine.ok("GET", "/byok?limit=100")["data"])
    assert mine.ok("DELETE", f"/byok/{first['id']}") == {"deleted": True}
    assert brought(mine)["sort_order"] == 3
    moved = mine.ok("PATCH", f"/byok/{third['id']}", {"is_fallback": False})["data"]
    assert (moved["is_fallback"], moved["sort_order"]) == (False, 4)


def test_lists_are_narrowed_and_paged(mine: Manager) -> None:
    team = str(mine.workspace("team").pk)
    for provider in ("openai", "acme", "openai"):
        brought(mine, provider=provider)
    brought(mine, workspace_id=team)
    ByokCredential.objects.filter(workspace__id=team).update(workspace=None)
    brought(mine, workspace_id=team)

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
        mine.refused(400, "GET", f"/byok?{query}")
