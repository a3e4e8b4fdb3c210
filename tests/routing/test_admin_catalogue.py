"""The catalogue in the admin: what may be saved, and that nothing of a credential is shown."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from gateway.sealing import unseal
from routing.catalogue.credentials import ProviderCredential
from routing.catalogue.models import Endpoint, Model, ModelAlias, Provider
from routing.catalogue.snapshot import catalogue
from routing.catalogue.version import current_version
from tests.support.admin_pages import operator, page, read_form
from tests.support.operations import CREDENTIAL, fill

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture(autouse=True)
def fresh_catalogue() -> Iterator[None]:
    """Tests roll versions back, so no snapshot may outlive its test."""
    yield
    catalogue.forget()


@pytest.fixture
def provider(db: None) -> Provider:
    fill(1)
    found = Provider.objects.get()
    found.credentials.all().delete()
    return found


def save(client: Client, row: Any, **changes: str) -> Any:
    path = page(type(row), "change", row.pk)
    return client.post(path, read_form(client.get(path)) | changes)


def errors(response: Any) -> set[str]:
    """The fields that a page complains of; none where it was saved."""
    if response.status_code == 200:
        return set(response.context["adminform"].form.errors)
    assert response.status_code == 302
    return set()


def test_a_credential_is_kept_replaced_sealed_and_removed(
    admin_client: Client, provider: Provider
) -> None:
    assert not errors(save(admin_client, provider, name="Renamed"))
    saved = Provider.objects.get()
    assert (saved.name, saved.credential()) == ("Renamed", CREDENTIAL)
    save(admin_client, provider, new_credential="another one")
    sealed = Provider.objects.get().credential_sealed
    assert sealed
    assert "another" not in sealed
    assert unseal(sealed, purpose="provider-credential", row=provider.slug) == "another one"
    both = save(admin_client, provider, new_credential="x", remove_credential="on")
    assert errors(both) == {"remove_credential"}
    save(admin_client, provider, remove_credential="on")
    assert not Provider.objects.get().has_credential
    assert "not set" in admin_client.get(page(Provider)).text


def test_a_credential_given_with_a_mistake_is_not_sent_back(
    admin_client: Client, provider: Provider
) -> None:
    response = save(admin_client, provider, new_credential="typed-secret", base_url="nonsense")
    assert errors(response) == {"base_url"}
    assert "typed-secret" not in response.text


def test_a_credential_does_not_follow_to_another_server(
    admin_client: Client, provider: Provider
) -> None:
    elsewhere = "http://127.0.0.1:10/v1"
    assert errors(save(admin_client, provider, base_url=elsewhere)) == {"new_credential"}
    assert not errors(save(admin_client, provider, base_url="http://127.0.0.1:9/v2/"))
    assert Provider.objects.get().base_url == "http://127.0.0.1:9/v2"
    given = save(admin_client, provider, base_url=elsewhere, new_credential="another one")
    assert not errors(given)


def test_a_pool_does_not_follow_to_another_server_either(admin_client: Client) -> None:
    fill(1)
    moved = {"base_url": "http://127.0.0.1:10/v1", "new_credential": "another one"}
    assert errors(save(admin_client, Provider.objects.get(), **moved)) == {"base_url"}


def test_a_pooled_credential_goes_in_is_masked_and_replaced(
    admin_client: Client, provider: Provider
) -> None:
    data = {"provider": provider.pk, "label": "one", "weight": "2", "rate_limits": ""}
    path = page(ProviderCredential, "add")
    assert errors(admin_client.post(path, data)) == {"new_credential"}
    assert not errors(admin_client.post(path, {**data, "new_credential": "sk-one-of-1234"}))
    row = ProviderCredential.objects.get()
    assert (row.secret(), row.masked, row.weight) == ("sk-one-of-1234", "sk-...1234", 2)

    path = page(ProviderCredential, "change", row.pk)
    assert errors(admin_client.post(path, {"weight": "1001", "rate_limits": ""})) == {"weight"}
    admin_client.post(path, {"weight": "0", "rate_limits": "", "new_credential": "sk-other-5678"})
    row.refresh_from_db()
    assert (row.secret(), row.masked, row.weight) == ("sk-other-5678", "sk-...5678", 0)


def test_a_new_provider_can_have_a_credential(admin_client: Client, db: None) -> None:
    data = {"slug": "newcomer", "name": "Newcomer", "kind": "openai", "status": "0"}
    data |= {"base_url": "https://newcomer.example/v1", "new_credential": "its secret"}
    assert not errors(admin_client.post(page(Provider, "add"), data))
    assert Provider.objects.get().credential() == "its secret"


UNUSABLE: list[tuple[Any, str, str]] = [
    (Provider, "base_url", "http://user:word@127.0.0.1/v1"),
    (Provider, "datacenters", '"DE"'),
    (Provider, "connect_s", "-1"),
    (Model, "slug", "no-author"),
    (Model, "output_modalities", '["smell"]'),
    (Model, "reasoning", '{"supported_efforts": "high"}'),
    (Model, "default_parameters", "[1]"),
    (Model, "knowledge_cutoff", "2025"),
    (Endpoint, "pricing", '{"prompt": "1"}'),
    (Endpoint, "pricing", '"auto"'),
    (Endpoint, "supported_parameters", '["max_tokens", "magic"]'),
]


def test_a_row_that_requests_could_not_use_is_refused(
    admin_client: Client, provider: Provider
) -> None:
    for model, field, typed in UNUSABLE:
        assert errors(save(admin_client, model.objects.get(), **{field: typed})) == {field}, typed


def test_a_tag_names_its_provider(admin_client: Client, provider: Provider) -> None:
    endpoint = Endpoint.objects.get()
    assert errors(save(admin_client, endpoint, tag="someone-else")) == {"__all__"}
    assert not errors(save(admin_client, endpoint, tag=f"{provider.slug}/turbo"))


def test_prices_are_put_in_order_and_served(admin_client: Client, provider: Provider) -> None:
    endpoint = Endpoint.objects.get()
    typed = json.dumps({"completion": "2.50e-6", "prompt": "0.0000010"})
    assert not errors(save(admin_client, endpoint, pricing=typed))
    endpoint.refresh_from_db()
    assert endpoint.pricing == {"prompt": "0.000001", "completion": "0.0000025"}
    catalogue.refresh_if_changed()
    served = catalogue.current().models[endpoint.model.slug].endpoints[0]
    assert served.pricing == endpoint.pricing


def test_lists_may_be_left_empty(admin_client: Client, provider: Provider) -> None:
    assert not errors(save(admin_client, Model.objects.get(), categories=""))
    assert not errors(save(admin_client, Endpoint.objects.get(), supported_parameters=""))
    assert Model.objects.get().categories == []
    assert Endpoint.objects.get().supported_parameters == []


def test_endpoints_and_providers_are_taken_out_of_service_by_whoever_may(
    admin_client: Client, provider: Provider
) -> None:
    viewer = Client()
    viewer.force_login(operator(permissions="view_"))
    for model in (Endpoint, Provider):
        row, version = model.objects.get(), current_version()
        for client, action, status in (
            (viewer, "disable", 0),
            (admin_client, "disable", -5),
            (admin_client, "enable", 0),
        ):
            client.post(page(model), {"action": action, "_selected_action": [str(row.pk)]})
            row.refresh_from_db()
            assert row.status == status
        assert current_version() > version


def test_an_alias_must_be_free(admin_client: Client, provider: Provider) -> None:
    model = Model.objects.get()
    for alias, wrong in ((model.slug, {"alias"}), ("no way", {"alias"}), ("acme/other", set())):
        data = {"model": str(model.pk), "alias": alias}
        assert errors(admin_client.post(page(ModelAlias, "add"), data)) == wrong
