"""What each credential of a pool has spent: a row per day, written in the transaction that charges
the requests."""

from django.db import models


class CredentialSpend(models.Model):
    """What was asked with one credential on one day (UTC): how many requests it answered, and what
    the provider is expected to bill for them. Names instead of keys: it outlives the credential."""

    provider = models.CharField(max_length=64)
    label = models.CharField(max_length=64)
    day = models.DateField()
    requests = models.BigIntegerField(default=0)
    cost_nano = models.BigIntegerField(default=0)

    class Meta:
        ordering = ["-day", "provider", "label"]
        verbose_name_plural = "credential spend"
        constraints = [
            models.UniqueConstraint(
                name="routing_credentialspend_once_per_day", fields=["provider", "label", "day"]
            ),
        ]

    def __str__(self) -> str:
        return f"{self.provider}/{self.label} on {self.day}"
