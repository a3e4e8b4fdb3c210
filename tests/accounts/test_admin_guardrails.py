"""Guardrails, and accounts' own policies, as an operator changes them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from accounts import ports
from accounts.caller import read_caller
from accounts.models import (
    Account,
    ApiKey,
    AuditRecord,
    Guardrail,
    GuardrailKey,
    GuardrailMember,
    Membership,
    SpendCounter,
    Workspace,
)
from accounts.services.keys import create_key
from accounts.services.organization import admit_member, open_account, open_workspace
from accounts.spending import find_window_starts
from tests.accounts.higher import ReplacedApps
from tests.support.admin_pages import page

pytestmark = [pytest.mark.django_db, pytest.mark.both]
EMPTY = dict.fromkeys(
    [
        *("limit_usd", "reset_interval", "allowed_models", "ignored_models"),
        *("allowed_providers", "ignored_providers", "content_filters", "content_filter_builtins"),
    ],
    "",
)
# What a page with inlines posts beside its own fields.
INLINES = {
    f"{inline}-{part}": "0"
    for inline in ("key_assignments", "member_assignments", "workspaces", "memberships")
    for part in ("TOTAL_FORMS", "INITIAL_FORMS")
}
UNKNOWN = dict.fromkeys(
    [
        *("enforce_zdr_anthropic", "enforce_zdr_openai", "enforce_zdr_google"),
        *("enforce_zdr_xai", "enforce_zdr_other", "enable_paid_model_training"),
        *("enable_free_model_training", "enable_free_model_publication"),
    ],
    "unknown",
)


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The models known here are those of acme, in their version of January."""
    apps = ReplacedApps(
        find_model_slugs=lambda said: {
            name: f"{name}-01" for name in said if name.startswith("acme/")
        },
        find_provider_slugs=lambda said: {name: "alpha" for name in said if name == "Alpha"},
    )
    monkeypatch.setattr(ports, "_registered", [apps])


@pytest.fixture
def workspace(account: Account) -> Workspace:
    return open_workspace(account=account, slug="team")


@pytest.fixture
def key(account: Account, workspace: Workspace) -> ApiKey:
    return create_key(account=account, name="first", workspace=workspace)[0]


def add(client: Client, workspace: Workspace, **typed: Any) -> Any:
    said = {"workspace": workspace.pk, "name": "g", **UNKNOWN, **typed}
    return client.post(page(Guardrail, "add"), said)


def make_guardrail(client: Client, workspace: Workspace, **typed: Any) -> Guardrail:
    response = add(client, workspace, **typed)
    assert response.status_code == 302, response.text
    return Guardrail.objects.get(workspace=workspace)


def test_one_is_made_changed_and_deleted(admin_client: Client, workspace: Workspace) -> None:
    guardrail = make_guardrail(
        admin_client,
        workspace,
        limit_usd="5.5",
        reset_interval="daily",
        allowed_models="acme/small, acme/solo",
        allowed_providers="Alpha, Other",
        enforce_zdr_xai="true",
        enable_paid_model_training="false",
        content_filters='[{"pattern": "a+", "action": "block"}]',
        content_filter_builtins='[{"slug": "ssn", "action": "redact"}]',
        allowed_data_regions=["europe"],
    )

    kept = {
        "limit_nano": 5_500_000_000,
        "allowed_models": ["acme/small-01", "acme/solo-01"],
        "allowed_providers": ["alpha", "other"],
        "enforce_zdr_xai": True,
        "enforce_zdr_openai": None,
        "enable_paid_model_training": False,
        "content_filters": [{"pattern": "a+", "action": "block", "label": None}],
        "allowed_data_regions": ["europe"],
    }
    assert Guardrail.objects.values(*kept).get() == kept
    assert guardrail.content_filter_builtins[0]["scan_scope"] == "all_messages"

    changed = admin_client.post(
        page(Guardrail, "change", guardrail.pk), {"name": "new", **UNKNOWN, **EMPTY, **INLINES}
    )
    assert changed.status_code == 302, changed.text
    guardrail = Guardrail.objects.get()
    emptied = (guardrail.limit_nano, guardrail.allowed_models, guardrail.content_filters)
    assert (guardrail.name, *emptied) == ("new", None, None, None)

    gone = admin_client.post(page(Guardrail, "delete", guardrail.pk), {"post": "yes"})
    assert gone.status_code == 302
    assert not Guardrail.objects.exists()
    records = AuditRecord.objects.filter(object_type="guardrail").order_by("id")
    assert [each.action for each in records] == ["created", "updated", "deleted"]
    assert {str(each.operator) for each in records} == {"admin"}


def test_what_no_guardrail_may_have(admin_client: Client, workspace: Workspace) -> None:
    for typed, told in (
        ({"limit_usd": "5"}, "come together"),
        ({"limit_usd": "0", "reset_interval": "daily"}, "more than nothing"),
        ({"allowed_models": "nope/none"}, "No model has this name: nope/none"),
        ({"content_filters": '[{"pattern": "(?=a)", "action": "block"}]'}, "lookaround"),
        ({"content_filter_builtins": '["ssn"]'}, "content_filter_builtins.0"),
    ):
        response = add(admin_client, workspace, **typed)
        assert response.status_code == 200
        assert told in response.text
    assert not Guardrail.objects.exists()


def test_keys_and_members_are_assigned_and_taken_away_within_an_account(
    admin_client: Client, workspace: Workspace, account: Account, key: ApiKey
) -> None:
    guardrail = make_guardrail(admin_client, workspace)
    admit_member(account=account, username="ada", role=Membership.Role.MEMBER)
    member = Membership.objects.get(account=account, user__username="ada")
    holders = ((GuardrailKey, "api_key", key), (GuardrailMember, "membership", member))
    other = open_account(name="other")
    theirs, _ = create_key(account=other, name="t", workspace=other.workspaces.get())
    management, _ = create_key(account=account, name="m", workspace=None)

    for wrong, told in ((theirs, "two accounts"), (management, "Inference keys only")):
        typed = {"guardrail": guardrail.pk, "api_key": wrong.pk}
        assert told in admin_client.post(page(GuardrailKey, "add"), typed).text
    assert not GuardrailKey.objects.exists()
    for model, field, holder in holders:
        typed = {"guardrail": guardrail.pk, field: holder.pk}
        response = admin_client.post(page(model, "add"), typed)
        assert response.status_code == 302, response.text
        row = model.objects.get()
        assert (row.guardrail, str(row.assigned_by)) == (guardrail, "admin")
        assert admin_client.get(page(model, "change", row.pk)).status_code == 200
        assert admin_client.get(page(model, "changelist")).status_code == 200

    shown = admin_client.get(page(Guardrail, "change", guardrail.pk)).text
    assert "first" in shown
    assert "ada" in shown
    for model, _, _ in holders:
        admin_client.post(page(model, "delete", model.objects.get().pk), {"post": "yes"})
        assert not model.objects.exists()
    actions = AuditRecord.objects.filter(object_type="guardrail").order_by("pk")
    assert [each.action for each in actions] == [
        *("created", "keys assigned", "members assigned", "keys unassigned", "members unassigned")
    ]


def test_what_holders_spent_is_seen(
    admin_client: Client, workspace: Workspace, key: ApiKey
) -> None:
    guardrail = make_guardrail(admin_client, workspace, limit_usd="5", reset_interval="daily")
    SpendCounter.objects.create(
        scope="guardrail",
        scope_id=f"{guardrail.pk.hex}:k:{key.pk}",
        window="day",
        window_start=find_window_starts(datetime.now(UTC))["day"],
        spent_nano=1_250_000_000,
    )

    shown = admin_client.get(page(Guardrail, "change", guardrail.pk)).text

    assert f"key {key.pk}: 1.25" in shown
    listed = admin_client.get(page(Guardrail, "changelist")).text
    assert "5" in listed


def test_the_account_s_own_policy(admin_client: Client, account: Account, key: ApiKey) -> None:
    Account.objects.update(total_credits_nano=7)
    typed = {"name": "acme", "allowed_models": "acme/small", "ignored_providers": "beta"}
    typed |= {"allowed_providers": " Alpha,Other ,\nAlpha,"}
    typed |= {"data_collection": "deny", "zdr": "on"} | INLINES

    response = admin_client.post(page(Account, "change", account.pk), typed)

    assert response.status_code == 302, response.text
    caller = read_caller(key.hash)
    assert caller is not None
    assert caller.guard is not None
    assert caller.guard.rules.allowed_models == frozenset({"acme/small-01"})
    assert caller.guard.rules.denies_collection
    assert caller.ignored_providers == ("beta",)
    assert not caller.regional_inference
    account.refresh_from_db()
    assert (account.allowed_providers, account.total_credits_nano) == (["Alpha", "Other"], 7)
    shown = admin_client.get(page(Account, "change", account.pk)).text
    assert ">\nAlpha, Other</textarea>" in shown
    record = AuditRecord.objects.get(object_type="account")
    assert record.before is not None
    assert record.before["data_collection"] == "allow"
    typed["ignored_providers"] = " , "
    admin_client.post(page(Account, "change", account.pk), typed)
    account.refresh_from_db()
    assert account.ignored_providers is None, "an emptied list"
    typed["allowed_models"] = "nope"
    refused = admin_client.post(page(Account, "change", account.pk), typed)
    assert "No model has this name" in refused.text
