"""Active health probes: a cheap question to a provider, asked by the schedule.

They are off unless a provider has an interval. What they find is told to the web processes like an
outage that a request met; their time is no traffic's and is in no statistics.
"""

import time
from collections.abc import Iterable
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
from routing.catalogue.models import Endpoint, Provider
from routing.entities.vocabulary import STATUS_DISABLED
from routing.statistics.five_minutes import ProviderProbe
from routing.statistics.marks import Kind, Mark
from routing.statistics.shared_form import append, entry_json
from routing.upstreams.bearer import MODELS_PATH
from routing.upstreams.wires import wire_of

TOTAL_S: Final = 10.0
AT_ONCE: Final = 10
_BODY_BYTES_MAX: Final = 1024 * 1024
_TELL_LIMIT_S: Final = 1.0
_LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
_SAID_CHARS: Final = 200


class Found(NamedTuple):
    """What a probe found. `status` None: no answer came. `ok` None: the provider said something
    that tells neither, such as that there were too many requests."""

    ok: bool | None
    status: int | None
    latency_ms: int | None
    said: str


def probe_due(now: datetime) -> int:
    """Probe every provider whose interval has passed; returns how many. All of it takes about
    `TOTAL_S` for every ten."""
    due = [probe for probe in _probes() if _is_due(probe, now) and _claim(probe, now)]
    if not due:
        return 0
    with ThreadPoolExecutor(max_workers=AT_ONCE) as threads:
        found = list(threads.map(lambda probe: ask(*_asked(probe.provider)), due))
    marks = [
        mark for probe, one in zip(due, found, strict=True) for mark in _settle(probe, one, now)
    ]
    if marks:
        tell = partial(_tell, marks=marks)
        shared_cache().run(tell, False, limit_s=_TELL_LIMIT_S, knocks=True)
    return len(due)


def ask(base_url: str, kind: str, credential: str | None, *, total_s: float = TOTAL_S) -> Found:
    """One probe: which models are there, of which the answer's head is enough."""
    started = time.monotonic()
    # A door of its own: this is no web process, and it keeps nothing open.
    client = HttpClient(pool_size_per_origin=0, proxy=settings.ROUTER_UPSTREAM_PROXY or None)
    try:
        with client.send(
            Origin.parse(base_url),
            method="GET",
            path=MODELS_PATH,
            headers=wire_of(kind).listing(credential).headers,
            body=b"",
            limits=Limits(min(5.0, total_s), total_s, total_s, _BODY_BYTES_MAX),
            deadline=started + total_s,
        ) as reply:
            status = reply.status
    except (OutboundError, ValueError) as error:
        return Found(False, None, None, f"No answer: {error}"[:_SAID_CHARS])
    latency_ms = round((time.monotonic() - started) * 1000)
    return Found(_verdict(status), status, latency_ms, "")


def _verdict(status: int) -> bool | None:
    """Whoever refuses is there: a missing list of models, or a credential for chats alone."""
    return None if status == 429 else status < 500


def _probes() -> Iterable[ProviderProbe]:
    wanted = Provider.objects.filter(probe_interval_s__isnull=False, status__gt=STATUS_DISABLED)
    for provider in wanted.filter(probe__isnull=True):
        ProviderProbe.objects.get_or_create(provider=provider, defaults={"at": _LONG_AGO})
    return ProviderProbe.objects.filter(provider__in=wanted).select_related("provider")


def _is_due(probe: ProviderProbe, now: datetime) -> bool:
    return now - probe.at >= timedelta(seconds=probe.provider.probe_interval_s or 0)


def _claim(probe: ProviderProbe, now: datetime) -> bool:
    """Of two workers that look at once, one asks."""
    return bool(ProviderProbe.objects.filter(pk=probe.pk, at=probe.at).update(at=now))


def _asked(provider: Provider) -> tuple[str, str, str | None]:
    try:
        return provider.base_url, provider.kind, provider.credential()
    except UnsealError:
        # Whether it is there can be asked without one.
        return provider.base_url, provider.kind, None


def _settle(probe: ProviderProbe, found: Found, now: datetime) -> list[Mark]:
    """Write down what was found; what others need to be told of it."""
    was_ok = probe.ok
    if found.ok is not None and found.ok != was_ok:
        probe.ok, probe.since = found.ok, now
    probe.at, probe.status, probe.said = now, found.status, found.said
    probe.latency_ms = found.latency_ms
    probe.save(update_fields=["at", "ok", "since", "status", "latency_ms", "said"])
    if found.ok is False:
        return _marks(probe.provider, "outage")
    # Only what a probe has found is taken back by one: requests may fail where a list does not.
    return _marks(probe.provider, "well") if found.ok and was_ok is False else []


def _marks(provider: Provider, kind: Kind) -> list[Mark]:
    at = time.monotonic()
    endpoints = Endpoint.objects.filter(provider=provider, status__gt=STATUS_DISABLED)
    return [Mark(kind, pk, at) for pk in endpoints.values_list("pk", flat=True)]


def _tell(store: "redis.Redis", marks: list[Mark]) -> bool:
    seconds, _ = store.time()
    pipe = store.pipeline(transaction=False)
    data = entry_json((), marks, now=time.monotonic())
    append(pipe, data, name="probes", store_ms=seconds * 1000)
    pipe.execute()
    return True
