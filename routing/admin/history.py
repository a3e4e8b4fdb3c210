"""What processes write down of requests, endpoints and the catalogue, to look at.

Prompts are nobody's to see.
"""

from django.contrib import admin

from gateway.admin import ReadOnlyAdmin, usd_column
from routing.catalogue.version import CatalogueServing, CatalogueVersion
from routing.history.models import (
    DecisionCalibration,
    GenerationContent,
    GenerationFact,
    GenerationFeedback,
    LateHour,
    UsageBrief,
    UsageDay,
    UsageHour,
    UsageLine,
    UsageRolled,
    UsageSpread,
)
from routing.metering.popularity import CallsCounted, DailyCalls
from routing.reports.models import FailedRequest, FailedRequestCount
from routing.statistics.models import EndpointSample, ProviderProbe


@admin.register(GenerationFeedback)
class GenerationFeedbackAdmin(ReadOnlyAdmin):
    """Feedback of management keys on generations, newest first."""

    list_display = ("created_at", "category", "generation_id", "account_id", "comment")
    list_filter = ("category", "created_at")
    search_fields = ("generation_id__exact",)
    search_help_text = "Generation id"
    ordering = ("-created_at",)


@admin.register(DecisionCalibration)
class DecisionCalibrationAdmin(ReadOnlyAdmin):
    """What `calibrate_decisions` measured, newest first."""

    list_display = ("measured_at", "model", "account_id", "answers", "temperature", "is_applied")
    list_filter = ("model",)
    ordering = ("-measured_at",)


@admin.register(GenerationContent)
class GenerationContentAdmin(ReadOnlyAdmin):
    """That there is content, and since when. It is sealed, and nobody sees it here."""

    list_display = ("generation_id", "account_id", "created_at")
    fields = ("generation_id", "account_id", "created_at")
    search_fields = ("generation_id__exact",)
    ordering = ("-created_at",)


@admin.register(UsageLine)
class UsageLineAdmin(ReadOnlyAdmin):
    """What generations that are summed together have in common."""

    list_display = (
        *("id", "account_id", "api_key_id", "model", "endpoint_tag", "app"),
        *("finish_reason", "context_length_bucket"),
    )
    search_fields = ("model__exact", "endpoint_tag__exact", "app__exact")
    ordering = ("-id",)


class _SumsAdmin(ReadOnlyAdmin):
    charge = usd_column("charge_nano", "charged")
    list_display = (
        *("start", "account_id", "line_id", "requests", "tokens_prompt", "tokens_completion"),
        "charge",
    )
    ordering = ("-start", "line_id")


@admin.register(UsageHour)
class UsageHourAdmin(_SumsAdmin):
    """One line in one hour (UTC)."""


@admin.register(UsageDay)
class UsageDayAdmin(_SumsAdmin):
    """One line on one day (UTC)."""


@admin.register(UsageBrief)
class UsageBriefAdmin(_SumsAdmin):
    """One day (UTC) by workspace, key, model and endpoint alone."""


@admin.register(UsageSpread)
class UsageSpreadAdmin(ReadOnlyAdmin):
    """How latency and throughput spread on each day (UTC), bucket by bucket."""

    list_display = ("start", "account_id", "measure", "line_id", "bucket", "many")
    list_filter = ("measure",)
    ordering = ("-start", "-id")


@admin.register(GenerationFact)
class GenerationFactAdmin(ReadOnlyAdmin):
    """The figures of single generations of the last weeks."""

    charge = usd_column("charge_nano", "charged")
    list_display = ("generation_id", "at", "account_id", "line_id", "charge", "latency_ms")
    search_fields = ("generation_id__exact",)
    ordering = ("-at",)


@admin.register(UsageRolled)
class UsageRolledAdmin(ReadOnlyAdmin):
    """Up to when generations are summed up."""

    list_display = ("until",)


@admin.register(LateHour)
class LateHourAdmin(ReadOnlyAdmin):
    """Hours that are to be summed up again."""

    list_display = ("hour",)
    ordering = ("-id",)


@admin.register(FailedRequest)
class FailedRequestAdmin(ReadOnlyAdmin):
    """Requests that failed or were refused, newest first."""

    list_display = ("at", "status", "reason", "requested_model", "account_id", "request_id", "text")
    list_filter = ("status", "reason", "format", "at")
    search_fields = ("request_id__exact", "generation_id__exact", "account_id__exact")
    search_help_text = "Request id, generation id or account id"
    ordering = ("-at",)


@admin.register(FailedRequestCount)
class FailedRequestCountAdmin(ReadOnlyAdmin):
    """Failures without a record of their own: floods, and everything without a valid key."""

    list_display = (
        *("minute", "status", "reason", "requests", "account_id", "address", "key_prefix"),
    )
    list_filter = ("status", "reason", "minute")
    search_fields = ("account_id__exact", "address__exact", "key_prefix__exact")
    search_help_text = "Account id, address or beginning of a key"
    ordering = ("-minute",)


# --- Endpoints, providers and the catalogue -------------------------------------------------------


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
