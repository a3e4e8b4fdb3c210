"""Rows about how endpoints and providers did. People read them; requests never do."""

from django.db import models
from django.db.models import Q

from routing.catalogue.models import Endpoint, Provider


class EndpointSample(models.Model):
    """Five minutes of one endpoint's traffic; a stretch without any has no row.

    `calls` were answered or failed, `errors` of them failed; `rate_limited` ones are in neither.
    Times to first token are in milliseconds, throughput is the median in tokens per second.
    """

    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.CASCADE, related_name="samples", db_index=False
    )
    started_at = models.DateTimeField()
    calls = models.PositiveIntegerField(default=0)
    errors = models.PositiveIntegerField(default=0)
    rate_limited = models.PositiveIntegerField(default=0)
    first_token_p50_ms = models.PositiveIntegerField(null=True)
    first_token_p90_ms = models.PositiveIntegerField(null=True)
    throughput_tps = models.FloatField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="routing_endpointsample_once", fields=["endpoint", "started_at"]
            ),
            models.CheckConstraint(
                name="routing_endpointsample_errors_are_calls",
                condition=Q(errors__lte=models.F("calls")),
            ),
        ]
        indexes = [models.Index(fields=["started_at"], name="routing_endpointsample_time")]

    def __str__(self) -> str:
        return f"{self.endpoint_id} from {self.started_at}"


class ProviderProbe(models.Model):
    """The outcome of a provider's last active probe, and since when it has been so.

    `status` is the provider's own, null when no answer came; `said` tells why there was none.
    """

    provider = models.OneToOneField(Provider, on_delete=models.CASCADE, related_name="probe")
    at = models.DateTimeField()
    ok = models.BooleanField(null=True)
    since = models.DateTimeField(null=True)
    status = models.PositiveSmallIntegerField(null=True)
    latency_ms = models.PositiveIntegerField(null=True)
    said = models.CharField(max_length=200, default="")

    def __str__(self) -> str:
        return f"probe of {self.provider_id} at {self.at}"
