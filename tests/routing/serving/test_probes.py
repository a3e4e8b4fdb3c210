"""Active probes: asked when due, told to the processes, and no part of any statistics."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from gateway.hints import Hints
from routing.catalogue.history import ProviderProbe
from routing.catalogue.load import load
from routing.catalogue.models import Endpoint, Provider
from routing.selection.health import EndpointHealth
from routing.serving import probes
from routing.serving.probes import ask, probe_due
from routing.serving.shared_form import read_entry, stream
from routing.serving.sharing import Sharing
from routing.simulator.testing import SimulatedUpstream
from tests.routing.serving.learning import Clock, observer
from tests.routing.upstreams.raw_upstream import Peer, RawUpstream
from tests.support.operations import CREDENTIAL, fill
from tests.support.valkey import ValkeyServer

pytestmark = pytest.mark.django_db(transaction=True)
NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


class Models:
    """A provider that lists models with whatever status, and remembers what it was sent."""

    def __init__(self) -> None:
        self.status = 200
        self.heads: list[bytes] = []

    def __call__(self, peer: Peer) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += peer.sock.recv(65_536)
        self.heads.append(head)
        peer.send(
            f"HTTP/1.1 {self.status} X\r\nContent-Type: application/json\r\n"
            f"Content-Length: 2\r\nConnection: close\r\n\r\n{{}}".encode()
        )


@pytest.fixture
def models() -> Models:
    return Models()


@pytest.fixture
def upstream(models: Models) -> Iterator[RawUpstream]:
    with RawUpstream(models) as server:
        yield server


@pytest.fixture
def provider(upstream: RawUpstream) -> Provider:
    fill(1)
    ProviderProbe.objects.all().delete()
    found = Provider.objects.get()
    found.base_url = f"http://127.0.0.1:{upstream.port}/v1"
    found.probe_interval_s = 30
    found.save()
    return found


@pytest.fixture
def store(valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hints]:
    hints = Hints(valkey.url, timeout_s=0.5)
    monkeypatch.setattr(probes, "hints", lambda: hints)
    yield hints
    hints.close()


def told(valkey: ValkeyServer) -> list[list[str]]:
    with redis.Redis.from_url(valkey.url) as client:
        entries: Any = client.xrange(stream())
    return [[mark.kind for mark in read_entry(f[b"d"], at=0).marks] for _, f in entries]


def test_a_provider_is_asked_for_its_models_with_its_credential(
    provider: Provider, models: Models, store: Hints, valkey: ValkeyServer
) -> None:
    assert probe_due(NOW) == 1

    (head,) = models.heads
    assert head.startswith(b"GET /v1/models HTTP/1.1\r\n")
    assert f"Authorization: Bearer {CREDENTIAL}".encode() in head
    probe = ProviderProbe.objects.get()
    assert (probe.ok, probe.status, probe.at, probe.since) == (True, 200, NOW, NOW)
    assert probe.latency_ms is not None
    assert told(valkey) == []


def test_only_when_it_is_due(provider: Provider, models: Models, store: Hints) -> None:
    asked = [probe_due(NOW + timedelta(seconds=s)) for s in (0, 1, 29, 30, 31, 60)]

    assert asked == [1, 0, 0, 1, 0, 1]
    assert len(models.heads) == 3


@pytest.mark.parametrize("changes", [{"probe_interval_s": None}, {"status": -5}])
def test_nobody_is_asked_who_need_not_be(
    provider: Provider, models: Models, store: Hints, changes: dict[str, Any]
) -> None:
    Provider.objects.update(**changes)

    assert probe_due(NOW) == 0
    assert models.heads == []


VERDICTS = {200: True, 404: True, 401: True, 500: False, 503: False, 429: None}


@pytest.mark.parametrize(("status", "ok"), VERDICTS.items())
def test_whoever_refuses_is_there(
    provider: Provider, models: Models, store: Hints, status: int, ok: bool | None
) -> None:
    models.status = status
    probe_due(NOW)

    probe = ProviderProbe.objects.get()
    assert (probe.ok, probe.status) == (ok, status)


def test_an_outage_is_told_each_time_and_its_end_once(
    provider: Provider, models: Models, store: Hints, valkey: ValkeyServer
) -> None:
    for status in (200, 503, 503, 200, 200):
        models.status = status
        probe_due(NOW)
        ProviderProbe.objects.update(at=NOW - timedelta(minutes=1))

    assert told(valkey) == [["outage"], ["outage"], ["well"]]


def test_processes_hear_of_it_and_count_no_call(
    provider: Provider, models: Models, store: Hints
) -> None:
    clock = Clock()
    seen, health = observer(clock, collects=True), EndpointHealth(window_s=30, probe_s=10)
    sharing = Sharing(seen, health, store, clock=clock)
    sharing.sync()
    models.status = 503
    probe_due(NOW)

    sharing.sync()

    pk = Endpoint.objects.get().pk
    assert health.standing(clock.now).unstable == {pk}
    assert pk not in seen.recent.totals


def test_who_does_not_answer_at_all_is_down(
    provider: Provider, store: Hints, valkey: ValkeyServer
) -> None:
    Provider.objects.update(base_url="http://127.0.0.1:9/v1")

    probe_due(NOW)

    probe = ProviderProbe.objects.get()
    assert (probe.ok, probe.status) == (False, None)
    assert probe.said.startswith("No answer")
    assert told(valkey) == [["outage"]]


def test_the_simulated_upstream_answers(simulator: SimulatedUpstream) -> None:
    found = ask(f"{simulator.url}/first/v1", "openai", "first-secret")

    assert (found.ok, found.status) == (True, 200)


@pytest.mark.parametrize(
    ("kind", "header"), [("openai", "authorization"), ("anthropic", "x-api-key")]
)
def test_each_kind_has_its_own_way_to_say_who_asks(
    upstream: RawUpstream, models: Models, kind: str, header: str
) -> None:
    ask(f"http://127.0.0.1:{upstream.port}/v1", kind, "canary")

    (line,) = [line for line in models.heads[0].split(b"\r\n") if b"canary" in line]
    assert line.decode().lower().startswith(header)


def test_the_interval_stands_in_a_catalogue_file() -> None:
    document = {
        "providers": [
            {"slug": "acme", "name": "A", "base_url": "http://a.test/v1", "probe_interval_s": 30.0}
        ]
    }
    assert load(document)["errors"] == []
    assert Provider.objects.get(slug="acme").probe_interval_s == 30

    document["providers"][0]["probe_interval_s"] = 1.0
    (error,) = load(json.loads(json.dumps(document)))["errors"]

    assert "probe_interval_s" in error
