"""/guardrails: made, read, changed and deleted through the API; what none may have, and how callers
are told."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError

from accounts.models import AuditRecord, Guardrail
from accounts.models.account import default_workspace_id
from accounts.patterns import is_quick_to_compile
from accounts.services import guardrails
from accounts.views.schemas.guardrail import read_guardrail_changes
from gateway.http.errors import SchemaInvalid
from tests.support.management import Manager, manager

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("loaded_catalogue")]


def make_guardrail(mine: Manager, **said: Any) -> Any:
    return mine.ok("POST", "/guardrails", {"name": "g"} | said, status=201)["data"]


GROUPS = ("anthropic", "openai", "google", "xai", "other")


def test_of_a_new_guardrail_nothing_is_on_that_was_not_said(mine: Manager) -> None:
    data = make_guardrail(mine)

    assert {name: value for name, value in data.items() if value not in (None, False)} == {
        "id": str(uuid.UUID(data["id"], version=4)),
        "name": "g",
        "workspace_id": str(default_workspace_id(mine.account.pk)),
        "budget_enforcement": "block",
        "created_at": data["created_at"],
    }
    for its_id in (data["id"], data["id"].upper()):
        assert mine.ok("GET", f"/guardrails/{its_id}")["data"] == data


def test_what_is_said_is_kept(mine: Manager) -> None:
    said = {
        "description": "",
        "limit_usd": 5.000000001,
        "reset_interval": "weekly",
        "budget_enforcement": "warn",
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

    data = make_guardrail(mine, **said)

    assert data == data | said
    assert mine.ok("GET", f"/guardrails/{data['id']}")["data"] == data


def test_names_and_labels_are_those_of_the_catalogue(mine: Manager) -> None:
    data = make_guardrail(
        mine,
        allowed_models=[
            "acme/small",
            "acme/small-2026-01",
            "~acme/small-latest",
            "acme/solo:nitro",
        ],
        allowed_providers=["Alpha", "alpha", "GAMMA", "Unheard Of"],
        content_filter_builtins=[
            {"slug": "email", "action": "redact"},
            {"slug": "ssn", "action": "block", "scan_scope": "user_only", "label": "mine"},
        ],
    )

    assert data["allowed_models"] == ["acme/small-2026-01", "acme/solo"]
    assert data["allowed_providers"] == ["alpha", "gamma", "unheard of"]
    assert data["content_filter_builtins"] == [
        {"slug": "email", "action": "redact", "scan_scope": "all_messages", "label": "[EMAIL]"},
        {"slug": "ssn", "action": "block", "scan_scope": "user_only", "label": "[SSN]"},
    ]


def test_the_older_field_fills_those_that_are_not_given(mine: Manager) -> None:
    data = make_guardrail(mine, enforce_zdr=True, enforce_zdr_google=False)
    filled = {f"enforce_zdr_{group}": group != "google" for group in GROUPS}
    assert data == data | filled | {"enforce_zdr": None}
    changed = mine.ok("PATCH", f"/guardrails/{data['id']}", {"enforce_zdr": False})["data"]
    assert changed["enforce_zdr"] is False


def test_a_change_is_shown_and_recorded_until_it_is_deleted(mine: Manager) -> None:
    data = make_guardrail(mine, allowed_models=["acme/small"])
    path, changes = f"/guardrails/{data['id']}", {"allowed_models": ["acme/solo"]}

    changed = mine.ok("PATCH", path, changes | {"description": "d"})["data"]
    assert changed["updated_at"] is not None
    new = changes | {"description": "d", "updated_at": changed["updated_at"]}
    assert changed == data | new
    assert mine.expect_refusal(400, "PATCH", path, {"other": 1}) == "No update fields provided"
    assert mine.ok("DELETE", path) == {"deleted": True}

    for method, body in (("GET", None), ("PATCH", {"name": "x"}), ("DELETE", None)):
        assert mine.expect_refusal(404, method, path, body) == "Resource not found"
    assert mine.ok("GET", "/guardrails") == {"data": [], "total_count": 0}
    records = AuditRecord.objects.filter(object_type="guardrail", object_id=data["id"])
    created, updated, deleted = records.order_by("id")
    assert created.management_key is not None
    assert updated.before == {"allowed_models": ["acme/small-2026-01"], "description": None}
    assert updated.after == {"allowed_models": ["acme/solo"], "description": "d"}
    assert (deleted.action, (deleted.before or {})["name"]) == ("deleted", "g")


def test_a_limit_and_its_interval_change_together(mine: Manager) -> None:
    path = f"/guardrails/{make_guardrail(mine, limit_usd=5, reset_interval='daily')['id']}"

    assert mine.ok("PATCH", path, {"limit_usd": 6})["data"]["limit_usd"] == 6
    assert mine.ok("PATCH", path, {"reset_interval": "weekly"})["data"]["limit_usd"] == 6
    for half in ({"limit_usd": None}, {"reset_interval": None}):
        assert "come together" in mine.expect_refusal(400, "PATCH", path, half)
    both = mine.ok("PATCH", path, {"limit_usd": None, "reset_interval": None})["data"]
    assert (both["limit_usd"], both["reset_interval"]) == (None, None)
    with pytest.raises(IntegrityError, match=r"(?i)check constraint"):
        Guardrail.objects.update(limit_nano=5)


def test_the_list_is_a_workspace_s_newest_first_and_paged(mine: Manager) -> None:
    team, theirs = mine.workspace("team"), manager("other").workspace("theirs")
    elsewhere = make_guardrail(mine, name="elsewhere", workspace_id=str(team.pk))
    for number in range(3):
        make_guardrail(mine, name=f"g{number}")
    Guardrail.objects.filter(name="g0").update(created_at=datetime.now(UTC) + timedelta(days=1))

    def names(query: str, total: int) -> list[str]:
        said = mine.ok("GET", f"/guardrails{query}")
        assert said["total_count"] == total
        return [each["name"] for each in said["data"]]

    assert names("", 3) == ["g0", "g2", "g1"]
    assert names("?offset=1&limit=1", 3) == ["g2"]
    assert names(f"?workspace_id={team.pk}", 1) == ["elsewhere"]
    for query in ("limit=101", "offset=-1", "workspace_id=x", f"workspace_id={theirs.pk}"):
        mine.expect_refusal(400, "GET", f"/guardrails?{query}")
    said = mine.expect_refusal(
        400, "POST", "/guardrails", {"name": "g", "workspace_id": str(theirs.pk)}
    )
    assert said == "workspace_id: Invalid input: no workspace of this account"
    # Guardrails go with their workspace.
    mine.ok("DELETE", "/workspaces/team")
    for method, body in (("GET", None), ("PATCH", {"name": "x"})):
        mine.expect_refusal(404, method, f"/guardrails/{elsewhere['id']}", body)


def test_the_default_guardrail_begins_with_its_first_change(mine: Manager) -> None:
    its_id: str = mine.ok("GET", "/workspaces/default")["data"]["default_guardrail_id"]
    path, workspace = f"/guardrails/{its_id}", str(default_workspace_id(mine.account.pk))
    named = {"name": f"Workspace {workspace} Default", "workspace_id": workspace}
    for _ in range(2):
        mine.expect_refusal(404, "GET", path)
        mine.expect_refusal(404, "DELETE", path)
        mine.expect_refusal(404, "GET", f"{path}/assignments/keys")
        assert mine.ok("GET", "/guardrails")["total_count"] == 0
        stays = "The name of a workspace's default guardrail cannot be changed"
        assert mine.expect_refusal(400, "PATCH", path, {"name": "x"}) == stays

        data = mine.ok("PATCH", path, {"allowed_providers": ["p1"]})["data"]

        assert data["updated_at"] is None
        assert data == data | named | {"id": its_id, "allowed_providers": ["p1"]}
        assert mine.ok("GET", "/guardrails") == {"data": [data], "total_count": 1}
        assert mine.expect_refusal(400, "PATCH", path, {"name": "x"}) == stays
        again = mine.ok("PATCH", path, {"description": "d", "name": named["name"]})["data"]
        assert (again["allowed_providers"], again["description"]) == (["p1"], "d")
        assert mine.ok("DELETE", path) == {"deleted": True}
    assert mine.ok("PATCH", path, {"enforce_zdr": True})["data"]["allowed_providers"] is None


def test_a_change_that_another_one_overtakes_is_told_to_the_caller(
    mine: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/guardrails/{make_guardrail(mine)['id']}"

    def overtaken(guardrail: Guardrail) -> None:
        Guardrail.objects.filter(pk=guardrail.pk).update(revision=7)

    monkeypatch.setattr(guardrails, "_check_budget", overtaken)

    said = mine.expect_refusal(409, "PATCH", path, {"description": "late"})

    assert said == "Resource conflict. Please try again later."
    assert mine.ok("GET", path)["data"]["description"] is None


def flag(**changes: Any) -> dict[str, Any]:
    """A guardrail with one pattern of its own; `...` leaves a field out."""
    said = {"pattern": "x", "action": "flag"} | changes
    return {"content_filters": [{name: each for name, each in said.items() if each is not ...}]}


def builtin(**changes: Any) -> dict[str, Any]:
    return {"content_filter_builtins": [{"slug": "ssn", "action": "flag"} | changes]}


def daily(limit: Any) -> dict[str, Any]:
    return {"limit_usd": limit, "reset_interval": "daily"}


NOT_TO_HAVE: list[tuple[dict[str, Any], str]] = [
    ({"name": "n" * 201}, "name"),
    *((daily(limit), "limit_usd") for limit in (0, "5", True, 1e-10, 1e10)),
    ({"limit_usd": 5}, "reset_interval"),
    ({"reset_interval": "daily"}, "limit_usd"),
    ({"allowed_models": []}, "allowed_models"),
    ({"ignored_models": ["acme/none"]}, "ignored_models.0"),
    ({"allowed_providers": []}, "allowed_providers"),
    ({"ignored_providers": ["beta/turbo"]}, "ignored_providers.0"),
    ({"include_byok_in_budgets": None}, "include_byok_in_budgets"),
    (flag(pattern=""), "content_filters.0.pattern"),
    (flag(action=...), "content_filters.0.action"),
    (builtin(slug="secrets"), "content_filter_builtins.0.slug"),
    ({"allowed_data_regions": ["mars"]}, "allowed_data_regions.0"),
]


def test_what_no_guardrail_may_have(mine: Manager) -> None:
    answers = [mine.call("POST", "/guardrails", {"name": "g"} | said) for said, _ in NOT_TO_HAVE]
    assert mine.ok("GET", "/guardrails")["total_count"] == 0
    path = f"/guardrails/{make_guardrail(mine)['id']}"
    for (said, place), answer in zip(NOT_TO_HAVE, answers, strict=True):
        issues = answer[1]["error"]["metadata"]["issues"]
        assert (answer[0], [issue["path"] for issue in issues]) == (400, [place]), said
        if "limit_usd" not in place and place != "reset_interval":
            assert mine.call("PATCH", path, said) == answer


def test_a_pattern_that_no_filter_may_have(mine: Manager) -> None:
    for pattern, why in {
        "(?=a)b": "lookaround is not supported",
        "a(?!b)": "lookaround is not supported",
        "(?<=a)b": "lookaround is not supported",
        r"(a)\1": "backreferences are not supported",
        "(?P<n>a)(?P=n)": "backreferences are not supported",
        "(a+)+": "nested repetition of one thing, as in (a+)+",
        "(x?a*)*": "nested repetition of one thing, as in (a+)+",
        "(a{500}){500}": "too complex: at most 1000 repetitions, all levels together",
        "[a": "missing ]: [a",
    }.items():
        filters = [{"pattern": "fine", "action": "flag"}, {"pattern": pattern, "action": "block"}]
        status, answer = mine.call("POST", "/guardrails", {"name": "g", "content_filters": filters})
        metadata = answer["error"]["metadata"]
        text = f"Invalid regular expression: {why}"
        assert (status, metadata["reason"]) == (400, "invalid_regex_pattern")
        assert metadata["issues"] == [{"path": "content_filters.1.pattern", "message": text}]
        assert answer["error"]["message"] == f"content_filters.1.pattern: {text}"


def test_patterns_have_a_length() -> None:
    longest = read_guardrail_changes(flag(pattern="x" * 100_000))
    assert longest == flag(pattern="x" * 100_000, label=None)
    with pytest.raises(SchemaInvalid, match="<=100000 characters"):
        read_guardrail_changes(flag(pattern="x" * 100_001))


def test_what_may_take_long_is_compiled_beside_the_loop() -> None:
    for at_once in ([], ["x" * 500, "y" * 500]):
        assert is_quick_to_compile(at_once)
    for long in (["x" * 500, "y" * 501], ["a", "[^a]{1000}"], [r"\pL"], [r"\PL"]):
        assert not is_quick_to_compile(long), long
