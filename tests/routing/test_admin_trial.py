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
from tests.support.admin_pages import operator, page
from tests.support.operations import endpoint

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def row(simulator: SimulatedUpstream, db: None) -> Endpoint:
    """An endpoint of a provider that is called trial."""
    provider = Provider(slug="trial", name="Trial", base_url=f"{simulator.url}/trial/v1")
    provider.set_credential("trial-credential")
    provider.save()
    names = {"slug": "acme/trial", "canonical_slug": "acme/trial", "name": "Trial"}
    return endpoint(Model.objects.create(**names, created=0), provider)


def send(client: Client, row: Endpoint) -> trial.EndpointTrial:
    data = {"action": "send_test_requests", "_selected_action": [str(row.pk)]}
    (told,) = client.post(page(Endpoint), data).context["trials"]
    found: trial.EndpointTrial = told
    return found


def failure_text(client: Client, row: Endpoint) -> str:
    told = send(client, row)
    assert not told.ok
    return told.text


def test_an_answer_shows_its_first_words_and_leaves_the_books_alone(
    admin_client: Client, simulator: SimulatedUpstream, row: Endpoint
) -> None:
    told = send(admin_client, row)
    assert (told.ok, told.status, told.text) == (True, 200, "Simulated answer to: Say hello.")
    assert told.latency_ms is not None
    asked = simulator.requests("trial")[-1]
    assert asked["body"]["max_tokens"] == 16
    assert asked["authorization_present"]
    for rows in (LedgerEntry, Hold, Generation):
        assert not rows._default_manager.exists()
    # The limit goes by the name the endpoint takes.
    Endpoint.objects.update(supported_parameters=["max_completion_tokens"])
    send(admin_client, row)
    body = simulator.requests("trial")[-1]["body"]
    assert (body["max_completion_tokens"], "max_tokens" in body) == (16, False)
    for kind in ("anthropic", "responses"):
        Provider.objects.update(kind=kind)
        assert send(admin_client, row).text == "Simulated answer to: Say hello."
    Provider.objects.update(kind="openai")
    Model.objects.update(output_modalities=["embeddings"])
    assert send(admin_client, row).text == "A vector of 256 dimensions."


def test_a_refusal_is_told_in_the_upstreams_own_words(
    admin_client: Client, simulator: SimulatedUpstream, row: Endpoint
) -> None:
    simulator.script(
        "trial",
        {"status": 401, "json": {"error": {"message": "No such key: trial-credential <b>!</b>"}}},
        {"status": 200, "body": "<html>Sign in</html>", "content_type": "text/html"},
        {"status": 200, "json": {"error": {"code": 429, "message": "Slow down, please"}}},
        {"status": 500, "body": "<script>alert(1)</script>"},
    )
    told = send(admin_client, row)
    assert told.status == 401
    assert "No such key: [credential] <b>!</b>" in told.text
    assert "Sign in" in failure_text(admin_client, row)
    assert "Slow down, please" in failure_text(admin_client, row)
    # Which are no markup.
    shown = admin_client.post(page(Endpoint, "trial", row.pk)).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "<script>alert(1)" not in shown


def test_an_upstream_that_is_not_there_or_never_answers_is_given_up(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, row: Endpoint
) -> None:
    assert trial.TOTAL_S == 15
    monkeypatch.setattr(trial, "TOTAL_S", 0.2)
    Endpoint.objects.update(upstream_model="sim/hang")
    assert failure_text(admin_client, row).startswith("No answer: ")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    Provider.objects.update(base_url=f"http://127.0.0.1:{port}/v1")
    assert failure_text(admin_client, row).startswith("No answer: ")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "decisions"}, "cannot be tried"),
        ({"credential_sealed": "v1:AAAA"}, "stored credential"),
        ({"base_url": "nonsense"}, "base URL"),
    ],
)
def test_what_cannot_be_tried_says_why(
    admin_client: Client, row: Endpoint, change: dict[str, Any], words: str
) -> None:
    Provider.objects.update(**change)
    assert words in failure_text(admin_client, row)


def test_a_provider_asks_each_of_its_endpoints_up_to_a_bound(
    admin_client: Client, row: Endpoint
) -> None:
    for number in range(trial.TRIALS_MAX):
        endpoint(row.model, row.provider, tag=f"trial/{number}")
    data = {"action": "send_test_requests", "_selected_action": [str(row.provider_id)]}
    response = admin_client.post(page(Provider), data)
    assert len(response.context["trials"]) == trial.TRIALS_MAX
    assert all(told.ok for told in response.context["trials"])
    assert "Only the first 10 endpoints were asked." in response.text


def test_looking_sends_nothing_and_sending_takes_the_right_to_change(
    admin_client: Client, simulator: SimulatedUpstream, row: Endpoint
) -> None:
    path, before = page(Endpoint, "trial", row.pk), len(simulator.requests("trial"))
    assert "nothing is written to the ledger" in admin_client.get(path).text
    viewer = Client()
    viewer.force_login(operator(permissions="view_"))
    assert viewer.post(path).status_code == 403
    assert len(simulator.requests("trial")) == before
    assert admin_client.get(page(Endpoint, "trial", row.pk + 1)).status_code == 404
