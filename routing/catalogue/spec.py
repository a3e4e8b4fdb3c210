"""The form of a catalogue file, checked strictly and before anything is written."""

import re
from datetime import UTC, date, datetime, time
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from gateway.http.jsonio import JsonObject
from gateway.http.validation import join_issues, list_issues
from gateway.limits.rules import LIMITS_MAX, EndpointRateLimit, dump_limits
from routing.decisions.calibration import TEMPERATURE_MAX, TEMPERATURE_MIN
from routing.entities.prices import PriceError, Prices
from routing.entities.vocabulary import (
    CATEGORIES,
    DEFAULT_PARAMETERS,
    EFFORTS,
    EXTRA_PARAMETER_FORM,
    INPUT_MODALITIES,
    OUTPUT_MODALITIES,
    PARAMETERS,
    PRICE_SOURCES,
    PROBE_INTERVAL_MIN_S,
    QUANTIZATIONS,
    REGIONS,
    STATUSES,
    TIERS,
    WIRE_KINDS,
)

_HTTP = re.compile(r"https?://[^\s/]+")


def _one_of(words: tuple[Any, ...]) -> AfterValidator:
    def check(value: object) -> Any:
        if value not in words:
            raise ValueError(f"expected one of {', '.join(map(str, words))}, got {value!r}")
        return value

    return AfterValidator(check)


def _drop_repeats(words: list[str]) -> list[str]:
    return list(dict.fromkeys(words))


def _check_http_url(value: str) -> str:
    if not _HTTP.match(value):
        raise ValueError("expected a URL that begins with http:// or https://")
    return value


def _strip_slash(value: str) -> str:
    return value.rstrip("/")


def _parse_unix_seconds(value: object) -> object:
    """A date or moment of YAML as Unix seconds."""
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time(), UTC)
    if isinstance(value, datetime):
        return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp())
    return value


def _format_day(value: object) -> object:
    return value.isoformat() if type(value) is date else value


def _words(words: tuple[str, ...]) -> Any:
    return Annotated[list[Annotated[str, _one_of(words)]], AfterValidator(_drop_repeats)]


_Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]
ModelId = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._:-]*$", max_length=200
    ),
]
Alias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$", max_length=200)]
Tag = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*(/[a-z0-9._-]+)?$", max_length=128)
]
Url = Annotated[_Line, AfterValidator(_check_http_url)]
ParameterName = Annotated[str, _one_of(DEFAULT_PARAMETERS)]
Country = Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}$")]
Day = Annotated[
    str, BeforeValidator(_format_day), StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")
]
Seconds = Annotated[float, Field(gt=0, le=604_800)]
Count = Annotated[int, Field(ge=1, le=2**53)]
Temperature = Annotated[float, Field(ge=TEMPERATURE_MIN, le=TEMPERATURE_MAX, allow_inf_nan=False)]
Status = Annotated[int, _one_of(STATUSES)]
Inputs: TypeAlias = _words(INPUT_MODALITIES)  # type: ignore[valid-type]  # Built from the vocabulary.
Outputs: TypeAlias = _words(OUTPUT_MODALITIES)  # type: ignore[valid-type]  # Built from the vocabulary.
Categories: TypeAlias = _words(CATEGORIES)  # type: ignore[valid-type]  # Built from the vocabulary.
ExtraParameters: TypeAlias = Annotated[
    list[Annotated[str, StringConstraints(pattern=EXTRA_PARAMETER_FORM)]],
    AfterValidator(_drop_repeats),
]
Parameters: TypeAlias = _words(PARAMETERS)  # type: ignore[valid-type]  # Built from the vocabulary.


def _publish_pricing(value: object) -> object:
    """A pricing object in its published form; `auto` and null stay."""
    return value if value in (None, "auto") else Prices.parse(value).serialize()


_LIMITS: TypeAdapter[list[EndpointRateLimit]] = TypeAdapter(
    Annotated[list[EndpointRateLimit], Field(max_length=LIMITS_MAX)]
)


def _check_rate_limits(value: object) -> object:
    """The limits as the column keeps them."""
    if value is None:
        return None
    try:
        return dump_limits(_LIMITS.validate_python(value, strict=True))
    except ValidationError as error:
        raise ValueError(join_issues(list_issues(error))) from None


RateLimits: TypeAlias = Annotated[list[JsonObject] | None, BeforeValidator(_check_rate_limits)]
Secret = Annotated[str, Field(min_length=1, max_length=10_000)]


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class CredentialSpec(_Spec):
    label: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    credential: Secret | None = None
    weight: Annotated[int, Field(ge=0, le=1000)] = 1
    rate_limits: RateLimits = None


class ProviderSpec(_Spec):
    slug: Slug
    name: Annotated[_Line, Field(max_length=100)]
    kind: Annotated[str, _one_of(WIRE_KINDS)] = "openai"
    base_url: Annotated[Url, AfterValidator(_strip_slash)]
    credential: Secret | None = None
    credentials: list[CredentialSpec] = []
    collects_data: bool = True
    zdr: bool = False
    supports_cancellation: bool = False
    moderated: bool = False
    publishes_data: bool | None = None
    privacy_policy_url: Url | None = None
    terms_of_service_url: Url | None = None
    status_page_url: Url | None = None
    headquarters: Country | None = None
    datacenters: list[Country] | None = None
    connect_s: Seconds | None = None
    first_byte_s: Seconds | None = None
    idle_s: Seconds | None = None
    total_s: Seconds | None = None
    cache_lifetime_s: Seconds | None = None
    probe_interval_s: Annotated[Seconds, Field(ge=PROBE_INTERVAL_MIN_S)] | None = None
    status: Status = 0


class EndpointSpec(_Spec):
    provider: Slug
    tag: Tag = ""
    upstream_model: _Line
    status: Status = 0
    pricing: Annotated[JsonObject | Literal["auto"] | None, BeforeValidator(_publish_pricing)] = (
        None
    )
    price_source: Annotated[str, _one_of(PRICE_SOURCES)] = "hand"
    quantization: Annotated[str, _one_of(QUANTIZATIONS)] | None = None
    context_length: Count | None = None
    max_completion_tokens: Count | None = None
    max_prompt_tokens: Count | None = None
    supported_parameters: Parameters = []
    extra_parameters: ExtraParameters = []
    supports_implicit_caching: bool = False
    input_modalities: Inputs | None = None
    output_modalities: Outputs | None = None
    tier: Annotated[str, _one_of(TIERS)] = "default"
    region: Annotated[str, _one_of(REGIONS)] = "global"
    collects_data: bool | None = None
    zdr: bool | None = None
    supports_cancellation: bool | None = None
    moderated: bool | None = None
    publishes_data: bool | None = None
    decisions_max_questions: Count | None = None
    decisions_max_options: Count | None = None
    decisions_max_levels: Count | None = None
    rate_limits: RateLimits = None

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, given: Any) -> Any:
        """The tag is the provider's slug, its suffix names the tier, unless the file says so.

        `pricing: auto` is a price from the book; so is one that a dump wrote out as such.
        """
        if not isinstance(given, dict) or not isinstance(given.get("provider"), str):
            return given
        tag = given.get("tag") or given["provider"]
        suffix = tag.rpartition("/")[2] if isinstance(tag, str) else ""
        tier = suffix if suffix in ("flex", "priority") else "default"
        source = {"price_source": "book"} if given.get("pricing") == "auto" else {}
        return {"tier": tier, **given, "tag": tag, **source}

    @model_validator(mode="after")
    def _tag_names_provider(self) -> "EndpointSpec":
        if self.tag.partition("/")[0] != self.provider:
            raise ValueError(f"the tag must be {self.provider} or {self.provider}/variant")
        return self


class ReasoningSpec(_Spec):
    mandatory: bool
    default_enabled: bool | None = None
    default_effort: Annotated[str, _one_of(EFFORTS)] | None = None
    supported_efforts: list[Annotated[str, _one_of(EFFORTS)]] | None = None
    supports_max_tokens: bool | None = None


class LimitsSpec(_Spec):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None


class ModelSpec(_Spec):
    id: ModelId
    canonical_slug: ModelId = ""
    name: _Line
    description: Annotated[str, Field(max_length=20_000)] = ""
    created: Annotated[int, BeforeValidator(_parse_unix_seconds), Field(ge=0, le=2**40)] | None = (
        None
    )
    aliases: list[Alias] = []
    family: ModelId | None = None
    visible: bool = True
    decisions: bool | None = None
    decisions_temperature: Temperature | None = None
    distillable: bool = False
    context_length: Count | None = None
    first_byte_s: Seconds | None = None
    input_modalities: Inputs = ["text"]
    output_modalities: Outputs = ["text"]
    categories: Categories = []
    tokenizer: Annotated[_Line, Field(max_length=64)] | None = None
    instruct_type: Annotated[_Line, Field(max_length=64)] | None = None
    hugging_face_id: _Line | None = None
    knowledge_cutoff: Day | None = None
    expiration_date: Day | None = None
    default_parameters: dict[ParameterName, float | None] | None = None
    per_request_limits: LimitsSpec | None = None
    reasoning: ReasoningSpec | None = None
    supported_voices: list[_Line] | None = None
    endpoints: list[EndpointSpec] = []


class CatalogueSpec(_Spec):
    providers: list[ProviderSpec] = []
    models: list[ModelSpec] = []


def parse_spec(document: object) -> tuple[CatalogueSpec | None, list[str]]:
    """The file's data as a spec, or what is wrong with it, each with its place."""
    try:
        return CatalogueSpec.model_validate({} if document is None else document), []
    except ValidationError as error:
        errors = []
        for detail in error.errors(include_url=False):
            # `("models", 3, "pricing", "[key]")` is written as `models[3].pricing`.
            parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in detail["loc"]]
            place = "".join(part for part in parts if part != ".[key]").lstrip(".")
            text = "unknown key" if detail["type"] == "extra_forbidden" else detail["msg"]
            cause = detail.get("ctx", {}).get("error")
            if isinstance(cause, PriceError):
                place = f"{place}.{cause.field}" if cause.field else place
                text = cause.problem
            errors.append(f"{place or 'the file'}: {text.removeprefix('Value error, ')}")
        return None, errors
