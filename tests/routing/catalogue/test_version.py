from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import Client

from routing.catalogue.models import Endpoint, Model, ModelAlias, Provider
from routing.catalogue.version import current_version
from tests.support.admin_pages import page
from tests.support.operations import fill

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def make_provider(slug: str = "p") -> Provider:
    return Provider(slug=slug, name=slug, base_url="http://127.0.0.1:9/v1")


def make_model(slug: str = "a/m") -> Model:
    return Model(slug=slug, canonical_slug=slug, name=slug, created=1)


def other_model() -> Model:
    """A model that is there, so that making it moves no version."""
    return Model.objects.get(slug="a/other")


@pytest.fixture
def endpoint() -> Endpoint:
    provider, model = make_provider(), make_model()
    provider.save()
    model.save()
    make_model("a/other").save()
    ModelAlias.objects.create(alias="a/alias", model=model)
    return Endpoint.objects.create(model=model, provider=provider, tag="p", upstream_model="m")


CHANGES: dict[str, Callable[[Endpoint], Any]] = {
    "save": lambda row: row.save(),
    "save of some fields": lambda row: row.save(update_fields=["status"]),
    "create": lambda row: make_provider("q").save(),
    "create by manager": lambda row: Provider.objects.create(slug="q", base_url="http://h/v1"),
    "get_or_create": lambda row: Provider.objects.get_or_create(slug="q"),
    "update_or_create": lambda row: Provider.objects.update_or_create({"name": "o"}, slug="p"),
    "update": lambda row: Endpoint.objects.update(status=-5),
    "update of a filter": lambda row: Endpoint.objects.filter(pk=row.pk).update(status=-5),
    "update through a relation": lambda row: row.model.endpoints.update(status=-5),
    "bulk_create": lambda row: Provider.objects.bulk_create([make_provider("q")]),
    "bulk_update": lambda row: Endpoint.objects.bulk_update([row], ["status"]),
    "delete": lambda row: row.delete(),
    "delete of a filter": lambda row: Endpoint.objects.filter(pk=row.pk).delete(),
    "delete with what hangs on it": lambda row: row.model.delete(),
    "alias": lambda row: ModelAlias.objects.update(alias="a/other"),
    "provider": lambda row: Provider.objects.update(status=-5),
    "model": lambda row: Model.objects.update(visible=False),
    "move to another model": lambda row: other_model().endpoints.add(row),
    "set of a relation": lambda row: other_model().aliases.set(ModelAlias.objects.all()),
    "create through a relation": lambda row: row.model.aliases.create(alias="a/second"),
    "update by the base manager": lambda row: Endpoint._base_manager.update(status=-5),
    "asynchronous update": lambda row: async_to_sync(Endpoint.objects.all().aupdate)(status=-5),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_moves_the_version_and_rolled_back_takes_it_back(
    endpoint: Endpoint, change: str
) -> None:
    before = current_version()

    with transaction.atomic():
        CHANGES[change](endpoint)
        assert current_version() > before
        transaction.set_rollback(True)

    assert current_version() == before


def test_the_first_change_of_all_makes_the_version_one() -> None:
    assert current_version() == 0

    make_provider().save()

    assert current_version() == 1


def test_a_whole_table_is_not_deleted_through_the_manager() -> None:
    assert not hasattr(Endpoint.objects, "delete")


# --- What an operator changes in the admin --------------------------------------------------------


def act(action: str, model: type[Any]) -> Callable[[Client], Any]:
    """An action of the list page, on every row."""

    def send(client: Client) -> Any:
        keys = [str(pk) for pk in model._default_manager.values_list("pk", flat=True)]
        data = {"action": action, "_selected_action": keys, "select_across": "0"}
        # The deletion asks once more; others do not look at this.
        return client.post(page(model), data | {"post": "yes"})

    return send


def delete(model: type[Any]) -> Callable[[Client], Any]:
    """The delete page of one row."""
    return lambda client: client.post(
        page(model, "delete", model._default_manager.values_list("pk", flat=True)[0]),
        {"post": "yes"},
    )


def add_alias(client: Client) -> Any:
    model = Model.objects.get()
    return client.post(page(ModelAlias, "add"), {"alias": "acme/more", "model": str(model.pk)})


def change_alias(client: Client) -> Any:
    row = ModelAlias.objects.get()
    data = {"alias": "acme/other", "model": str(row.model_id)}
    return client.post(page(ModelAlias, "change", row.pk), data)


PAGES: dict[str, Callable[[Client], Any]] = {
    "disable providers": act("disable", Provider),
    "disable endpoints": act("disable", Endpoint),
    "delete endpoints": act("delete_selected", Endpoint),
    "delete models": act("delete_selected", Model),
    "delete aliases": act("delete_selected", ModelAlias),
    "delete an endpoint": delete(Endpoint),
    "delete a model": delete(Model),
    "add an alias": add_alias,
    "change an alias": change_alias,
}


@pytest.mark.parametrize("change", PAGES)
def test_every_page_that_changes_the_catalogue_moves_the_version(
    admin_client: Client, change: str
) -> None:
    fill(1)
    before = current_version()

    assert PAGES[change](admin_client).status_code == 302

    assert current_version() > before


def test_enabling_moves_it_too(admin_client: Client) -> None:
    fill(1)
    act("disable", Endpoint)(admin_client)
    before = current_version()

    act("enable", Endpoint)(admin_client)

    assert current_version() > before
    assert Endpoint.objects.get().status == 0
