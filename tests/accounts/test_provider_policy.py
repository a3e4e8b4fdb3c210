"""Which providers an account's requests may go to, and the order a workspace prefers."""

from typing import Any

import pytest
from django.db import IntegrityError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.caller import read_caller
from accounts.models import Account, ApiKey, Workspace
from accounts.services.keys import create_key
from tests.support.operations import page

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def wishes(key: ApiKey) -> Any:
    caller = read_caller(key.hash)
    assert caller is not None
    return caller.allowed_providers, caller.ignored_providers, caller.default_provider_sort


def test_nothing_said_is_nothing_asked(key: ApiKey) -> None:
    assert wishes(key) == (None, (), None)


def test_what_account_and_workspace_say_comes_with_the_key(
    account: Account, workspace: Workspace, key: ApiKey
) -> None:
    Account.objects.update(allowed_providers=["alpha", "Beta"], ignored_providers=["gamma"])
    Workspace.objects.update(default_provider_sort="latency")

    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert wishes(key) == (("alpha", "Beta"), ("gamma",), "latency")
    assert len(queries) == 1


def test_an_empty_list_allows_every_provider(key: ApiKey) -> None:
    Account.objects.update(allowed_providers=[], ignored_providers=[])

    assert wishes(key) == (None, (), None)


def test_a_management_key_has_no_workspace_to_ask(account: Account) -> None:
    key, _ = create_key(account=account, name="manager", workspace=None)

    assert wishes(key) == (None, (), None)


def test_a_sort_nobody_knows_is_refused_by_the_database(workspace: Workspace) -> None:
    with pytest.raises(IntegrityError, match=r"(?i)check constraint"):
        Workspace.objects.update(default_provider_sort="luck")


def test_an_operator_types_the_lists_with_commas(admin_client: Client, account: Account) -> None:
    typed = {"name": "acme", "allowed_providers": " alpha,Beta ,\nalpha,", "ignored_providers": ""}

    response = admin_client.post(page(Account, "change", account.pk), typed | empty_inlines())

    assert response.status_code == 302, response.text
    account.refresh_from_db()
    assert account.allowed_providers == ["alpha", "Beta"]
    assert account.ignored_providers is None
    shown = admin_client.get(page(Account, "change", account.pk)).text
    assert ">\nalpha, Beta</textarea>" in shown


def test_an_emptied_list_is_null_again(admin_client: Client, account: Account) -> None:
    Account.objects.update(allowed_providers=["alpha"], total_credits_nano=7)
    typed = {"name": "acme", "allowed_providers": " , ", "ignored_providers": "beta"}

    admin_client.post(page(Account, "change", account.pk), typed | empty_inlines())

    account.refresh_from_db()
    assert (account.allowed_providers, account.ignored_providers) == (None, ["beta"])
    assert account.total_credits_nano == 7


def test_an_operator_chooses_the_sort_of_a_workspace(
    admin_client: Client, account: Account, workspace: Workspace
) -> None:
    typed = {"name": "Default", "slug": "default", "description": "", "default_text_model": ""}
    typed["io_logging_sampling_rate"] = "1"
    typed |= {"budgets-TOTAL_FORMS": "0", "budgets-INITIAL_FORMS": "0"}

    for chosen, kept in (("throughput", "throughput"), ("", None)):
        typed["default_provider_sort"] = chosen
        response = admin_client.post(page(Workspace, "change", workspace.pk), typed)
        assert response.status_code == 302, response.text
        workspace.refresh_from_db()
        assert workspace.default_provider_sort == kept
    typed["default_provider_sort"] = "luck"
    refused = admin_client.post(page(Workspace, "change", workspace.pk), typed)
    assert "Select a valid choice" in refused.text


def empty_inlines() -> dict[str, str]:
    """The hidden fields of the read-only tables on an account's page."""
    return {
        f"{prefix}-{name}_FORMS": "0"
        for prefix in ("workspaces", "memberships")
        for name in ("TOTAL", "INITIAL")
    }
