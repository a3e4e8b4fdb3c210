"""Every page of the admin: it renders, it costs no query per row, it shows no secret."""

from collections.abc import Callable
from typing import Any, TypeAlias
from urllib.parse import urlencode

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext

from accounts.models import Account, Membership, User, Workspace
from gateway.theme.settings import UNFOLD
from routing.catalogue.files import parse
from routing.catalogue.load import load_catalogue
from routing.catalogue.models import Endpoint, Model, Provider
from tests.support.admin_pages import operated_models, operator, page, pages, read_form
from tests.support.catalogue import CONFORMANCE
from tests.support.operations import CREDENTIAL, fill
from tests.support.operations import endpoint as add_endpoint

pytestmark = [pytest.mark.django_db, pytest.mark.thorough]


Choose: TypeAlias = Callable[..., ChangeList]


@pytest.fixture
def choose(admin_user: User, rf: RequestFactory) -> Choose:
    """The rows of a model's list under a query string, without their page."""

    def find(model: type[Any], query: str = "") -> ChangeList:
        request = rf.get(page(model) + query)
        request.user = admin_user
        rows = admin.site._registry[model].get_changelist_instance(request)
        list(rows.result_list)
        return rows

    return find


def queries(client: Client, path: str) -> int:
    ContentType.objects.get_for_models(*apps.get_models())  # They are looked up once per process.
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path).status_code == 200, path
    return len(captured)


def test_everything_in_the_database_has_a_page() -> None:
    apps_of_ours = ("accounts", "routing", "interns")
    ours = {model for app in apps_of_ours for model in apps.get_app_config(app).get_models()}
    assert set(operated_models()) == ours


def test_every_list_is_in_the_sidebar(admin_client: Client, settings: Any) -> None:
    settings.UNFOLD = UNFOLD
    text = admin_client.get(page(Account)).content.decode()
    assert [model for model in operated_models() if page(model) not in text] == []


@pytest.mark.both
def test_no_list_costs_a_query_per_row(admin_client: Client) -> None:
    fill(2)
    admin_client.get(page(Account))  # The session notes its use.
    few = {model: queries(admin_client, page(model)) for model in operated_models()}
    fill(2)
    many = {model: queries(admin_client, page(model)) for model in operated_models()}
    assert many == few


def test_rows_on_another_rows_page_cost_no_query_each(admin_client: Client) -> None:
    fill(1)
    account, user = Account.objects.get(), User.objects.get(username__startswith="user-")
    model, provider = Model.objects.get(), Provider.objects.get()
    paths = [page(type(row), "change", row.pk) for row in (account, user, model)]
    admin_client.get(paths[0])  # The session notes its use.
    few = [queries(admin_client, path) for path in paths]
    for number in range(10):
        Workspace.objects.create(account=account, name="More", slug=f"more-{number}")
        more = User.objects.create(username=f"more-{number}")
        Membership.objects.create(account=account, user=more)
        other = Account.objects.create(name=f"other {number}")
        Membership.objects.create(account=other, user=user)
        add_endpoint(model, provider, tag=f"{provider.slug}/{number}")
    assert [queries(admin_client, path) for path in paths] == few


def looking(username: str = "operator", permissions: str = "") -> Client:
    client = Client()
    client.force_login(operator(username, permissions=permissions))
    return client


@pytest.mark.nightly
@pytest.mark.parametrize("permissions", [None, "", "view_"])
def test_no_page_shows_a_secret(admin_client: Client, permissions: str | None) -> None:
    keys = fill(2)
    sealed = [str(text) for text in Provider.objects.values_list("credential_sealed", flat=True)]
    client = admin_client if permissions is None else looking(permissions=permissions)
    for path in pages():
        response = client.get(path)
        text = response.content.decode()
        assert response.status_code in {200, 403}, path
        for secret in (CREDENTIAL, "canary-data-key", "canary-sealed-secret", *keys, *sealed):
            assert secret not in text, path


def test_whoever_may_look_changes_no_row(client: Client) -> None:
    fill(1)
    viewer, nobody = looking(permissions="view_"), looking("without rights")
    for model in operated_models():
        row = model._default_manager.first()
        assert row is not None, model
        assert viewer.post(page(model, "change", row.pk), {}).status_code == 403
        assert viewer.get(page(model, "delete", row.pk)).status_code == 403
    for path in pages()[1:]:
        assert client.get(path).status_code == 302, path
        assert nobody.get(path).status_code == 403, path


@pytest.mark.both
@pytest.mark.parametrize("term", ["key", "gen-1", "%", "'", "00000000-0000-0000-0000-000000000000"])
def test_every_search_takes_any_words(choose: Choose, term: str) -> None:
    fill(1)
    for model in operated_models():
        if admin.site._registry[model].search_fields:
            choose(model, f"?{urlencode({'q': term})}")


def test_every_filter_can_be_chosen(choose: Choose) -> None:
    fill(2)
    for model in operated_models():
        shown = choose(model)
        for spec in shown.filter_specs:
            for choice in spec.choices(shown):
                # A filter that cannot be chosen is an error, or a redirect to what can be.
                choose(model, str(choice["query_string"]))


def read_rows(model: type[Any]) -> list[dict[str, Any]]:
    rows = model._default_manager.order_by("pk").values()
    # An intern takes over the budget that its key has by now.
    moved = {"updated_at", "budget_nano", "budget_reset"}
    return [{name: value for name, value in row.items() if name not in moved} for row in rows]


@pytest.mark.both
def test_every_page_that_may_be_saved_can_be_saved_as_it_stands(admin_client: Client) -> None:
    assert load_catalogue(parse(CONFORMANCE.read_text(encoding="utf-8")))["errors"] == []
    fill(1)
    for model in operated_models():
        before = read_rows(model)
        for row in model._default_manager.all():
            path = page(model, "change", row.pk)
            shown = admin_client.get(path)
            if "adminform" not in shown.context or not shown.context["has_change_permission"]:
                continue
            answer = admin_client.post(path, read_form(shown))
            assert answer.status_code == 302, (model, answer.context["adminform"].form.errors)
        assert read_rows(model) == before, model


def test_an_endpoint_without_a_usable_price_still_shows(admin_client: Client) -> None:
    fill(1)
    Endpoint.objects.update(pricing={"prompt": "dear"})
    assert b"unusable" in admin_client.get(page(Endpoint)).content
