"""Catalogue entries made to measure, without a database."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from routing.entities.entries import EndpointEntry, ModelEntry, ProviderEntry
from routing.entities.prices import Prices

_numbers = itertools.count(1)


def _same_value(value: Any, *names: str) -> dict[str, Any]:
    return dict.fromkeys(names, value)


_PROVIDER: dict[str, Any] = (
    _same_value(None, "credential", "connect_s", "first_byte_s", "idle_s", "total_s", "datacenters")
    | _same_value(
        None, "privacy_policy_url", "terms_of_service_url", "status_page_url", "headquarters"
    )
    | {"base_url": "http://127.0.0.1:9/v1", "status": 0}
)
_ENDPOINT: dict[str, Any] = (
    _same_value(None, "max_prompt_tokens", "quantization", "decisions_max_questions")
    | _same_value(None, "decisions_max_options", "decisions_max_levels")
    | _same_value(False, "supports_implicit_caching", "collects_data", "zdr", "moderated")
    | _same_value(("text",), "input_modalities", "output_modalities")
    | {"context_length": 128_000, "max_completion_tokens": 16_384, "supports_cancellation": True}
    | {"upstream_model": "small", "status": 0, "tier": "default", "region": "global"}
)
_PARAMETERS = frozenset({"temperature", "tools", "response_format"})
_MODEL: dict[str, Any] = (
    _same_value(None, "family", "tokenizer", "instruct_type", "hugging_face_id", "knowledge_cutoff")
    | _same_value(None, "expiration_date", "default_parameters", "per_request_limits", "reasoning")
    | _same_value(("text",), "input_modalities", "output_modalities")
    | {"visible": True, "decisions": True, "distillable": False, "supported_voices": None}
    | {"description": "", "created": 0, "context_length": 128_000, "categories": ()}
)


def provider(slug: str = "acme", *, kind: str = "openai", **changes: Any) -> ProviderEntry:
    known = {"pk": next(_numbers), "slug": slug, "name": slug.title(), "kind": kind}
    return ProviderEntry(**_PROVIDER | known | changes)


def endpoint(
    tag: str = "acme",
    *,
    pricing: Mapping[str, Any] | None = {"prompt": "0.000001", "completion": "0.000002"},
    kind: str = "openai",
    model_id: str = "acme/small",
    **changes: Any,
) -> EndpointEntry:
    """An endpoint that passes every filter, except for what `changes` says."""
    known = {"pk": next(_numbers), "tag": tag, "pricing": pricing}
    known |= _same_value(model_id, "model_id", "canonical_slug", "model_name")
    known |= _same_value(_PARAMETERS, "supported_parameters", "taken_fields")
    known["provider"] = provider(tag.split("/")[0], kind=kind)
    known["prices"] = None if pricing is None else Prices.parse(pricing)
    return EndpointEntry(**_ENDPOINT | known | changes)


def model(*endpoints: EndpointEntry, id: str = "acme/small") -> ModelEntry:
    own = tuple(replace(each, model_id=id) for each in endpoints)
    named = _same_value(id, "id", "canonical_slug", "name")
    return ModelEntry(pk=next(_numbers), endpoints=own, **_MODEL | named)
