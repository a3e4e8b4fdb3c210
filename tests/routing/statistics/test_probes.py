"""Active probes: asked when due, told to the processes, and no part of any statistics."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.shared_cache import SharedCache
from routing.catalogue.load import load_catalogue
from routing.catalogue.models import Endpoint, Provider
from routing.selection.health import EndpointHealth
from routing.statistics import probes
from routing.statistics.models import ProviderProbe
from routing.statistics.peer_sync import PeerSync
from routing.statistics.probes import probe_due_providers, probe_provider
from routing.statistics.stream_format import read_entry, stream_key
from tests.gateway.outbound.raw_upstream import RawUpstream
from tests.routing.serving.learning import Clock, observer
from tests.routing.serving.processes import Answers
from tests.support.operations import CREDENTIAL, fill

pytestmark = pytest.mark.django_db(transaction=True)
NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


@pytest.fixture
def models() -> Answers:
    """A provider that lists models with whatever status, and remembers what it was sent."""
    return Answers(b"{}")


@pytest.fixture
def upstream(models: Answers) -> Iterator[RawUpstream]:
    with RawUpstream(models) as server:
        yield server


@pytest.fixture
def store(valkey, monkeypatch) -> Iterator[SharedCache]:
    hints = SharedCache(valkey.url, timeout_s=0.5)
    monkeypatch.setattr(probes, "shared_cache", lambda: hints)
    yield hints
    hints.close()


@pytest.fixture
def read_notes(upstream, store) -> Callable[[], list[list[str]]]:
    """Of a provider that is to be probed: what the processes were told."""
    fill(1)
    ProviderProbe.objects.all().delete()
    base_url = f"http://127.0.0.1:{upstream.port}/v1"
    Provider.objects.update(base_url=base_url, probe_interval_s=30)

    def read() -> list[list[str]]:
        entries: Any = store.run(lambda client: client.xrange(stream_key()), None)
        return [[event.kind for event in read_entry(f[b"d"], at=0).events] for _, f in entries]

    return read


def test_a_provider_is_asked_for_its_models_with_its_credential(read_notes, models) -> None:
    assert probe_due_providers(NOW) == 1
    (head,) = models.heads
    assert head.startswith(b"GET /v1/models HTTP/1.1\r\n")
    assert f"Authorization: Bearer {CREDENTIAL}".encode() in head
    probe = ProviderProbe.objects.get()
    assert (probe.ok, probe.status, probe.at, probe.since) == (True, 200, NOW, NOW)
    assert probe.latency_ms is not None
    assert read_notes() == []


def test_only_when_it_is_due(read_notes, models) -> None:
    asked = [probe_due_providers(NOW + timedelta(seconds=s)) for s in (0, 1, 29, 30, 31, 60)]
    assert asked == [1, 0, 0, 1, 0, 1]
    assert len(models.heads) == 3


@pytest.mark.parametrize("changes", [{"probe_interval_s": None}, {"status": -5}])
def test_nobody_is_asked_who_need_not_be(read_notes, models, changes: dict[str, Any]) -> None:
    Provider.objects.update(**changes)
    assert (probe_due_providers(NOW), models.heads) == (0, [])


def test_whoever_refuses_is_there(read_notes, models) -> None:
    verdicts = {200: True, 404: True, 401: True, 500: False, 503: False, 429: None}
    for status, ok in verdicts.items():
        ProviderProbe.objects.all().delete()
        models.status = status
        assert probe_due_providers(NOW) == 1
        probe = ProviderProbe.objects.get()
        assert (probe.ok, probe.status) == (ok, status)


def test_an_outage_is_told_each_time_and_its_end_once(read_notes, models) -> None:
    for minute, status in enumerate((200, 503, 503, 200, 200)):
        models.status = status
        probe_due_providers(NOW + timedelta(minutes=minute))
    assert read_notes() == [["outage"], ["outage"], ["well"]]


def test_processes_hear_of_it_and_count_no_call(read_notes, models, store) -> None:
    clock = Clock()
    seen, health = observer(clock, collects=True), EndpointHealth(window_s=30, probe_s=10)
    sharing = PeerSync(seen, health, store, clock=clock)
    sharing.sync()
    models.status = 503
    probe_due_providers(NOW)

    sharing.sync()

    pk = Endpoint.objects.get().pk
    assert health.snapshot(clock.now).unstable == {pk}
    assert pk not in seen.recent.totals


def test_who_does_not_answer_at_all_is_down(read_notes) -> None:
    Provider.objects.update(base_url="http://127.0.0.1:9/v1")
    probe_due_providers(NOW)
    probe = ProviderProbe.objects.get()
    assert (probe.ok, probe.status) == (False, None)
    assert probe.said.startswith("No answer")
    assert read_notes() == [["outage"]]


@pytest.mark.parametrize(
    ("kind", "header"), [("openai", "authorization"), ("anthropic", "x-api-key")]
)
def test_each_kind_has_its_own_way_to_say_who_asks(upstream, models, kind, header) -> None:
    probe_provider(f"http://127.0.0.1:{upstream.port}/v1", kind, "canary")
    (line,) = [line for line in models.heads[0].split(b"\r\n") if b"canary" in line]
    assert line.decode().lower().startswith(header)


def test_the_interval_stands_in_a_catalogue_file() -> None:
    acme = {"slug": "acme", "name": "A", "base_url": "http://a.test/v1", "probe_interval_s": 30.0}
    assert load_catalogue({"providers": [acme]})["errors"] == []
    assert Provider.objects.get(slug="acme").probe_interval_s == 30
    acme["probe_interval_s"] = 1.0
    (error,) = load_catalogue({"providers": [acme]})["errors"]
    assert "probe_interval_s" in error
