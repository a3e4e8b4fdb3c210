"""/guardrails: made, read, changed and deleted through the API."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError

from accounts.models import AuditRecord, Guardrail
from accounts.models.account import default_workspace_id
from accounts.services import guardrails
from accounts.services.guardrails import change_found, find_guardrail
from accounts.services.keys import create_key
from accounts.services.records import by_command
from gateway.http.errors import Conflict
from routing.catalogue.document import parse
from routing.catalogue.load import load
from routing.catalogue.snapshot import catalogue
from tests.support.catalogue import CONFORMANCE
from tests.support.management import Manager, manager

pytestmark = [pytest.mark.django_db, pytest.mark.both]
FIELDS = {
    *("id", "name", "description", "workspace_id", "limit_usd", "reset_interval"),
    *("include_byok_in_budgets", "allowed_models", "ignored_models", "allowed_providers"),
    *("ignored_providers", "enforce_zdr", "enforce_zdr_anthropic", "enforce_zdr_openai"),
    *("enforce_zdr_google", "enforce_zdr_xai", "enforce_zdr_other"),
    *("enable_paid_model_training", "enable_free_model_training"),
    *("enable_free_model_publication", "content_filters", "content_filter_builtins"),
    *("allowed_data_regions", "created_at", "updated_at"),
}
NOTHING = FIELDS - {"id", "name", "workspace_id", "include_byok_in_budgets", "created_at"}


@pytest.fixture(autouse=True)
def known(db: None) -> Iterator[None]:
    """The conformance catalogue says which models and providers there are."""
    assert load(parse(CONFORMANCE.read_text(encoding="utf-8")))["errors"] == []
    catalogue.forget()
    catalogue.current()
    yield
    catalogue.forget()


def made(mine: Manager, **said: Any) -> Any:
    return mine.ok("POST", "/guardrails", {"name": "g"} | said, status=201)["data"]


def default_of(mine: Manager, slug: str = "default") -> str:
    found: str = mine.ok("GET", f"/workspaces/{slug}")["data"]["default_guardrail_id"]
    return found


def test_a_new_guardrail_shows_every_field(mine: Manager) -> None:
    data = made(mine)

    assert data.keys() == FIELDS
    assert {field for field in FIELDS if data[field] is None} == NOTHING
    assert data["include_byok_in_budgets"] is False
    assert data["workspace_id"] == str(default_workspace_id(mine.account.pk))
    assert uuid.UUID(data["id"]).version == 4
    assert mine.ok("GET", f"/guardrails/{data['id']}")["data"] == data
    assert mine.ok("GET", f"/guardrails/{data['id'].upper()}")["data"] == data


def test_what_is_said_is_kept(mine: Manager) -> None:
    said = {
        "description": "",
        "limit_usd": 5.000000001,
        "reset_interval": "weekly",
        "include_byok_in_budgets": True,
        "allowed_models": ["acme/small-2026-01", "acme/solo"],
        "ignored_models": ["acme/text"],
        "allowed_providers": ["alpha", "not-there-yet"],
        "ignored_providers": ["beta"],
        "enforce_zdr_anthropic": True,
        "enforce_zdr_openai": False,
        "enable_paid_model_training": False,
        "enable_free_model_training": True,
        "enable_free_model_publication": False,
        "content_filters": [
            {"pattern": "(?i)secret-[0-9]+", "action": "block", "label": "Project names"},
            {"pattern": "é+", "action": "flag", "label": None},
        ],
        "allowed_data_regions": ["europe"],
    }

    data = made(mine, **said)

    assert data == data | said
    assert mine.ok("GET", f"/guardrails/{data['id']}")["data"] == data


def test_built_in_filters_come_with_their_labels(mine: Manager) -> None:
    said = [
        {"slug": "email", "action": "redact"},
        {"slug": "ssn", "action": "block", "scan_scope": "user_only", "label": "mine"},
    ]

    shown = made(mine, content_filter_builtins=said)["content_filter_builtins"]

    assert shown == [
        {"slug": "email", "action": "redact", "scan_scope": "all_messages", "label": "[EMAIL]"},
        {"slug": "ssn", "action": "block", "scan_scope": "user_only", "label": "[SSN]"},
    ]


def test_models_and_providers_are_kept_by_their_own_names(mine: Manager) -> None:
    data = made(
        mine,
        allowed_models=[
            "acme/small",
            "acme/small-2026-01",
            "~acme/small-latest",
            "acme/solo:nitro",
        ],
        allowed_providers=["Alpha", "alpha", "GAMMA", "Unheard Of"],
    )

    assert data["allowed_models"] == ["acme/small-2026-01", "acme/solo"]
    assert data["allowed_providers"] == ["alpha", "gamma", "unheard of"]


def test_the_older_field_fills_those_that_are_not_given(mine: Manager) -> None:
    data = made(mine, enforce_zdr=True, enforce_zdr_google=False)

    assert data["enforce_zdr_google"] is False
    assert data["enforce_zdr_anthropic"] is True
    assert data["enforce_zdr_other"] is True
    assert data["enforce_zdr"] is None
    changed = mine.ok("PATCH", f"/guardrails/{data['id']}", {"enforce_zdr": False})["data"]
    assert changed["enforce_zdr"] is False


def test_a_change_is_shown_and_recorded(mine: Manager) -> None:
    data = made(mine, allowed_models=["acme/small"])
    changes = {"allowed_models": ["acme/solo"], "description": "d"}

    changed = mine.ok("PATCH", f"/guardrails/{data['id']}", changes)["data"]

    assert changed["updated_at"] is not None
    assert changed == data | changes | {"updated_at": changed["updated_at"]}
    record = AuditRecord.objects.filter(object_type="guardrail", object_id=data["id"]).latest("id")
    assert record.management_key is not None
    assert record.before == {"allowed_models": ["acme/small-2026-01"], "description": None}
    assert record.after == {"allowed_models": ["acme/solo"], "description": "d"}
    said = mine.refused(400, "PATCH", f"/guardrails/{data['id']}", {"other": 1})
    assert said == "No update fields provided"


def test_a_limit_and_its_interval_change_together(mine: Manager) -> None:
    path = f"/guardrails/{made(mine, limit_usd=5, reset_interval='daily')['id']}"

    assert mine.ok("PATCH", path, {"limit_usd": 6})["data"]["limit_usd"] == 6
    assert mine.ok("PATCH", path, {"reset_interval": "weekly"})["data"]["limit_usd"] == 6
    for half in ({"limit_usd": None}, {"reset_interval": None}):
        assert "come together" in mine.refused(400, "PATCH", path, half)
    both = mine.ok("PATCH", path, {"limit_usd": None, "reset_interval": None})["data"]
    assert (both["limit_usd"], both["reset_interval"]) == (None, None)


def test_of_two_changes_at_a_time_one_is_told(mine: Manager) -> None:
    data = made(mine)
    read = find_guardrail(mine.account.pk, uuid.UUID(data["id"]))
    mine.ok("PATCH", f"/guardrails/{data['id']}", {"description": "first"})

    with pytest.raises(Conflict) as told:
        change_found(read, by=by_command("test"), changes={"description": "second"})

    assert (told.value.status, told.value.text) == (
        409,
        "Resource conflict. Please try again later.",
    )
    assert mine.ok("GET", f"/guardrails/{data['id']}")["data"]["description"] == "first"


def test_the_list_is_a_workspace_s_newest_first_and_paged(mine: Manager) -> None:
    team = mine.workspace("team")
    elsewhere = made(mine, name="elsewhere", workspace_id=str(team.pk))
    for number in range(3):
        made(mine, name=f"g{number}")
    Guardrail.objects.filter(name="g0").update(created_at=datetime.now(UTC) + timedelta(days=1))

    def names(query: str, total: int) -> list[str]:
        said = mine.ok("GET", f"/guardrails{query}")
        assert said["total_count"] == total
        return [each["name"] for each in said["data"]]

    assert names("", 3) == ["g0", "g2", "g1"]
    assert names("?offset=1&limit=1", 3) == ["g2"]
    assert names(f"?workspace_id={team.pk}", 1) == ["elsewhere"]
    assert elsewhere["workspace_id"] == str(team.pk)
    for query in ("limit=101", "offset=-1", "workspace_id=x", f"workspace_id={uuid.uuid4()}"):
        mine.refused(400, "GET", f"/guardrails?{query}")


def test_a_workspace_must_be_the_account_s(mine: Manager) -> None:
    theirs = manager("other").workspace("theirs")

    said = mine.refused(400, "POST", "/guardrails", {"name": "g", "workspace_id": str(theirs.pk)})

    assert said == "workspace_id: Invalid input: no workspace of this account"


def test_a_deleted_guardrail_is_gone(mine: Manager) -> None:
    data = made(mine)

    assert mine.ok("DELETE", f"/guardrails/{data['id']}") == {"deleted": True}

    for method, body in (("GET", None), ("PATCH", {"name": "x"}), ("DELETE", None)):
        assert mine.refused(404, method, f"/guardrails/{data['id']}", body) == "Resource not found"
    assert mine.ok("GET", "/guardrails") == {"data": [], "total_count": 0}
    record = AuditRecord.objects.get(object_id=data["id"], action="deleted")
    assert record.before is not None
    assert record.before["name"] == "g"


def test_guardrails_go_with_their_workspace(mine: Manager) -> None:
    team = mine.workspace("team")
    data = made(mine, workspace_id=str(team.pk))

    mine.ok("DELETE", "/workspaces/team")

    mine.refused(404, "GET", f"/guardrails/{data['id']}")


def test_the_default_guardrail_is_made_by_its_first_change(mine: Manager) -> None:
    its_id = default_of(mine)
    workspace = str(default_workspace_id(mine.account.pk))
    mine.refused(404, "GET", f"/guardrails/{its_id}")
    mine.refused(404, "DELETE", f"/guardrails/{its_id}")
    mine.refused(404, "GET", f"/guardrails/{its_id}/assignments/keys")
    assert mine.ok("GET", "/guardrails")["total_count"] == 0

    data = mine.ok("PATCH", f"/guardrails/{its_id}", {"allowed_providers": ["p1"]})["data"]

    assert data["id"] == its_id
    assert data["name"] == f"Workspace {workspace} Default"
    assert (data["workspace_id"], data["allowed_providers"]) == (workspace, ["p1"])
    assert mine.ok("GET", f"/guardrails/{its_id}")["data"] == data
    assert mine.ok("GET", "/guardrails") == {"data": [data], "total_count": 1}
    again = mine.ok("PATCH", f"/guardrails/{its_id}", {"description": "d"})["data"]
    assert again["allowed_providers"] == ["p1"]


def test_the_name_of_a_default_guardrail_stays(mine: Manager) -> None:
    its_id = default_of(mine)

    for _ in range(2):
        said = mine.refused(400, "PATCH", f"/guardrails/{its_id}", {"name": "x"})
        assert said == "The name of a workspace's default guardrail cannot be changed"
        data = mine.ok("PATCH", f"/guardrails/{its_id}", {"description": "d"})["data"]
    assert mine.ok("PATCH", f"/guardrails/{its_id}", {"name": data["name"]})["data"]


def test_deleting_a_default_guardrail_resets_it(mine: Manager) -> None:
    its_id = default_of(mine)
    mine.ok("PATCH", f"/guardrails/{its_id}", {"allowed_providers": ["p1"], "description": "d"})

    assert mine.ok("DELETE", f"/guardrails/{its_id}") == {"deleted": True}

    mine.refused(404, "GET", f"/guardrails/{its_id}")
    assert mine.ok("GET", "/guardrails")["total_count"] == 0
    data = mine.ok("PATCH", f"/guardrails/{its_id}", {"limit_usd": 1, "reset_interval": "daily"})
    assert data["data"]["allowed_providers"] is None
    assert data["data"]["updated_at"] is None


@pytest.mark.parametrize("wrong", ["nope", "default", "0", "%00"])
def test_an_id_is_a_uuid(mine: Manager, wrong: str) -> None:
    for method, path, body in (
        ("GET", "", None),
        ("PATCH", "", {"name": "x"}),
        ("DELETE", "", None),
        ("GET", "/assignments/keys", None),
        ("POST", "/assignments/members", {"member_user_ids": ["x"]}),
    ):
        said = mine.refused(400, method, f"/guardrails/{wrong}{path}", body)
        assert said == "id: Invalid UUID"


def test_another_account_s_guardrail_is_not_there(mine: Manager) -> None:
    other = manager("other")
    for its_id in (made(other)["id"], default_of(other), str(uuid.uuid4())):
        for method, path, body in (
            ("GET", "", None),
            ("PATCH", "", {"description": "x"}),
            ("DELETE", "", None),
            ("GET", "/assignments/keys", None),
            ("GET", "/assignments/members", None),
            ("POST", "/assignments/keys", {"key_hashes": ["0" * 64]}),
            ("POST", "/assignments/keys/remove", {"key_hashes": ["0" * 64]}),
            ("POST", "/assignments/members", {"member_user_ids": [mine.admin.public_id]}),
            ("POST", "/assignments/members/remove", {"member_user_ids": [mine.admin.public_id]}),
        ):
            said = mine.refused(404, method, f"/guardrails/{its_id}{path}", body)
            assert said == "Resource not found"


def test_an_inference_key_manages_nothing(mine: Manager) -> None:
    its_id = made(mine)["id"]
    _, key = create_key(account=mine.account, name="i", workspace=mine.workspace("team"))

    for method, path in (
        ("GET", ""),
        ("POST", ""),
        ("GET", f"/{its_id}"),
        ("PATCH", f"/{its_id}"),
        ("DELETE", f"/{its_id}"),
        ("GET", "/assignments/keys"),
        ("GET", "/assignments/members"),
        ("GET", f"/{its_id}/assignments/keys"),
        ("POST", f"/{its_id}/assignments/keys"),
        ("POST", f"/{its_id}/assignments/members/remove"),
    ):
        status, said = mine.call(method, f"/guardrails{path}", {"name": "x"}, key=key)
        assert status == 403
        assert said["error"]["message"] == "Only management keys can perform this operation"


@pytest.mark.parametrize(("body", "status"), [("{bad", 400), ("[]", 400), ("x" * 1_048_577, 413)])
def test_a_body_that_is_none(mine: Manager, body: str, status: int) -> None:
    its_id = made(mine)["id"]
    for method, path in (
        ("POST", ""),
        ("PATCH", f"/{its_id}"),
        ("POST", f"/{its_id}/assignments/keys"),
        ("POST", f"/{its_id}/assignments/members/remove"),
    ):
        mine.refused(status, method, f"/guardrails{path}", body)


def test_the_database_keeps_limits_whole(mine: Manager) -> None:
    made(mine)

    with pytest.raises(IntegrityError, match=r"(?i)check constraint"):
        Guardrail.objects.update(limit_nano=5)


def test_a_change_that_another_one_overtakes_is_told_to_the_caller(
    mine: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = made(mine)

    def overtaken(guardrail: Guardrail) -> None:
        Guardrail.objects.filter(pk=guardrail.pk).update(revision=7)

    monkeypatch.setattr(guardrails, "_check_budget", overtaken)

    status, said = mine.call("PATCH", f"/guardrails/{data['id']}", {"description": "late"})

    assert (status, said["error"]["message"]) == (
        409,
        "Resource conflict. Please try again later.",
    )
    assert mine.ok("GET", f"/guardrails/{data['id']}")["data"]["description"] is None
