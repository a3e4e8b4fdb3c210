"""What can answer: providers, the models they serve, and the endpoints between the two.

Names of fields are the keys of the catalogue file and of the API. Prices are the published pricing
object: decimal strings, USD per token or unit.
"""

import re
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from gateway.sealing import seal, unseal
from routing.catalogue.version import Versioned
from routing.decisions.calibration import TEMPERATURE_MAX, TEMPERATURE_MIN
from routing.entities.prices import PriceError, Prices
from routing.entities.vocabulary import (
    CATEGORIES,
    EXTRA_PARAMETER_FORM,
    INPUT_MODALITIES,
    OUTPUT_MODALITIES,
    PARAMETERS,
    PRICE_SOURCES,
    QUANTIZATIONS,
    REGIONS,
    STATUSES,
    TIERS,
    WIRE_KINDS,
)

PURPOSE = "provider-credential"
_STATUS_NAMES = {
    0: "normal",
    -1: "elevated errors",
    -2: "rate limited",
    -3: "down",
    -5: "disabled by the operator",
    -10: "removed",
}
_STATUS_CHOICES = [(status, f"{status} {_STATUS_NAMES[status]}") for status in STATUSES]


def _choices(words: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(word, word) for word in words]


def _is_one_of(field: str, words: tuple[Any, ...]) -> Q:
    return Q(**{f"{field}__in": list(words)})


def _optional_text(max_length: int, **options: Any) -> "models.CharField[str | None, str | None]":
    """Text whose absence the API shows as null, so absence is NULL here too."""
    return models.CharField(max_length=max_length, null=True, blank=True, default=None, **options)


class Provider(Versioned):
    """A company or server that answers, and how to reach it."""

    slug = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=16, choices=_choices(WIRE_KINDS), default="openai")
    base_url = models.CharField(
        max_length=500, help_text="What stands before /chat/completions, /messages or /responses."
    )
    credential_sealed = _optional_text(20_000, editable=False)
    # A provider that does not say is taken to collect: silence must not pass for a promise.
    collects_data = models.BooleanField(default=True)
    zdr = models.BooleanField("zero data retention", default=False)
    supports_cancellation = models.BooleanField(default=False)
    moderated = models.BooleanField(default=False)
    publishes_data = models.BooleanField(
        null=True, blank=True, help_text="Unknown: where data is collected, it may be."
    )
    privacy_policy_url = _optional_text(500)
    terms_of_service_url = _optional_text(500)
    status_page_url = _optional_text(500)
    headquarters = _optional_text(2, help_text="ISO 3166-1 alpha-2 country code.")
    datacenters = models.JSONField(null=True, blank=True, help_text="List of country codes.")
    connect_s = models.FloatField(null=True, blank=True)
    first_byte_s = models.FloatField(null=True, blank=True)
    idle_s = models.FloatField(null=True, blank=True)
    total_s = models.FloatField(null=True, blank=True)
    cache_lifetime_s = models.FloatField(
        null=True, blank=True, help_text="How long it keeps prompts in its cache; empty: as usual."
    )
    probe_interval_s = models.FloatField(
        null=True,
        blank=True,
        help_text="How often to ask whether it answers (GET of its models); empty: never.",
    )
    status = models.SmallIntegerField(choices=_STATUS_CHOICES, default=0)

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                name="routing_provider_kind_known", condition=_is_one_of("kind", WIRE_KINDS)
            ),
            models.CheckConstraint(
                name="routing_provider_status_known", condition=_is_one_of("status", STATUSES)
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def has_credential(self) -> bool:
        return self.credential_sealed is not None

    def credential(self) -> str | None:
        """The opened credential. Raises `gateway.sealing.UnsealError`."""
        if self.credential_sealed is None:
            return None
        return open_credential(self.credential_sealed, slug=self.slug)

    def set_credential(self, credential: str | None) -> None:
        """Seal a credential for this row's slug; None removes it. The caller saves."""
        self.credential_sealed = (
            None if credential is None else seal(credential, purpose=PURPOSE, row=self.slug)
        )


def open_credential(sealed: str, *, slug: str) -> str:
    """The credential sealed for the provider `slug`. Raises `gateway.sealing.UnsealError`."""
    return unseal(sealed, purpose=PURPOSE, row=slug)


class Model(Versioned):
    """Something callers can name. It answers through its endpoints."""

    slug = models.CharField("id", max_length=200, unique=True, help_text="author/slug")
    canonical_slug = models.CharField(max_length=200)
    name = models.CharField(max_length=200)
    description = models.TextField(blank=True, default="")
    created = models.BigIntegerField(help_text="Unix seconds.")
    context_length = models.PositiveBigIntegerField(null=True, blank=True)
    first_byte_s = models.FloatField(
        null=True, blank=True, help_text="Seconds to the first byte; empty: the provider's limit."
    )
    input_modalities = models.JSONField(default=list)
    output_modalities = models.JSONField(default=list)
    family = _optional_text(200, help_text="author/name, for ~author/name-latest.")
    categories = models.JSONField(default=list, blank=True)
    visible = models.BooleanField(default=True)
    decisions = models.BooleanField("answers decisions", default=True)
    decisions_temperature = models.FloatField(
        null=True,
        blank=True,
        help_text="Log-probabilities of decisions are divided by it. Above 1: less sure of itself.",
    )
    distillable = models.BooleanField(default=False)
    tokenizer = _optional_text(64)
    instruct_type = _optional_text(64)
    hugging_face_id = _optional_text(200)
    knowledge_cutoff = _optional_text(10, help_text="YYYY-MM-DD")
    expiration_date = _optional_text(10, help_text="YYYY-MM-DD")
    default_parameters = models.JSONField(null=True, blank=True)
    per_request_limits = models.JSONField(null=True, blank=True)
    reasoning = models.JSONField(null=True, blank=True)
    supported_voices = models.JSONField(null=True, blank=True)

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                name="routing_model_decisions_temperature_bounded",
                condition=Q(decisions_temperature__isnull=True)
                | Q(
                    decisions_temperature__gte=TEMPERATURE_MIN,
                    decisions_temperature__lte=TEMPERATURE_MAX,
                ),
            ),
        ]

    def __str__(self) -> str:
        return self.slug

    def clean(self) -> None:
        """What a person typed, held to the rules of a catalogue file."""
        _check_words(self, "input_modalities", INPUT_MODALITIES)
        _check_words(self, "output_modalities", OUTPUT_MODALITIES)
        _check_words(self, "categories", CATEGORIES)


class ModelAlias(Versioned):
    """Another name a model answers to."""

    alias = models.CharField(max_length=200, unique=True)
    model = models.ForeignKey(Model, on_delete=models.CASCADE, related_name="aliases")

    class Meta:
        ordering = ["alias"]
        verbose_name_plural = "model aliases"

    def __str__(self) -> str:
        return f"{self.alias} → {self.model_id}"


class Endpoint(Versioned):
    """One provider serving one model, at a price. Without a price it is never called.

    A flag that is null here is the provider's, a length or modality that is null the model's.
    """

    model = models.ForeignKey(Model, on_delete=models.CASCADE, related_name="endpoints")
    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="endpoints")
    tag = models.CharField(max_length=128, help_text="Provider slug, or slug/variant.")
    upstream_model = models.CharField(max_length=200)
    status = models.SmallIntegerField(choices=_STATUS_CHOICES, default=0)
    pricing = models.JSONField(null=True, blank=True)
    price_source = models.CharField(
        max_length=8,
        choices=[("hand", "set by hand"), ("book", "price book (refresh_prices)")],
        default="hand",
        # Also the table's own: an older version still writes while a new one moves in.
        db_default="hand",
    )
    quantization = _optional_text(16, choices=_choices(QUANTIZATIONS))
    context_length = models.PositiveBigIntegerField(null=True, blank=True)
    max_completion_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    max_prompt_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    supported_parameters = models.JSONField(default=list, blank=True)
    extra_parameters = models.JSONField(
        default=list,
        blank=True,
        help_text="Body fields beyond the published vocabulary that are forwarded, e.g. "
        "service_tier, modalities, prompt_cache_key, user (hashed), developer (the role).",
    )
    supports_implicit_caching = models.BooleanField(default=False)
    input_modalities = models.JSONField(null=True, blank=True)
    output_modalities = models.JSONField(null=True, blank=True)
    tier = models.CharField(max_length=16, choices=_choices(TIERS), default="default")
    region = models.CharField(max_length=16, choices=_choices(REGIONS), default="global")
    collects_data = models.BooleanField(null=True, blank=True)
    zdr = models.BooleanField("zero data retention", null=True, blank=True)
    supports_cancellation = models.BooleanField(null=True, blank=True)
    moderated = models.BooleanField(null=True, blank=True)
    publishes_data = models.BooleanField(null=True, blank=True)
    decisions_max_questions = models.PositiveIntegerField(null=True, blank=True)
    decisions_max_options = models.PositiveIntegerField(null=True, blank=True)
    decisions_max_levels = models.PositiveIntegerField(null=True, blank=True)
    rate_limits = models.JSONField(
        null=True,
        blank=True,
        default=None,
        help_text="A list of limits on all its requests together, with requests_per_minute, "
        "requests_per_day, tokens_per_minute, concurrent.",
    )

    class Meta:
        ordering = ["model", "tag"]
        constraints = [
            models.UniqueConstraint(
                name="routing_endpoint_tag_once_per_model", fields=["model", "tag"]
            ),
            models.CheckConstraint(
                name="routing_endpoint_status_known", condition=_is_one_of("status", STATUSES)
            ),
            models.CheckConstraint(
                name="routing_endpoint_tier_known", condition=_is_one_of("tier", TIERS)
            ),
            models.CheckConstraint(
                name="routing_endpoint_region_known", condition=_is_one_of("region", REGIONS)
            ),
            models.CheckConstraint(
                name="routing_endpoint_price_source_known",
                condition=_is_one_of("price_source", PRICE_SOURCES),
            ),
            models.CheckConstraint(
                name="routing_endpoint_quantization_known",
                condition=Q(quantization__isnull=True) | _is_one_of("quantization", QUANTIZATIONS),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tag} | {self.upstream_model}"

    def clean(self) -> None:
        """What a person typed, held to the rules of a catalogue file; prices are put in order."""
        _check_words(self, "supported_parameters", PARAMETERS)
        names = self.extra_parameters
        if not isinstance(names, list) or not all(
            isinstance(name, str) and re.match(EXTRA_PARAMETER_FORM, name) for name in names
        ):
            text = f"expected a list of names like {EXTRA_PARAMETER_FORM}"
            raise ValidationError({"extra_parameters": text})
        _check_words(self, "input_modalities", INPUT_MODALITIES)
        _check_words(self, "output_modalities", OUTPUT_MODALITIES)
        if self.pricing is not None:
            try:
                self.pricing = Prices.parse(self.pricing).serialize()
            except PriceError as error:
                raise ValidationError({"pricing": str(error)}) from error


def _check_words(row: models.Model, field: str, words: tuple[str, ...]) -> None:
    value = getattr(row, field)
    if value is not None and not (isinstance(value, list) and set(map(str, value)) <= set(words)):
        raise ValidationError({field: f"expected a list out of {', '.join(words)}"})
