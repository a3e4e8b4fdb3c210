"""What processes write down of endpoints, providers and the catalogue, to look at."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from gateway.admin import ReadOnlyAdmin
from routing.catalogue.version import CatalogueServing, CatalogueVersion
from routing.metering.popularity import CallsCounted, DailyCalls
from routing.statistics.models import EndpointSample, ProviderProbe

_ANSWERS = {True: "answers", False: "does not answer", None: "nothing known"}


class DropsHistory:
    """For pages whose rows take what was written down of them along: it is read only, which the
    admin would otherwise refuse to delete the row for it."""

    def get_deleted_objects(self, objs: object, request: HttpRequest) -> Any:
        deleted = super().get_deleted_objects(objs, request)  # type: ignore[misc]  # A mixin of admin pages.
        listed, counts, needed, protected = deleted
        history = {str(kind._meta.verbose_name) for kind in (EndpointSample, ProviderProbe)}
        return listed, counts, set(needed) - history, protected


@admin.register(EndpointSample)
class EndpointSampleAdmin(ReadOnlyAdmin):
    """Five minutes of an endpoint; the charts on its page are drawn from these."""

    list_display = (
        *("started_at", "endpoint", "calls", "errors", "rate_limited"),
        *("first_token_p50_ms", "first_token_p90_ms", "throughput_tps"),
    )
    list_select_related = ("endpoint",)
    search_fields = ("endpoint__tag", "endpoint__model__slug")
    ordering = ("-started_at", "endpoint")


@admin.register(ProviderProbe)
class ProviderProbeAdmin(ReadOnlyAdmin):
    """How the last active probe of each provider went."""

    list_display = ("provider", "ok", "since", "at", "status", "latency_ms", "said")
    list_select_related = ("provider",)
    ordering = ("provider",)


def probe_text(probe: ProviderProbe) -> str:
    """One line for a provider's page."""
    since = f" since {probe.since:%Y-%m-%d %H:%M} UTC" if probe.since else ""
    parts = [f"{_ANSWERS[probe.ok]}{since}; asked at {probe.at:%Y-%m-%d %H:%M:%S} UTC"]
    if probe.status is not None:
        parts.append(f"status {probe.status} after {probe.latency_ms} ms")
    if probe.said:
        parts.append(probe.said)
    return ", ".join(parts)


@admin.register(DailyCalls)
class DailyCallsAdmin(ReadOnlyAdmin):
    """How often each model answered: what the catalogue's popularity orders read."""

    list_display = ("day", "model", "calls")
    search_fields = ("model",)
    ordering = ("-day", "-calls")


@admin.register(CallsCounted)
class CallsCountedAdmin(ReadOnlyAdmin):
    """Up to when those were counted."""

    list_display = ("until",)


@admin.register(CatalogueVersion)
class CatalogueVersionAdmin(ReadOnlyAdmin):
    """One row; it counts changes."""

    list_display = ("version",)


@admin.register(CatalogueServing)
class CatalogueServingAdmin(ReadOnlyAdmin):
    """A process that was killed leaves its row behind; look at when it was last seen."""

    list_display = ("process", "version", "seen_at")
    ordering = ("-seen_at",)
