"""Workspaces as an operator changes them."""

from typing import Any

import pytest
from django.test import Client

from accounts import known_models
from accounts.models import Account, ApiKey, AuditRecord, Membership, Workspace, WorkspaceMembership
from accounts.services.accounts import admit_member, open_account, open_workspace
from accounts.services.keys import create_key
from tests.support.operations import page

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The models known here are those of acme."""
    monkeypatch.setattr(known_models, "_checks", [lambda name: name.startswith("acme/")])


@pytest.fixture
def account(db: None) -> Account:
    return open_account(name="acme")


@pytest.fixture
def workspace(account: Account) -> Workspace:
    return open_workspace(account=account, slug="team")


@pytest.fixture
def key(account: Account, workspace: Workspace) -> ApiKey:
    return create_key(account=account, name="first", workspace=workspace)[0]


def change(client: Client, workspace: Workspace, **changes: Any) -> Any:
    typed = {"name": "Team", "slug": "team", "io_logging_sampling_rate": "1"}
    typed |= {"budgets-TOTAL_FORMS": "0", "budgets-INITIAL_FORMS": "0"}
    return client.post(page(Workspace, "change", workspace.pk), typed | changes)


def test_every_setting_can_be_changed(
    admin_client: Client, workspace: Workspace, key: ApiKey
) -> None:
    response = change(
        admin_client,
        workspace,
        description="Ours",
        default_text_model="acme/small",
        default_image_model="acme/paint",
        default_provider_sort="price",
        disabled_server_tools=["router:bash", "router:shell"],
        io_logging_sampling_rate="0.25",
        io_logging_api_key_ids=f" {key.pk},",
        is_observability_io_logging_enabled="on",
        is_observability_broadcast_enabled="on",
        is_data_discount_logging_enabled="on",
    )

    assert response.status_code == 302, response.text
    workspace.refresh_from_db()
    assert workspace.description == "Ours"
    assert workspace.default_text_model == "acme/small"
    assert workspace.default_image_model == "acme/paint"
    assert workspace.disabled_server_tools == ["router:bash", "router:shell"]
    assert workspace.io_logging_sampling_rate == 0.25
    assert workspace.io_logging_api_key_ids == [key.pk]
    assert workspace.is_observability_io_logging_enabled
    assert workspace.is_observability_broadcast_enabled
    assert workspace.is_data_discount_logging_enabled
    assert workspace.updated_at is not None
    record = AuditRecord.objects.get(object_id=str(workspace.pk))
    assert (record.action, str(record.operator)) == ("updated", "admin")
    assert record.before is not None
    assert record.after is not None
    assert record.before["io_logging_sampling_rate"] == 1
    assert record.after["io_logging_sampling_rate"] == 0.25


def test_what_is_emptied_is_null(admin_client: Client, workspace: Workspace, key: ApiKey) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(
        description="d", disabled_server_tools=["router:bash"], io_logging_api_key_ids=[key.pk]
    )
    workspace.refresh_from_db()

    emptied = {"description": "", "io_logging_api_key_ids": ""}
    assert change(admin_client, workspace, **emptied).status_code == 302

    workspace.refresh_from_db()
    assert workspace.description is None
    assert workspace.disabled_server_tools is None
    assert workspace.io_logging_api_key_ids is None


def test_nothing_changed_is_no_change(admin_client: Client, workspace: Workspace) -> None:
    assert change(admin_client, workspace).status_code == 302

    workspace.refresh_from_db()
    assert workspace.updated_at is None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"slug": "Not_One"}, "Lowercase letters and digits"),
        ({"default_text_model": "nope/none"}, "No model has this name."),
        ({"default_image_model": "nope/none"}, "No model has this name."),
        ({"disabled_server_tools": ["router:nope"]}, "Select a valid choice"),
        ({"io_logging_sampling_rate": "0"}, "greater than or equal to 0.0001"),
        ({"io_logging_api_key_ids": "one"}, "Whole numbers, with commas between."),
        ({"io_logging_api_key_ids": "9" * 18}, "no key of this workspace"),
        ({"io_logging_api_key_ids": "9" * 19}, "Whole numbers, with commas between."),
    ],
)
def test_what_cannot_be_is_refused(
    admin_client: Client, workspace: Workspace, changes: dict[str, Any], text: str
) -> None:
    response = change(admin_client, workspace, **changes)

    assert response.status_code == 200
    assert text in response.text


def test_a_new_one_is_made(admin_client: Client, account: Account) -> None:
    typed = {"account": str(account.pk), "name": "New", "slug": "new"}
    typed |= {"description": "", "io_logging_sampling_rate": "1"}

    response = admin_client.post(page(Workspace, "add"), typed)

    assert response.status_code == 302, response.text
    made = Workspace.objects.get(slug="new")
    assert (made.description, made.io_logging_sampling_rate) == (None, 1)
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
    assert "Acme/team was deleted." in chosen()
    assert [each.slug for each in account.workspaces.all()] == ["default"]


def test_a_member_of_another_account_is_none_here(
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
