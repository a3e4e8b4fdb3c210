"""Test requests from the admin: what an operator reads of upstreams of every temper."""

import socket
from typing import Any

import pytest
from django.test import Client

from accounts.models import Hold, LedgerEntry
from routing.admin import trial
from routing.catalogue.models import Endpoint, Model, Provider
from routing.metering.models import Generation
from routing.simulator.testing import SimulatedUpstream
from tests.support.operations import endpoint, operator, page

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def upstream(simulator: SimulatedUpstream, db: None) -> Provider:
    provider = Provider(slug="trial", name="Trial", base_url=f"{simulator.url}/trial/v1")
    provider.set_credential("trial-credential")
    provider.save()
    return provider


@pytest.fixture
def model(db: None) -> Model:
    return Model.objects.create(
        slug="acme/trial", canonical_slug="acme/trial", name="Trial", created=0
    )


def send(client: Client, *endpoints: Endpoint) -> list[trial.Trial]:
    chosen = [str(each.pk) for each in endpoints]
    data = {"action": "send_test_requests", "_selected_action": chosen}
    trials: list[trial.Trial] = client.post(page(Endpoint), data).context["trials"]
    return trials


def failed(client: Client, row: Endpoint) -> str:
    (told,) = send(client, row)
    assert not told.ok
    return told.said


def test_an_answer_shows_its_first_words_and_leaves_the_books_alone(
    admin_client: Client, simulator: SimulatedUpstream, upstream: Provider, model: Model
) -> None:
    (told,) = send(admin_client, endpoint(model, upstream))

    assert (told.ok, told.status, told.said) == (True, 200, "Simulated answer to: Say hello.")
    assert told.latency_ms is not None
    asked = simulator.requests("trial")[-1]
    assert asked["body"]["max_tokens"] == 16
    assert asked["authorization_present"]
    for rows in (LedgerEntry, Hold, Generation):
        assert not rows._default_manager.exists()


@pytest.mark.parametrize("kind", ["anthropic", "responses"])
def test_endpoints_of_other_kinds_are_asked_in_their_own_format(
    admin_client: Client, simulator: SimulatedUpstream, upstream: Provider, model: Model, kind: str
) -> None:
    Provider.objects.update(kind=kind)

    (told,) = send(admin_client, endpoint(model, upstream))

    assert (told.ok, told.said) == (True, "Simulated answer to: Say hello.")


def test_the_cap_goes_by_the_name_the_endpoint_takes(
    admin_client: Client, simulator: SimulatedUpstream, upstream: Provider, model: Model
) -> None:
    send(admin_client, endpoint(model, upstream, supported_parameters=["max_completion_tokens"]))

    body = simulator.requests("trial")[-1]["body"]
    assert body["max_completion_tokens"] == 16
    assert "max_tokens" not in body


def test_a_refusal_is_told_in_the_upstreams_own_words(
    admin_client: Client, simulator: SimulatedUpstream, upstream: Provider, model: Model
) -> None:
    simulator.script(
        "trial",
        {"status": 401, "json": {"error": {"message": "No such key: trial-credential <b>!</b>"}}},
        {"status": 200, "body": "<html>Sign in</html>", "content_type": "text/html"},
        {"status": 200, "json": {"error": {"code": 429, "message": "Slow down, please"}}},
    )
    row = endpoint(model, upstream)

    (told,) = send(admin_client, row)
    assert told.status == 401
    assert "No such key: [credential] <b>!</b>" in told.said
    assert "Sign in" in failed(admin_client, row)
    assert "Slow down, please" in failed(admin_client, row)


def test_upstream_words_are_no_markup(
    admin_client: Client, simulator: SimulatedUpstream, upstream: Provider, model: Model
) -> None:
    simulator.script("trial", {"status": 500, "body": "<script>alert(1)</script>"})
    row = endpoint(model, upstream)

    shown = admin_client.post(page(Endpoint, "trial", row.pk)).text

    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "<script>alert(1)" not in shown


def test_an_upstream_that_is_not_there_fails_plainly(
    admin_client: Client, upstream: Provider, model: Model
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    Provider.objects.update(base_url=f"http://127.0.0.1:{port}/v1")

    assert failed(admin_client, endpoint(model, upstream)).startswith("No answer: ")


def test_an_upstream_that_never_answers_is_given_up(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, upstream: Provider, model: Model
) -> None:
    assert trial.TOTAL_S == 15
    monkeypatch.setattr(trial, "TOTAL_S", 0.2)

    said = failed(admin_client, endpoint(model, upstream, upstream_model="sim/hang"))

    assert said.startswith("No answer: ")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "decisions"}, "cannot be tried"),
        ({"credential_sealed": "v1:AAAA"}, "stored credential"),
        ({"base_url": "nonsense"}, "base URL"),
    ],
)
def test_what_cannot_be_tried_says_why(
    admin_client: Client, upstream: Provider, model: Model, change: dict[str, Any], words: str
) -> None:
    row = endpoint(model, upstream)
    Provider.objects.update(**change)

    assert words in failed(admin_client, row)


def test_a_provider_asks_each_of_its_endpoints_up_to_a_bound(
    admin_client: Client, upstream: Provider, model: Model
) -> None:
    for number in range(trial.TRIALS_MAX + 1):
        endpoint(model, upstream, tag=f"trial/{number}")
    data = {"action": "send_test_requests", "_selected_action": [str(upstream.pk)]}

    response = admin_client.post(page(Provider), data)

    assert len(response.context["trials"]) == trial.TRIALS_MAX
    assert all(told.ok for told in response.context["trials"])
    assert "Only the first 10 endpoints were asked." in response.text


def test_looking_at_the_page_sends_nothing(
    admin_client: Client, simulator: SimulatedUpstream, upstream: Provider, model: Model
) -> None:
    before = len(simulator.requests("trial"))

    response = admin_client.get(page(Endpoint, "trial", endpoint(model, upstream).pk))

    assert "nothing is written to the ledger" in response.text
    assert len(simulator.requests("trial")) == before


def test_sending_takes_the_right_to_change_endpoints(upstream: Provider, model: Model) -> None:
    client = Client()
    client.force_login(operator(permissions="view_"))
    path = page(Endpoint, "trial", endpoint(model, upstream).pk)

    assert client.post(path).status_code == 403


def test_an_endpoint_that_is_not_there_is_not_found(admin_client: Client) -> None:
    assert admin_client.get(page(Endpoint, "trial", 1)).status_code == 404
