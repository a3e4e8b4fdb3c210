import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from gateway.sealing import unseal
from routing.catalogue.document import parse
from routing.catalogue.load import load
from routing.catalogue.models import Endpoint, Model, ModelAlias, Provider
from routing.catalogue.snapshot import catalogue
from routing.catalogue.version import current_version
from tests.support.catalogue import CONFORMANCE
from tests.support.operations import CREDENTIAL, fill, operator, page

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
    return Provider.objects.get()


def form_of(client: Client, path: str) -> dict[str, str]:
    """What a browser would send back of a page that nobody touched."""
    form = client.get(path).context["adminform"].form
    values = {name: form[name].value() for name in form.fields}
    data = {
        name: str(value)
        for name, value in values.items()
        if value is not None and value is not False
    }
    # Django notes what it showed beside a field whose default is computed.
    data |= {f"initial-{name}": data[name] for name in data if form[name].field.show_hidden_initial}
    data |= {f"{kind}-{part}": "0" for kind in INLINES for part in ("TOTAL_FORMS", "INITIAL_FORMS")}
    return data


def save(client: Client, row: Any, **changes: str) -> Any:
    path = page(type(row), "change", row.pk)
    return client.post(path, form_of(client, path) | changes)


def errors(response: Any) -> set[str]:
    """The fields that a page complains of; none where it was saved."""
    return set(response.context["adminform"].form.errors) if response.status_code == 200 else set()


def test_an_empty_credential_keeps_the_one_that_is_set(
    admin_client: Client, provider: Provider
) -> None:
    assert save(admin_client, provider, name="Renamed").status_code == 302

    saved = Provider.objects.get()
    assert (saved.name, saved.credential()) == ("Renamed", CREDENTIAL)


def test_a_credential_is_replaced_sealed_and_removed(
    admin_client: Client, provider: Provider
) -> None:
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
    assert save(admin_client, provider, base_url="http://127.0.0.1:9/v2/").status_code == 302
    assert Provider.objects.get().base_url == "http://127.0.0.1:9/v2"
    given = save(admin_client, provider, base_url=elsewhere, new_credential="another one")
    assert given.status_code == 302


def test_a_new_provider_can_have_a_credential(admin_client: Client, db: None) -> None:
    data = {
        "slug": "newcomer",
        "name": "Newcomer",
        "kind": "openai",
        "base_url": "https://newcomer.example/v1",
        "status": "0",
        "new_credential": "its secret",
    }

    assert admin_client.post(page(Provider, "add"), data).status_code == 302
    assert Provider.objects.get().credential() == "its secret"


@pytest.mark.parametrize(
    "change",
    [
        {"base_url": "ftp://127.0.0.1/v1"},
        {"base_url": "http://user:word@127.0.0.1/v1"},
        {"datacenters": '"DE"'},
        {"headquarters": "Germany"},
        {"connect_s": "-1"},
        {"new_credential": "x", "remove_credential": "on"},
    ],
)
def test_a_provider_that_requests_could_not_use_is_refused(
    admin_client: Client, provider: Provider, change: dict[str, str]
) -> None:
    assert errors(save(admin_client, provider, **change)) == {list(change)[-1]}


@pytest.mark.parametrize(
    "change",
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
)
def test_a_model_that_could_not_be_listed_is_refused(
    admin_client: Client, provider: Provider, change: dict[str, str]
) -> None:
    assert errors(save(admin_client, Model.objects.get(), **change)) == set(change)


@pytest.mark.parametrize(
    "change",
    [
        {"pricing": '{"prompt": "1"}'},
        {"pricing": '{"prompt": 0.1, "completion": "1"}'},
        {"pricing": '"auto"'},
        {"supported_parameters": '["max_tokens", "magic"]'},
        {"context_length": "0"},
    ],
)
def test_an_endpoint_that_could_not_be_billed_is_refused(
    admin_client: Client, provider: Provider, change: dict[str, str]
) -> None:
    assert errors(save(admin_client, Endpoint.objects.get(), **change)) == set(change)


def test_a_tag_names_its_provider(admin_client: Client, provider: Provider) -> None:
    endpoint = Endpoint.objects.get()

    assert errors(save(admin_client, endpoint, tag="someone-else")) == {"__all__"}
    assert not errors(save(admin_client, endpoint, tag=f"{provider.slug}/turbo"))


def test_prices_are_put_in_order_and_served(admin_client: Client, provider: Provider) -> None:
    endpoint = Endpoint.objects.get()
    typed = json.dumps({"completion": "2.50e-6", "prompt": "0.0000010"})

    assert save(admin_client, endpoint, pricing=typed).status_code == 302

    endpoint.refresh_from_db()
    assert endpoint.pricing == {"prompt": "0.000001", "completion": "0.0000025"}
    catalogue.refresh_if_changed()
    served = catalogue.current().models[endpoint.model.slug].endpoints[0]
    assert served.pricing == endpoint.pricing


def test_lists_may_be_left_empty(admin_client: Client, provider: Provider) -> None:
    assert save(admin_client, Model.objects.get(), categories="").status_code == 302
    assert save(admin_client, Endpoint.objects.get(), supported_parameters="").status_code == 302

    assert Model.objects.get().categories == []
    assert Endpoint.objects.get().supported_parameters == []


def test_every_row_of_the_fixture_can_be_saved_as_it_stands(admin_client: Client) -> None:
    assert load(parse(CONFORMANCE.read_text(encoding="utf-8")))["errors"] == []

    for model in (Provider, Model, Endpoint):
        before = list(model.objects.order_by("pk").values())
        for row in model.objects.all():
            assert save(admin_client, row).status_code == 302, row
        assert list(model.objects.order_by("pk").values()) == before


def test_endpoints_and_providers_are_taken_out_of_service(
    admin_client: Client, provider: Provider
) -> None:
    for model in (Endpoint, Provider):
        row = model.objects.get()
        version = current_version()
        for action, status in (("disable", -5), ("enable", 0)):
            data = {"action": action, "_selected_action": [str(row.pk)]}
            admin_client.post(page(model), data)
            row.refresh_from_db()
            assert row.status == status
        assert current_version() > version


def test_an_alias_must_be_free(admin_client: Client, provider: Provider) -> None:
    model = Model.objects.get()
    data = {"model": str(model.pk)}

    for odd in (model.slug, "no way"):
        response = admin_client.post(page(ModelAlias, "add"), data | {"alias": odd})
        assert errors(response) == {"alias"}
    added = admin_client.post(page(ModelAlias, "add"), data | {"alias": "acme/other"})
    assert added.status_code == 302


def test_staff_who_may_only_look_cannot_switch(provider: Provider) -> None:
    client = Client()
    client.force_login(operator(permissions="view_"))
    endpoint = Endpoint.objects.get()

    client.post(page(Endpoint), {"action": "disable", "_selected_action": [str(endpoint.pk)]})

    endpoint.refresh_from_db()
    assert endpoint.status == 0
