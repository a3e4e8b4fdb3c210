"""/workspaces: made, read, changed and deleted through the API."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from accounts.caller import read_caller
from accounts.models import Account, ApiKey, AuditRecord, ByokCredential, Membership, Workspace
from accounts.models.account import default_workspace_id
from accounts.services.keys import create_key
from accounts.services.records import SYSTEM
from accounts.tasks import clear_deleted_workspaces
from interns.models import Vault, VaultSecret
from interns.vault.secrets import SecretInput, put_secret
from interns.vault.service import get_workspace_vault
from tests.accounts.own_credentials import caller_of
from tests.support.management import Manager, manager

pytestmark = [pytest.mark.django_db, pytest.mark.both]
NEW = {"name": "Production", "slug": "production"}
NULL = (
    *("description", "default_text_model", "default_image_model", "default_provider_sort"),
    *("disabled_server_tools", "end_user_budget", "tag_budgets", "member_key_limits"),
    *("io_logging_api_key_ids", "rate_limits", "updated_at"),
)
OFF = (
    *("include_byok_in_budgets", "is_data_discount_logging_enabled"),
    *("is_observability_broadcast_enabled", "is_observability_io_logging_enabled"),
    *("hedge", "rescue", "response_cache"),
)


def test_a_new_workspace_shows_every_field(mine: Manager) -> None:
    # What operators set is no caller's.
    body = NEW | {"queue_weight": 7}
    made = mine.ok("POST", "/workspaces", body, status=201)["data"]

    empty = dict.fromkeys(NULL) | dict.fromkeys(OFF, False)
    assert made == NEW | empty | {
        "id": str(uuid.UUID(made["id"], version=4)),
        "default_guardrail_id": str(uuid.UUID(made["default_guardrail_id"], version=5)),
        "io_logging_sampling_rate": 1,
        "queue_weight": 1,
        "created_at": made["created_at"],
        "created_by": mine.admin.public_id,
    }
    for reference in (made["id"], made["id"].upper(), "production"):
        assert mine.ok("GET", f"/workspaces/{reference}")["data"] == made


def test_what_is_said_is_kept(mine: Manager, loaded_catalogue: None) -> None:
    said = NEW | {
        "description": "",
        "default_text_model": "~acme/small-latest:floor",
        "default_image_model": "acme/small",
        "default_provider_sort": "exacto",
        "disabled_server_tools": ["router:bash"],
        "io_logging_sampling_rate": 0.0001,
        "is_data_discount_logging_enabled": True,
        "is_observability_broadcast_enabled": True,
        "is_observability_io_logging_enabled": True,
    }

    made = mine.ok("POST", "/workspaces", said, status=201)["data"]

    assert made == made | said
    assert mine.ok("GET", "/workspaces/production")["data"] == made


def test_a_default_model_is_one_a_request_could_name(mine: Manager, loaded_catalogue: None) -> None:
    path = "/workspaces/default"
    for field in ("default_text_model", "default_image_model"):
        said = mine.expect_refusal(400, "PATCH", path, {field: "nope/none"})
        assert said == f"{field}: nope/none is not a valid model ID"
    assert mine.ok("GET", path)["data"]["updated_at"] is None
    for model in ("acme/small", "acme/small:nitro", "router/auto", "auto"):
        data = mine.ok("PATCH", path, {"default_text_model": model})["data"]
        assert data["default_text_model"] == model


def test_a_change_is_shown_and_recorded_until_it_is_deleted(mine: Manager) -> None:
    made = mine.ok("POST", "/workspaces", NEW, status=201)["data"]

    changed = mine.ok("PATCH", "/workspaces/production", {"name": "P", "slug": "p"})["data"]

    assert changed["updated_at"] is not None
    assert changed == made | {"name": "P", "slug": "p", "updated_at": changed["updated_at"]}
    assert mine.ok("GET", "/workspaces/p")["data"] == changed
    mine.expect_refusal(404, "GET", "/workspaces/production")
    assert mine.ok("DELETE", "/workspaces/p") == {"deleted": True}
    for method in ("GET", "DELETE"):
        mine.expect_refusal(404, method, "/workspaces/p")
        mine.expect_refusal(404, method, f"/workspaces/{made['id']}")
    assert mine.ok("GET", "/workspaces")["total_count"] == 1
    # Its slug is free.
    again = mine.ok("POST", "/workspaces", NEW | {"slug": "p"}, status=201)["data"]
    assert again["id"] != made["id"]
    records = AuditRecord.objects.filter(object_type="workspace", object_id=made["id"])
    created, updated, deleted = records.order_by("id")
    assert created.management_key is not None
    assert updated.before == {"name": "Production", "slug": "production"}
    assert updated.after == {"name": "P", "slug": "p"}
    assert (deleted.action, (deleted.before or {})["slug"], deleted.after) == ("deleted", "p", None)


def test_a_slug_is_used_once_in_an_account_and_again_elsewhere(mine: Manager) -> None:
    first = mine.ok("POST", "/workspaces", NEW, status=201)["data"]
    mine.ok("POST", "/workspaces", NEW | {"slug": "second"}, status=201)
    taken = "Workspace slug already exists"

    assert mine.expect_refusal(400, "POST", "/workspaces", NEW) == taken
    assert mine.expect_refusal(400, "PATCH", "/workspaces/second", {"slug": "production"}) == taken
    mine.ok("PATCH", "/workspaces/second", {"slug": "second"})
    manager("other").ok("POST", "/workspaces", NEW, status=201)
    # An id counts before a slug that reads like it.
    mine.ok("POST", "/workspaces", NEW | {"slug": first["id"]}, status=201)
    assert mine.ok("GET", f"/workspaces/{first['id']}")["data"] == first


def test_the_list_is_newest_first_and_paged(mine: Manager) -> None:
    for number in range(3):
        mine.ok("POST", "/workspaces", NEW | {"slug": f"w{number}"}, status=201)
    Workspace.objects.filter(slug="w0").update(created_at=datetime.now(UTC) + timedelta(days=1))

    def slugs(query: str) -> list[str]:
        said = mine.ok("GET", f"/workspaces{query}")
        assert said["total_count"] == 4
        return [each["slug"] for each in said["data"]]

    assert slugs("") == ["w0", "w2", "w1", "default"]
    assert slugs("?offset=1&limit=2") == ["w2", "w1"]
    assert slugs("?offset=null&limit=1") == ["w0"]
    assert slugs("?offset=4") == []
    assert slugs(f"?offset={2**62}") == []
    mine.expect_refusal(400, "GET", "/workspaces?limit=101")


def test_the_default_workspace_came_with_the_account(mine: Manager) -> None:
    data = mine.ok("GET", "/workspaces/default")["data"]

    assert data["id"] == str(default_workspace_id(mine.account.pk))
    assert (data["name"], data["slug"]) == ("Default Workspace", "default")
    assert data["created_by"] == mine.admin.public_id
    stays = "Deleting the default workspace is not supported"
    assert mine.expect_refusal(403, "DELETE", "/workspaces/default") == stays
    # A key without a creator writes the first admin.
    mine.member("second", Membership.Role.ADMIN)
    _, mine.key = create_key(account=mine.account, name="system", workspace=None)
    made = mine.ok("POST", "/workspaces", NEW, status=201)["data"]
    assert made["created_by"] == mine.admin.public_id


def test_logged_keys_are_told_by_number_whatever_they_were_named_by(mine: Manager) -> None:
    team, other = mine.workspace("team"), mine.workspace("other")
    first, _ = create_key(account=mine.account, name="1", workspace=team)
    second, _ = create_key(account=mine.account, name="2", workspace=team)
    outside, _ = create_key(account=mine.account, name="3", workspace=other)
    wanted = [second.hash, first.pk, second.pk]

    data = mine.ok("PATCH", "/workspaces/team", {"io_logging_api_key_ids": wanted})["data"]

    assert data["io_logging_api_key_ids"] == [second.pk, first.pk]
    for stranger in (outside.pk, outside.hash, "0" * 64, 0, -1, 2**63, 2**80):
        body = {"io_logging_api_key_ids": [first.pk, stranger]}
        assert mine.expect_refusal(400, "PATCH", "/workspaces/team", body) == (
            "io_logging_api_key_ids.1: Invalid input: no key of this workspace"
        )
    new = NEW | {"io_logging_api_key_ids": [first.pk]}
    assert mine.expect_refusal(400, "POST", "/workspaces", new).startswith(
        "io_logging_api_key_ids.0: "
    )


def test_a_workspace_with_an_active_key_stays(mine: Manager) -> None:
    team = mine.workspace("team")
    key, string = create_key(account=mine.account, name="k", workspace=team)

    said = mine.expect_refusal(400, "DELETE", "/workspaces/team")

    assert said == "Workspace has active API keys. Delete the keys first."
    ApiKey.objects.filter(pk=key.pk).update(disabled=True)
    assert mine.ok("DELETE", "/workspaces/team") == {"deleted": True}
    ApiKey.objects.filter(pk=key.pk).update(disabled=False)
    assert mine.call("GET", "/key", key=string)[0] == 401
    for method, body in (("GET", None), ("PATCH", {"disabled": False}), ("DELETE", None)):
        mine.expect_refusal(404, method, f"/keys/{key.hash}", body)
    assert clear_deleted_workspaces() == 1
    assert clear_deleted_workspaces() == 0
    key.refresh_from_db()
    assert key.deleted_at is not None
    assert key.workspace == team


def test_secrets_of_a_deleted_workspace_go_at_once_and_the_rest_after_it(mine: Manager) -> None:
    team = mine.workspace("team")
    owner: dict[str, Any] = {"account": mine.account, "workspace": team}
    credential = ByokCredential.objects.create(
        **owner, provider="alpha", label="sk-...AbCd", sealed="v1:x", sort_order=0
    )
    put_secret(
        vaults=Vault.objects.filter(pk=get_workspace_vault(team.pk).pk),
        stored=SecretInput("token", "value", ["api.example.com"]),
        account_id=mine.account.pk,
        by=SYSTEM,
    )

    mine.ok("DELETE", "/workspaces/team")

    credential.refresh_from_db()
    assert (credential.sealed, credential.deleted_at is not None) == ("", True)
    assert not VaultSecret.objects.exists()
    record = AuditRecord.objects.get(object_id=team.pk, action="deleted")
    assert record.before is not None
    told = {"byok_credentials": 1, "vault_secrets": 1, "presets": 0, "destinations": 0}
    assert record.before == record.before | told
    assert Vault.objects.exists()
    clear_deleted_workspaces()
    assert not Vault.objects.exists()
    # A key that came too late opens nothing.
    late, string = create_key(**owner, name="late")
    assert read_caller(late.hash) is None
    assert mine.call("GET", "/key", key=string)[0] == 401


def test_what_account_and_workspace_say_comes_with_the_key_in_one_query(
    key: ApiKey, account: Account, django_assert_num_queries: Any
) -> None:
    def wishes(key: ApiKey) -> Any:
        with django_assert_num_queries(1):
            caller = caller_of(key)
        tools = caller.disabled_server_tools
        return (
            caller.allowed_providers,
            caller.ignored_providers,
            caller.default_provider_sort,
            tools,
            (caller.hedge, caller.rescue, caller.queue_weight),
        )

    nothing: Any = (None, (), None, frozenset(), (False, False, 1))
    management, _ = create_key(account=account, name="manager", workspace=None)
    assert wishes(key) == wishes(management) == nothing
    # An empty list allows every provider.
    Account.objects.update(allowed_providers=[], ignored_providers=[])
    assert wishes(key) == nothing
    Account.objects.update(allowed_providers=["alpha", "Beta"], ignored_providers=["gamma"])
    settings: dict[str, Any] = {
        "default_provider_sort": "latency",
        "disabled_server_tools": ["router:web_search"],
    }
    settings |= {"hedge": True, "rescue": True, "queue_weight": 7}
    Workspace.objects.update(**settings)
    tools = frozenset({"router:web_search"})
    said = (("alpha", "Beta"), ("gamma",), "latency", tools, (True, True, 7))
    assert wishes(key) == said
    assert wishes(management)[2:] == nothing[2:]
    # A key's own word comes before its workspace's.
    ApiKey.objects.filter(pk=key.pk).update(hedge=False, rescue=None)
    assert wishes(key)[4] == (False, True, 7)
    ApiKey.objects.filter(pk=key.pk).update(hedge=None, rescue=False)
    assert wishes(key)[4] == (True, False, 7)


OUT_OF_BOUNDS: list[dict[str, Any]] = [
    {"io_logging_sampling_rate": 0},
    {"io_logging_sampling_rate": 0.00009},
    {"io_logging_sampling_rate": 1.01},
    {"default_provider_sort": "luck"},
    {"queue_weight": 0},
    {"queue_weight": 101},
    {"deleted_at": datetime(2026, 1, 1, tzinfo=UTC)},
]


def test_the_database_keeps_the_bounds(mine: Manager) -> None:
    for change in OUT_OF_BOUNDS:
        with pytest.raises(IntegrityError, match=r"(?i)check constraint"), transaction.atomic():
            Workspace.objects.update(**change)
