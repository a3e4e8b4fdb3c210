"""The catalogue as callers read it: the fields of models, endpoints and providers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, WithJsonSchema, create_model

from gateway.http.jsonio import JsonObject
from gateway.http.resources import ABSENT, ResourceObject, enum
from routing.catalogue.listing import NOTHING, LearnedStats, list_published, top_endpoint
from routing.entities.entries import EndpointEntry, ModelEntry, Snapshot
from routing.entities.prices import PRICE_KEYS
from routing.entities.vocabulary import (
    DEFAULT_PARAMETERS,
    EFFORTS,
    INPUT_MODALITIES,
    OUTPUT_MODALITIES,
    PARAMETERS,
    QUANTIZATIONS,
    STATUS_REMOVED,
    STATUSES,
)
from routing.selection.types import Percentiles

_Price = Annotated[str, Field(description="USD per token or unit, a plain decimal.")]
_Effort = Annotated[str, enum(EFFORTS)]
_Parameters = list[Annotated[str, enum(PARAMETERS)]]
_Uptime = Annotated[
    float | None, Field(description="Percent; calls that were rate limited are not counted.")
]
_PRICES: Final[Any] = dict.fromkeys(PRICE_KEYS, (_Price, ABSENT))


class _OverrideConditions(ResourceObject):
    min_prompt_tokens: int = Field(ABSENT, description="Strictly more than this.")
    utc_start: str = Field(ABSENT, description="HHMM")
    utc_end: str = Field(ABSENT, description="HHMM, exclusive; may wrap midnight.")


PricingOverride = create_model(
    "PricingOverride",
    __base__=_OverrideConditions,
    __doc__="Prices that replace others while all conditions hold; later entries win.",
    **_PRICES,
)


class _Reductions(ResourceObject):
    discount: float = Field(ABSENT, ge=0, le=1)
    overrides: list[PricingOverride] = ABSENT


Pricing = create_model(
    "Pricing", __base__=_Reductions, **_PRICES | {"prompt": _Price, "completion": _Price}
)


class Architecture(ResourceObject):
    modality: str | None
    input_modalities: list[Annotated[str, enum(INPUT_MODALITIES)]]
    output_modalities: list[Annotated[str, enum(OUTPUT_MODALITIES)]]
    tokenizer: str
    instruct_type: str | None


class TopProvider(ResourceObject):
    """The endpoint that stands for a model."""

    context_length: int | None
    max_completion_tokens: int | None
    is_moderated: bool


class ModelReasoning(ResourceObject):
    mandatory: bool
    default_enabled: bool | None = ABSENT
    default_effort: _Effort | None = ABSENT
    supported_efforts: list[_Effort] | None = Field(description="Null: all of them.")
    supports_max_tokens: bool | None = ABSENT


class ModelLinks(ResourceObject):
    details: str


class AliasTarget(ResourceObject):
    """The model that an alias stands for."""

    slug: str
    name: str


def _open_numbers(names: Iterable[str], kind: str) -> WithJsonSchema:
    number = {"type": [kind, "null"]}
    return WithJsonSchema({"type": "object", "properties": dict.fromkeys(names, number)})


class ModelObject(ResourceObject):
    """A model that can be called."""

    model_config = ConfigDict(title="Model")

    id: str
    canonical_slug: str
    name: str
    created: int = Field(description="Unix seconds.")
    description: str
    context_length: int | None
    architecture: Architecture
    pricing: Pricing
    top_provider: TopProvider
    per_request_limits: (
        Annotated[JsonObject, _open_numbers(("prompt_tokens", "completion_tokens"), "integer")]
        | None
    )
    supported_parameters: _Parameters
    default_parameters: Annotated[JsonObject, _open_numbers(DEFAULT_PARAMETERS, "number")] | None
    supported_voices: list[str] | None
    links: ModelLinks
    hugging_face_id: str | None
    knowledge_cutoff: str | None
    expiration_date: str | None
    reasoning: ModelReasoning = ABSENT
    alias_target: AliasTarget = ABSENT


class NamedModel(ResourceObject):
    """A model as OpenAI's clients read it."""

    id: str
    object: Annotated[str, enum(["model"])]
    created: int
    owned_by: str
    data: ModelObject


class ToolChoices(ResourceObject):
    """Which values of `tool_choice` an endpoint is sent."""

    auto: bool
    none: bool
    required: bool
    function: bool


class EndpointPercentiles(ResourceObject):
    p50: float
    p75: float
    p90: float
    p99: float


class EndpointObject(ResourceObject):
    """An endpoint, and how it has done lately."""

    model_config = ConfigDict(title="Endpoint")

    name: str
    model_id: str
    model_name: str
    provider_name: str
    tag: str
    quantization: Annotated[str, enum(QUANTIZATIONS)] | None
    context_length: int | None
    max_completion_tokens: int | None
    max_prompt_tokens: int | None
    pricing: Pricing
    supported_parameters: _Parameters
    supports_tool_choice: ToolChoices
    native_tools: Annotated[JsonObject, WithJsonSchema({"type": "object", "maxProperties": 0})] = (
        Field(description="Server tools that it runs itself: none, the gateway runs them.")
    )
    supports_diarization: bool
    supports_implicit_caching: bool
    service_tier: Annotated[str, enum(["flex", "priority"])] | None
    status: Annotated[int, enum(STATUSES)]
    uptime_last_5m: _Uptime
    uptime_last_30m: _Uptime
    uptime_last_1d: _Uptime
    latency_last_30m: EndpointPercentiles | None = Field(
        description="Milliseconds to the first token."
    )
    throughput_last_30m: EndpointPercentiles | None = Field(description="Tokens per second.")


class ModelWithEndpoints(ResourceObject):
    """A model, and who serves it."""

    id: str
    name: str
    created: int
    description: str
    architecture: Architecture
    endpoints: list[EndpointObject]


class ProviderObject(ResourceObject):
    """Who serves models, and under which terms."""

    model_config = ConfigDict(title="Provider")

    name: str
    slug: str
    privacy_policy_url: str | None
    terms_of_service_url: str | None
    status_page_url: str | None
    headquarters: str | None = Field(description="ISO 3166-1 alpha-2.")
    datacenters: list[str] | None


def serialize_models(snapshot: Snapshot, models: Sequence[ModelEntry]) -> list[JsonObject]:
    """The JSON of models. That of the listing is made once for a snapshot; a model that was
    narrowed for one account is not among them."""
    listed = snapshot.derive(_serialize_listing)
    return [listed.get(model) or serialize_model(model) for model in models]


def _serialize_listing(snapshot: Snapshot) -> Mapping[ModelEntry, JsonObject]:
    return {model: serialize_model(model) for model in snapshot.listing}


def serialize_model(model: ModelEntry) -> JsonObject:
    """The JSON of a `ModelObject`, of a model with a published endpoint."""
    best = top_endpoint(model)
    assert best is not None
    computed: JsonObject = {}
    if model.reasoning is not None:
        # Its other fields are there where they are known.
        computed["reasoning"] = {"supported_efforts": None, **model.reasoning}
    return ModelObject.from_row(
        model,
        architecture=_serialize_architecture(model),
        pricing=dict(best.pricing or {}),
        top_provider=TopProvider.from_row(best, is_moderated=best.moderated),
        supported_parameters=_list_parameters(list_published(model)),
        supported_voices=_list_or_none(model.supported_voices),
        links={"details": f"/api/v1/models/{model.id}/endpoints"},
        **computed,
    )


def _serialize_architecture(model: ModelEntry) -> JsonObject:
    inputs, outputs = model.input_modalities, model.output_modalities
    return Architecture.from_row(
        model,
        modality=f"{'+'.join(inputs)}->{'+'.join(outputs)}" if inputs and outputs else None,
        input_modalities=list(inputs),
        output_modalities=list(outputs),
        tokenizer=model.tokenizer or "Other",
    )


def serialize_endpoint(endpoint: EndpointEntry, learned: LearnedStats = NOTHING) -> JsonObject:
    """The JSON of an `EndpointObject`; statistics are null where too little was learned."""
    stats = learned.find_stats(endpoint)
    tools = "tools" in endpoint.supported_parameters
    chooses = tools and "tool_choice" in endpoint.supported_parameters
    return EndpointObject.from_row(
        endpoint,
        name=f"{endpoint.provider.name} | {endpoint.model_id}",
        provider_name=endpoint.provider.name,
        pricing=dict(endpoint.pricing or {}),
        supported_parameters=_list_parameters([endpoint]),
        # `auto` is what an upstream does unasked.
        supports_tool_choice={
            "auto": tools,
            "none": chooses,
            "required": chooses,
            "function": chooses,
        },
        # Server tools run at the gateway alone, and nothing here listens to speech.
        native_tools={},
        supports_diarization=False,
        service_tier=None if endpoint.tier == "default" else endpoint.tier,
        status=learned.status(endpoint),
        uptime_last_5m=_percent(stats.uptime_5m),
        uptime_last_30m=_percent(stats.uptime_30m),
        uptime_last_1d=_percent(stats.uptime_1d),
        latency_last_30m=_percentiles(stats.latency_30m_s, 1000),
        throughput_last_30m=_percentiles(stats.throughput_30m_tps, 1),
    )


def _percent(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _percentiles(value: Percentiles | None, factor: float) -> dict[str, float] | None:
    if value is None:
        return None
    return {name: round(each * factor, 3) for name, each in value._asdict().items()}


def serialize_model_endpoints(model: ModelEntry, learned: LearnedStats = NOTHING) -> JsonObject:
    """The JSON of a `ModelWithEndpoints`."""
    return ModelWithEndpoints.from_row(
        model,
        architecture=_serialize_architecture(model),
        endpoints=[serialize_endpoint(endpoint, learned) for endpoint in list_published(model)],
    )


def serialize_zdr_endpoints(
    snapshot: Snapshot, learned: LearnedStats = NOTHING
) -> list[JsonObject]:
    """Every published zero-data-retention endpoint of the listed models."""
    return [
        serialize_endpoint(endpoint, learned)
        for model in snapshot.listing
        for endpoint in list_published(model)
        if endpoint.zdr
    ]


def serialize_providers(snapshot: Snapshot) -> list[JsonObject]:
    """The providers that have not been removed, by name."""
    providers = [entry for entry in snapshot.providers.values() if entry.status > STATUS_REMOVED]
    return [
        ProviderObject.from_row(provider, datacenters=_list_or_none(provider.datacenters))
        for provider in sorted(providers, key=lambda each: each.name.casefold())
    ]


def _list_parameters(endpoints: Iterable[EndpointEntry]) -> list[str]:
    """The parameters that at least one endpoint supports, in the order of the vocabulary."""
    supported = frozenset[str]().union(*(entry.supported_parameters for entry in endpoints))
    return [parameter for parameter in PARAMETERS if parameter in supported]


def _list_or_none(words: tuple[str, ...] | None) -> list[str] | None:
    return None if words is None else list(words)
