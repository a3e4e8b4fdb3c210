"""Whatever an operator changes in the admin is a new version of the catalogue."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from routing.catalogue.models import Endpoint, Model, ModelAlias, Provider
from routing.catalogue.version import current_version
from tests.support.operations import fill, page

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def act(action: str, model: type[Any]) -> Callable[[Client], Any]:
    """An action of the list page, on every row."""
    data = {
        "action": action,
        "_selected_action": [],
        "select_across": "0",
        # The deletion asks once more; others do not look at this.
        "post": "yes",
    }

    def send(client: Client) -> Any:
        keys = [str(pk) for pk in model._default_manager.values_list("pk", flat=True)]
        return client.post(page(model), data | {"_selected_action": keys})

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


CHANGES: dict[str, Callable[[Client], Any]] = {
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


@pytest.mark.parametrize("change", CHANGES)
def test_every_page_that_changes_the_catalogue_moves_the_version(
    admin_client: Client, change: str
) -> None:
    fill(1)
    before = current_version()

    assert CHANGES[change](admin_client).status_code == 302

    assert current_version() > before


def test_enabling_moves_it_too(admin_client: Client) -> None:
    fill(1)
    act("disable", Endpoint)(admin_client)
    before = current_version()

    act("enable", Endpoint)(admin_client)

    assert current_version() > before
    assert Endpoint.objects.get().status == 0
