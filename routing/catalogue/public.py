"""Serializing catalogue entries for the API. Pure functions: entries in, JSON objects out."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gateway.http.jsonio import JsonObject
from routing.catalogue.listing import NOTHING, LearnedStats, list_published, top_endpoint
from routing.entities.entries import EndpointEntry, ModelEntry, ProviderEntry, Snapshot
from routing.entities.vocabulary import PARAMETERS, STATUS_REMOVED
from routing.selection.types import Percentiles


def parameters(endpoints: Iterable[EndpointEntry]) -> list[str]:
    """The parameters that at least one endpoint supports, in the order of the vocabulary."""
    supported = frozenset[str]().union(*(entry.supported_parameters for entry in endpoints))
    return [parameter for parameter in PARAMETERS if parameter in supported]


def serialize_models(snapshot: Snapshot, models: Sequence[ModelEntry]) -> list[JsonObject]:
    """The Model objects of models. Those of the listing are made once for a snapshot; a model that
    was narrowed for one account is not among them."""
    known = snapshot.derive(_listed_objects)
    return [known.get(model) or serialize_model(model) for model in models]


def _listed_objects(snapshot: Snapshot) -> Mapping[ModelEntry, JsonObject]:
    return {model: serialize_model(model) for model in snapshot.listing}


def serialize_model(model: ModelEntry) -> JsonObject:
    """The Model object, of a model with a published endpoint."""
    best = top_endpoint(model)
    assert best is not None
    shown = {
        "id": model.id,
        "canonical_slug": model.canonical_slug,
        "name": model.name,
        "created": model.created,
        "description": model.description,
        "context_length": model.context_length,
        "architecture": architecture(model),
        "pricing": dict(best.pricing or {}),
        "top_provider": {
            "context_length": best.context_length,
            "max_completion_tokens": best.max_completion_tokens,
            "is_moderated": best.moderated,
        },
        "per_request_limits": model.per_request_limits,
        "supported_parameters": parameters(list_published(model)),
        "default_parameters": model.default_parameters,
        "supported_voices": _list_or_none(model.supported_voices),
        "links": {"details": f"/api/v1/models/{model.id}/endpoints"},
        "hugging_face_id": model.hugging_face_id,
        "knowledge_cutoff": model.knowledge_cutoff,
        "expiration_date": model.expiration_date,
    }
    return shown if model.reasoning is None else {**shown, "reasoning": _reasoning(model.reasoning)}


def _reasoning(reasoning: Mapping[str, Any]) -> JsonObject:
    """The optional keys appear where they are known; null efforts mean all of them."""
    return {"supported_efforts": None, **reasoning}


def architecture(model: ModelEntry) -> JsonObject:
    ways_in, ways_out = model.input_modalities, model.output_modalities
    return {
        "modality": f"{'+'.join(ways_in)}->{'+'.join(ways_out)}" if ways_in and ways_out else None,
        "input_modalities": list(ways_in),
        "output_modalities": list(ways_out),
        "tokenizer": model.tokenizer or "Other",
        "instruct_type": model.instruct_type,
    }


def serialize_endpoint(endpoint: EndpointEntry, learned: LearnedStats = NOTHING) -> JsonObject:
    """The Endpoint object; statistics are null where nothing, or too little, was learned."""
    figures = learned.of(endpoint)
    return {
        "name": f"{endpoint.provider.name} | {endpoint.model_id}",
        "model_id": endpoint.model_id,
        "model_name": endpoint.model_name,
        "provider_name": endpoint.provider.name,
        "tag": endpoint.tag,
        "quantization": endpoint.quantization,
        "context_length": endpoint.context_length,
        "max_completion_tokens": endpoint.max_completion_tokens,
        "max_prompt_tokens": endpoint.max_prompt_tokens,
        "pricing": dict(endpoint.pricing or {}),
        "supported_parameters": parameters([endpoint]),
        "supports_tool_choice": _tool_choices(endpoint),
        # Server tools run at the gateway alone, and nothing here listens to speech.
        "native_tools": {},
        "supports_diarization": False,
        "supports_implicit_caching": endpoint.supports_implicit_caching,
        "service_tier": None if endpoint.tier == "default" else endpoint.tier,
        "status": learned.status(endpoint),
        "uptime_last_5m": _percent(figures.uptime_5m),
        "uptime_last_30m": _percent(figures.uptime_30m),
        "uptime_last_1d": _percent(figures.uptime_1d),
        "latency_last_30m": _percentiles(figures.latency_30m_s, 1000),
        "throughput_last_30m": _percentiles(figures.throughput_30m_tps, 1),
    }


def _tool_choices(endpoint: EndpointEntry) -> dict[str, bool]:
    """Which values of `tool_choice` reach the upstream. `auto` is what it does unasked."""
    tools = "tools" in endpoint.supported_parameters
    chooses = tools and "tool_choice" in endpoint.supported_parameters
    return {"auto": tools, **dict.fromkeys(("none", "required", "function"), chooses)}


def _percent(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _percentiles(value: Percentiles | None, factor: float) -> dict[str, float] | None:
    if value is None:
        return None
    return {name: round(each * factor, 3) for name, each in value._asdict().items()}


def serialize_model_endpoints(model: ModelEntry, learned: LearnedStats = NOTHING) -> JsonObject:
    """The model with its endpoints, as `/models/{author}/{slug}/endpoints` shows it."""
    return {
        "id": model.id,
        "name": model.name,
        "created": model.created,
        "description": model.description,
        "architecture": architecture(model),
        "endpoints": [serialize_endpoint(endpoint, learned) for endpoint in list_published(model)],
    }


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


def serialize_provider(provider: ProviderEntry) -> JsonObject:
    return {
        "name": provider.name,
        "slug": provider.slug,
        "privacy_policy_url": provider.privacy_policy_url,
        "terms_of_service_url": provider.terms_of_service_url,
        "status_page_url": provider.status_page_url,
        "headquarters": provider.headquarters,
        "datacenters": _list_or_none(provider.datacenters),
    }


def serialize_providers(snapshot: Snapshot) -> list[JsonObject]:
    """The providers that have not been removed, by name."""
    shown = (entry for entry in snapshot.providers.values() if entry.status > STATUS_REMOVED)
    return [
        serialize_provider(entry)
        for entry in sorted(shown, key=lambda entry: entry.name.casefold())
    ]


def _list_or_none(words: tuple[str, ...] | None) -> list[str] | None:
    return None if words is None else list(words)
