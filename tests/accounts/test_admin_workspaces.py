"""Workspaces and their budgets as an operator changes them."""

from typing import Any

import pytest
from django.test import Client

from accounts import ports
from accounts.models import (
    Account,
    ApiKey,
    AuditRecord,
    AuthorizationCode,
    Membership,
    SpendCounter,
    User,
    Workspace,
    WorkspaceBudget,
    WorkspaceMembership,
)
from accounts.services.keys import create_key
from accounts.services.oauth import AppRequest, authorize_app
from accounts.services.organization import (
    LastAdmin,
    admit_member,
    change_role,
    open_account,
    open_workspace,
)
from accounts.services.records import SYSTEM, Actor
from accounts.services.workspace_budgets import set_budget
from tests.accounts.higher import ReplacedApps
from tests.support.admin_pages import page

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The models known here are those of acme."""
    apps = ReplacedApps(is_known_model=lambda name: name.startswith("acme/"))
    monkeypatch.setattr(ports, "_registered", [apps])


@pytest.fixture
def workspace(account: Account) -> Workspace:
    return open_workspace(account=account, slug="team")


@pytest.fixture
def key(account: Account, workspace: Workspace) -> ApiKey:
    return create_key(account=account, name="first", workspace=workspace)[0]


def change(client: Client, workspace: Workspace, **changes: Any) -> Any:
    typed = {"name": "Team", "slug": "team", "io_logging_sampling_rate": "1", "queue_weight": "1"}
    typed |= {"budgets-TOTAL_FORMS": "0", "budgets-INITIAL_FORMS": "0"}
    return client.post(page(Workspace, "change", workspace.pk), typed | changes)


@pytest.mark.parametrize(
    ("action", "form"), [("change", {"role": "viewer"}), ("delete", {"post": "yes"})]
)
def test_who_may_make_no_keys_there_any_more_loses_them(
    admin_client: Client, account: Account, workspace: Workspace, action: str, form: Any
) -> None:
    ada = admit_member(account=account, username="ada", role=Membership.Role.MEMBER)
    membership = Membership.objects.get(user=ada)
    row = WorkspaceMembership.objects.create(
        workspace=workspace, membership=membership, role="member", own_role="member"
    )
    default = account.workspaces.get(is_default=True)
    for place in (workspace, default):
        create_key(account=account, name=place.slug, workspace=place, creator=ada)

    assert admin_client.post(page(WorkspaceMembership, action, row.pk), form).status_code == 302

    disabled = ApiKey.objects.filter(creator=ada, disabled=True)
    assert list(disabled.values_list("workspace", flat=True)) == [workspace.pk]


@pytest.mark.parametrize("is_in_admin", [False, True])
def test_a_lower_role_in_the_account_disables_the_keys_that_it_does_not_allow(
    admin_client: Client, account: Account, workspace: Workspace, is_in_admin: bool
) -> None:
    ada = admit_member(account=account, username="ada", role=Membership.Role.ADMIN)
    bob = admit_member(account=account, username="bob", role=Membership.Role.ADMIN)
    for place in (workspace, account.workspaces.get(is_default=True)):
        create_key(account=account, name=place.slug, workspace=place, creator=ada)
        by = Actor(operator_id=ada.pk)
        authorize_app(asked=AppRequest(), workspace=place, creator=ada, by=by)

    role = Membership.Role.MEMBER.value
    if is_in_admin:
        row = Membership.objects.get(user=ada)
        answer = admin_client.post(page(Membership, "change", row.pk), {"role": role})
        assert answer.status_code == 302
        last = Membership.objects.get(user=bob)
        answer = admin_client.post(page(Membership, "change", last.pk), {"role": role})
        assert LastAdmin.message in answer.text
    else:
        change_role(account_id=account.pk, user_id=ada.public_id, role=role, by=SYSTEM)

    disabled = ApiKey.objects.filter(creator=ada, disabled=True)
    spent = AuthorizationCode.objects.filter(creator=ada, used_at__isnull=False)
    for rows in (disabled, spent):
        assert list(rows.values_list("workspace", flat=True)) == [workspace.pk]
    assert AuditRecord.objects.filter(object_type="member", action="updated").count() == 1


def test_who_is_taken_out_leaves_with_their_keys_and_the_last_admin_stays(
    admin_client: Client, account: Account
) -> None:
    place = account.workspaces.get(is_default=True)
    ada, bob = (
        admit_member(account=account, username=name, role=Membership.Role.ADMIN)
        for name in ("ada", "bob")
    )
    for person in (ada, bob):
        create_key(account=account, name="k", workspace=place, creator=person)

    def take_out(person: User) -> str:
        row = Membership.objects.get(user=person)
        typed = {"post": "yes"}
        return admin_client.post(page(Membership, "delete", row.pk), typed, follow=True).text

    assert LastAdmin.message not in take_out(ada)
    assert LastAdmin.message in take_out(bob)

    assert [each.user for each in account.memberships.all()] == [bob]
    assert [key.creator for key in ApiKey.objects.filter(disabled=True)] == [ada]
    record = AuditRecord.objects.get(object_type="member")
    assert (record.action, record.object_id) == ("removed", ada.public_id)


def test_every_setting_can_be_changed_and_what_is_emptied_is_null(
    admin_client: Client, workspace: Workspace, key: ApiKey
) -> None:
    assert change(admin_client, workspace).status_code == 302
    workspace.refresh_from_db()
    assert workspace.updated_at is None, "nothing changed"
    switches = {
        f"is_{name}_enabled": True
        for name in ("observability_io_logging", "observability_broadcast", "data_discount_logging")
    }
    words = {
        "description": "Ours",
        "default_text_model": "acme/small",
        "default_image_model": "acme/paint",
        "default_provider_sort": "price",
        "hedge": True,
        "response_cache": True,
        "queue_weight": 7,
        "disabled_server_tools": ["router:bash", "router:shell"],
    }
    typed = words | {"io_logging_sampling_rate": "0.25", "io_logging_api_key_ids": f" {key.pk},"}

    response = change(admin_client, workspace, **typed, **dict.fromkeys(switches, "on"))

    assert response.status_code == 302, response.text
    kept = {**words, **switches, "io_logging_sampling_rate": 0.25}
    kept["io_logging_api_key_ids"] = [key.pk]
    mine = Workspace.objects.filter(pk=workspace.pk)
    assert mine.values(*kept).get() == kept
    record = AuditRecord.objects.get(object_id=str(workspace.pk))
    assert (record.action, str(record.operator)) == ("updated", "admin")
    assert (record.before or {})["io_logging_sampling_rate"] == 1
    assert (record.after or {})["io_logging_sampling_rate"] == 0.25

    typed_budgets = '[{"tag": "team=*", "limit_usd": 0.5, "reset_interval": "daily"}]'
    lists = {"budgets_of_tags": typed_budgets, "member_key_limits": '{"limit": 2}'}
    assert change(admin_client, workspace, **lists).status_code == 302
    stored = {"tag": "team=*", "interval": "daily", "limit_nano": 500_000_000}
    workspace.refresh_from_db()
    assert workspace.tag_budgets == [stored]
    assert (workspace.member_key_limits or {})["limit_nano"] == 2 * USD
    shown = admin_client.get(page(Workspace, "change", workspace.pk)).text
    assert "&quot;limit_usd&quot;: 0.5" in shown
    assert "&quot;limit&quot;: 2" in shown

    texts = ("description", "io_logging_api_key_ids", "default_provider_sort", "member_key_limits")
    emptied = dict.fromkeys(texts, "")
    assert change(admin_client, workspace, **emptied).status_code == 302
    names = [*emptied, "disabled_server_tools", "tag_budgets"]
    assert mine.values(*names).get() == dict.fromkeys(names)


def test_what_cannot_be_is_refused(admin_client: Client, workspace: Workspace) -> None:
    for field, typed, text in (
        ("slug", "Not_One", "Lowercase letters and digits"),
        ("default_text_model", "nope/none", "No model has this name."),
        ("io_logging_api_key_ids", "one", "Whole numbers, with commas between."),
        ("io_logging_api_key_ids", "9" * 18, "no key of this workspace"),
        ("io_logging_api_key_ids", "9" * 19, "Whole numbers, with commas between."),
        ("budgets_of_tags", '[{"tag": "team"}]', "budgets.0.tag"),
        ("member_key_limits", '{"limit": -1}', "limit: Too small"),
    ):
        response = change(admin_client, workspace, **{field: typed})
        assert response.status_code == 200
        assert text in response.text, field


def test_a_new_one_is_made(admin_client: Client, account: Account) -> None:
    typed = {"account": str(account.pk), "name": "New", "slug": "new"}
    typed |= {"description": "", "io_logging_sampling_rate": "1", "queue_weight": "2"}

    response = admin_client.post(page(Workspace, "add"), typed)

    assert response.status_code == 302, response.text
    made = Workspace.objects.get(slug="new")
    assert (made.description, made.io_logging_sampling_rate, made.queue_weight) == (None, 1, 2)
    assert AuditRecord.objects.get(object_id=str(made.pk)).action == "created"
    taken = "The account has a workspace of this slug."
    assert taken in admin_client.post(page(Workspace, "add"), typed).text
    assert taken in change(admin_client, made, slug="default").text


def test_deleting_follows_the_rules_of_the_api(
    admin_client: Client, account: Account, workspace: Workspace, key: ApiKey
) -> None:
    def chosen() -> str:
        ids = [str(pk) for pk in account.workspaces.values_list("pk", flat=True)]
        typed = {"action": "take_out_of_use", "_selected_action": ids}
        return admin_client.post(page(Workspace), typed, follow=True).text

    said = chosen()
    assert "Workspace has active API keys." in said
    assert "Deleting the default workspace is not supported" in said
    ApiKey.objects.update(disabled=True)
    assert "acme/team was deleted." in chosen()
    assert [each.slug for each in account.workspaces.all()] == ["default"]


def test_members_of_others_are_none(
    admin_client: Client, account: Account, workspace: Workspace
) -> None:
    ada = admit_member(account=account, username="ada", role=Membership.Role.MEMBER)
    other = open_account(name="other")
    stranger = admit_member(account=other, username="bob", role=Membership.Role.MEMBER)

    def add(user: Any, place: Workspace) -> Any:
        membership = Membership.objects.get(user=user)
        typed = {"workspace": str(place.pk), "membership": membership.pk, "role": "member"}
        return admin_client.post(page(WorkspaceMembership, "add"), typed)

    assert "belongs to another account" in add(stranger, workspace).text
    assert "default workspace" in add(ada, account.workspaces.get(is_default=True)).text
    assert add(ada, workspace).status_code == 302
    row = WorkspaceMembership.objects.get()
    shown = admin_client.get(page(WorkspaceMembership, "change", row.pk))
    assert shown.status_code == 200
    typed = {"role": "admin"}
    response = admin_client.post(page(WorkspaceMembership, "change", row.pk), typed)
    assert response.status_code == 302, response.text


USD = 1_000_000_000


def budget(workspace: Workspace, interval: str, usd: int) -> WorkspaceBudget:
    where: dict[str, Any] = {"account_id": workspace.account_id, "reference": "team", "by": SYSTEM}
    return set_budget(**where, interval=interval, limit_nano=usd * USD, include_byok=None)[1]


def add_budget(client: Client, workspace: Workspace, **typed: str) -> Any:
    usual = {"workspace": str(workspace.pk), "interval": "weekly", "limit_usd": "12.50"}
    return client.post(page(WorkspaceBudget, "add"), usual | typed)


def test_a_budget_is_set_with_a_counter_and_a_record(
    admin_client: Client, admin_user: User, workspace: Workspace
) -> None:
    assert add_budget(admin_client, workspace, include_byok_in_budgets="on").status_code == 302

    row = WorkspaceBudget.objects.get()
    assert (row.interval, row.limit_nano) == ("weekly", 12_500_000_000)
    workspace.refresh_from_db()
    assert workspace.include_byok_in_budgets
    record = AuditRecord.objects.get(object_type="workspace_budget")
    assert record.after is not None
    assert (record.operator_id, record.after["limit_nano"]) == (admin_user.pk, row.limit_nano)


def test_a_budget_that_cannot_be_is_refused(admin_client: Client, workspace: Workspace) -> None:
    budget(workspace, "monthly", 500)
    for field, typed, text in (
        ("interval", "monthly", "The workspace has a budget of this interval."),
        ("limit_usd", "500", "monthly ($500) must exceed weekly ($500)"),
    ):
        assert text in add_budget(admin_client, workspace, **{field: typed}).text
    assert WorkspaceBudget.objects.count() == 1


def test_it_is_changed_and_taken_away_in_place(admin_client: Client, workspace: Workspace) -> None:
    row = budget(workspace, "daily", 5)
    path = page(WorkspaceBudget, "change", row.pk)

    assert 'value="5"' in admin_client.get(path).text
    assert admin_client.post(path, {"limit_usd": "6"}).status_code == 302

    row.refresh_from_db()
    assert (row.limit_nano, row.interval) == (6 * USD, "daily")
    assert SpendCounter.objects.get().limit_nano == 6 * USD
    admin_client.post(page(WorkspaceBudget, "delete", row.pk), {"post": "yes"})
    assert not WorkspaceBudget.objects.exists()
    assert SpendCounter.objects.get().limit_nano is None
    last = AuditRecord.objects.filter(object_type="workspace_budget").latest("pk")
    assert last.action == "deleted"
