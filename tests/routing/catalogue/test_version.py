from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from routing.catalogue.models import Endpoint, Model, ModelAlias, Provider
from routing.catalogue.version import current_version

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
    "create": lambda row: make_provider("q").save(),
    "get_or_create": lambda row: Provider.objects.get_or_create(slug="q"),
    "update_or_create": lambda row: Provider.objects.update_or_create({"name": "o"}, slug="p"),
    "update": lambda row: Endpoint.objects.update(status=-5),
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
