"""Several credentials of the gateway's for one provider: the rows of its pool."""

from django.db import models
from django.db.models import Q

from accounts.byok import mask_key
from gateway.sealing import seal, unseal
from routing.catalogue.models import PURPOSE, Provider
from routing.catalogue.version import Versioned

WEIGHT_MAX = 1000


class ProviderCredential(Versioned):
    """One of a provider's credentials. Where there are any, requests are sent with these alone.

    `weight` is its share of the requests relative to the others'; 0 takes it out. Its spend is in
    `CredentialSpend`, under the provider's slug and the label, and outlives it.
    """

    provider = models.ForeignKey(Provider, on_delete=models.CASCADE, related_name="credentials")
    label = models.CharField(max_length=64)
    sealed = models.CharField(max_length=20_000, editable=False)
    masked = models.CharField(max_length=32, editable=False, default="")
    weight = models.PositiveSmallIntegerField(
        default=1, help_text="Its share of the requests relative to the others'; 0 takes it out."
    )
    rate_limits = models.JSONField(
        null=True,
        blank=True,
        default=None,
        help_text="A list of limits on all requests sent with it, with requests_per_minute, "
        "requests_per_day, tokens_per_minute, concurrent.",
    )

    class Meta:
        ordering = ["provider", "label"]
        constraints = [
            models.UniqueConstraint(
                name="routing_credential_label_once_per_provider", fields=["provider", "label"]
            ),
            models.CheckConstraint(
                name="routing_credential_weight_bounded",
                condition=Q(weight__gte=0, weight__lte=WEIGHT_MAX),
            ),
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def seal_row(self) -> str:
        """What its content is bound to. A slug has no `/`."""
        return name_seal_row(self.provider.slug, self.label)

    def secret(self) -> str:
        """The opened credential. Raises `gateway.sealing.UnsealError`."""
        return open_pooled(self.sealed, slug=self.provider.slug, label=self.label)

    def set_secret(self, secret: str) -> None:
        """Seal a credential for this row. The caller saves."""
        self.sealed = seal(secret, purpose=PURPOSE, row=self.seal_row)
        self.masked = mask_key(secret)


def name_seal_row(slug: str, label: str) -> str:
    return f"{slug}/{label}"


def open_pooled(sealed: str, *, slug: str, label: str) -> str:
    """The credential of a pool. Raises `gateway.sealing.UnsealError`."""
    return unseal(sealed, purpose=PURPOSE, row=name_seal_row(slug, label))


def find_credential(provider: Provider) -> str | None:
    """The provider's own credential, else one of its pool: for what is no request of a caller's.
    Raises `gateway.sealing.UnsealError`."""
    own = provider.credential()
    if own is not None:
        return own
    pooled = min(provider.credentials.all(), key=lambda row: row.pk, default=None)
    if pooled is None:
        return None
    return open_pooled(pooled.sealed, slug=provider.slug, label=pooled.label)
