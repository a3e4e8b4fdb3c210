"""The catalogue in the admin: what may be saved, and that nothing of a credential is shown."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from gateway.sealing import unseal
from routing.catalogue.credentials import ProviderCredential
from routing.catalogue.files import parse
from routing.catalogue.load import load_catalogue
from routing.catalogue.models import Endpoint, Model, ModelAlias, Provider
from routing.catalogue.snapshot import catalogue
from routing.catalogue.version import current_version
from tests.support.admin_pages import operator, page
from tests.support.catalogue import CONFORMANCE
from tests.support.operations import CREDENTIAL, fill

pytestmark = [pytest.mark.django_db, pytest.mark.both]
INLINES = ("aliases", "endpoints")


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


def form_of(client: Client, path: str) -> dict[str, str]:
    """What a browser would send back of a page that nobody touched."""
    form = client.get(path).context["adminform"].form
    values = {name: form[name].value() for name in form.fields}
    known = {name: value for name, value in values.items() if value is not None}
    data = {name: str(value) for name, value in known.items() if value is not False}
    # Django notes what it showed beside a field whose default is computed.
    data |= {f"initial-{name}": data[name] for name in data if form[name].field.show_hidden_initial}
    data |= {f"{kind}-{part}": "0" for kind in INLINES for part in ("TOTAL_FORMS", "INITIAL_FORMS")}
    return data


def save(client: Client, row: Any, **changes: str) -> Any:
    path = page(type(row), "change", row.pk)
    return client.post(path, form_of(client, path) | changes)


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


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        (
            Provider,
            [
                {"base_url": "ftp://127.0.0.1/v1"},
                {"base_url": "http://user:word@127.0.0.1/v1"},
                {"datacenters": '"DE"'},
                {"headquarters": "Germany"},
                {"connect_s": "-1"},
                {"new_credential": "x", "remove_credential": "on"},
            ],
        ),
        (
            Model,
            [
                {"slug": "no-author"},
                {"input_modalities": '"text"'},
                {"output_modalities": '["smell"]'},
                {"reasoning": "5"},
                {"reasoning": '{"supported_efforts": "high"}'},
                {"default_parameters": "[1]"},
                {"per_request_limits": '"many"'},
                {"knowledge_cutoff": "2025"},
            ],
        ),
        (
            Endpoint,
            [
                {"pricing": '{"prompt": "1"}'},
                {"pricing": '{"prompt": 0.1, "completion": "1"}'},
                {"pricing": '"auto"'},
                {"supported_parameters": '["max_tokens", "magic"]'},
                {"context_length": "0"},
            ],
        ),
    ],
)
def test_a_row_that_requests_could_not_use_is_refused(
    admin_client: Client, provider: Provider, model: Any, changes: list[dict[str, str]]
) -> None:
    for change in changes:
        found = errors(save(admin_client, model.objects.get(), **change))
        assert found == {list(change)[-1]}, change


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


def test_every_row_of_the_fixture_can_be_saved_as_it_stands(admin_client: Client) -> None:
    assert load_catalogue(parse(CONFORMANCE.read_text(encoding="utf-8")))["errors"] == []
    for model in (Provider, Model, Endpoint):
        before = list(model.objects.order_by("pk").values())
        for row in model.objects.all():
            assert save(admin_client, row).status_code == 302, row
        assert list(model.objects.order_by("pk").values()) == before


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
