"""Active health probes: a scheduled task asks providers for their list of models.

Probes are off unless a provider has an interval. Web processes receive the outcome like an outage
that a request met. Probe latency enters no statistics.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, NamedTuple

import redis
from django.conf import settings

from gateway.outbound.errors import OutboundError
from gateway.outbound.http_client import HttpClient, Limits, Origin
from gateway.sealing import UnsealError
from gateway.shared_cache import shared_cache
from routing.catalogue.credentials import find_credential
from routing.catalogue.models import Endpoint, Provider
from routing.entities.vocabulary import STATUS_DISABLED
from routing.statistics.models import ProviderProbe
from routing.statistics.observation import HealthEvent, Kind
from routing.statistics.stream_format import append_entry, serialize_entry
from routing.upstreams.base import MODELS_PATH
from routing.upstreams.wires import get_wire

TOTAL_S: Final = 10.0
AT_ONCE: Final = 10
_BODY_BYTES_MAX: Final = 1024 * 1024
_PUBLISH_LIMIT_S: Final = 1.0
_LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
_REASON_CHARS: Final = 200


class ProbeResult(NamedTuple):
    """The outcome of a probe. `status` None: no answer came, `reason` says why. `ok` None: the
    answer shows neither health nor failure, such as 429."""

    ok: bool | None
    status: int | None
    latency_ms: int | None
    reason: str


def probe_due_providers(now: datetime) -> int:
    """Probe every provider whose interval has passed; returns how many. Ten take about
    `TOTAL_S` seconds at most."""
    providers = Provider.objects.filter(probe_interval_s__isnull=False, status__gt=STATUS_DISABLED)
    for provider in providers.filter(probe__isnull=True):
        ProviderProbe.objects.get_or_create(provider=provider, defaults={"at": _LONG_AGO})
    probes = ProviderProbe.objects.filter(provider__in=providers).select_related("provider")
    # Threads are to find what they need without a connection.
    probes = probes.prefetch_related("provider__credentials")
    due = []
    for probe in probes:
        # Of two workers the one that moves the time sends the probe.
        row = ProviderProbe.objects.filter(pk=probe.pk, at=probe.at)
        interval = timedelta(seconds=probe.provider.probe_interval_s or 0)
        if now - probe.at >= interval and row.update(at=now):
            due.append(probe)
    if not due:
        return 0
    with ThreadPoolExecutor(max_workers=AT_ONCE) as threads:
        results = list(threads.map(_probe, [probe.provider for probe in due]))
    events = [
        event
        for probe, result in zip(due, results, strict=True)
        for event in _save_result(probe, result, now)
    ]
    if events:
        publish = partial(_publish, events=events)
        shared_cache().run(publish, False, limit_s=_PUBLISH_LIMIT_S, knocks=True)
    return len(due)


def probe_provider(
    base_url: str, kind: str, credential: str | None, *, total_s: float = TOTAL_S
) -> ProbeResult:
    """Probe one provider: request its list of models and read the head of the answer."""
    started = time.monotonic()
    # Its own client: this is no web process, and no connection stays open.
    client = HttpClient(pool_size_per_origin=0, proxy=settings.ROUTER_UPSTREAM_PROXY or None)
    try:
        with client.send(
            Origin.parse(base_url),
            method="GET",
            path=MODELS_PATH,
            headers=get_wire(kind).listing(credential).headers,
            body=b"",
            limits=Limits(min(5.0, total_s), total_s, total_s, _BODY_BYTES_MAX),
            deadline=started + total_s,
        ) as reply:
            status = reply.status
    except (OutboundError, ValueError) as error:
        return ProbeResult(False, None, None, f"No answer: {error}"[:_REASON_CHARS])
    latency_ms = round((time.monotonic() - started) * 1000)
    # A refusal counts as up: the provider may lack a list of models, or the credential may be for
    # chats alone.
    is_up = None if status == 429 else status < 500
    return ProbeResult(is_up, status, latency_ms, "")


def _probe(provider: Provider) -> ProbeResult:
    try:
        credential = find_credential(provider)
    except UnsealError:
        # Health can be probed without a credential.
        credential = None
    return probe_provider(provider.base_url, provider.kind, credential)


def _save_result(probe: ProviderProbe, result: ProbeResult, now: datetime) -> list[HealthEvent]:
    """Store the outcome; returns the events that web processes need."""
    was_ok = probe.ok
    if result.ok is not None and result.ok != was_ok:
        probe.ok, probe.since = result.ok, now
    probe.at, probe.status, probe.said = now, result.status, result.reason
    probe.latency_ms = result.latency_ms
    probe.save(update_fields=["at", "ok", "since", "status", "latency_ms", "said"])
    if result.ok is False:
        return _build_events(probe.provider, "outage")
    # A probe ends only outages that a probe found: requests may fail where the list works.
    return _build_events(probe.provider, "well") if result.ok and was_ok is False else []


def _build_events(provider: Provider, kind: Kind) -> list[HealthEvent]:
    at = time.monotonic()
    endpoints = Endpoint.objects.filter(provider=provider, status__gt=STATUS_DISABLED)
    return [HealthEvent(kind, pk, at) for pk in endpoints.values_list("pk", flat=True)]


def _publish(store: "redis.Redis", events: list[HealthEvent]) -> bool:
    seconds, _ = store.time()
    pipe = store.pipeline(transaction=False)
    data = serialize_entry((), events, now=time.monotonic())
    append_entry(pipe, data, name="probes", store_ms=seconds * 1000)
    pipe.execute()
    return True
