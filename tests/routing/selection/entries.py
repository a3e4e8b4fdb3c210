"""Catalogue entries made to measure, without a database."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from routing.catalogue.entries import EndpointEntry, ModelEntry, ProviderEntry
from routing.catalogue.prices import Prices

_numbers = itertools.count(1)


def provider(slug: str = "acme", *, kind: str = "openai", **changes: Any) -> ProviderEntry:
    entry = ProviderEntry(
        pk=next(_numbers),
        slug=slug,
        name=slug.title(),
        kind=kind,
        base_url="http://127.0.0.1:9/v1",
        credential=None,
        connect_s=None,
        first_byte_s=None,
        idle_s=None,
        total_s=None,
        privacy_policy_url=None,
        terms_of_service_url=None,
        status_page_url=None,
        headquarters=None,
        datacenters=None,
        status=0,
    )
    return replace(entry, **changes)


def endpoint(
    tag: str = "acme",
    *,
    pricing: Mapping[str, Any] | None = {"prompt": "0.000001", "completion": "0.000002"},
    kind: str = "openai",
    model_id: str = "acme/small",
    **changes: Any,
) -> EndpointEntry:
    """An endpoint that passes every filter, except for what `changes` says."""
    entry = EndpointEntry(
        pk=next(_numbers),
        model_id=model_id,
        canonical_slug=model_id,
        model_name=model_id,
        tag=tag,
        provider=provider(tag.split("/")[0], kind=kind),
        upstream_model="small",
        context_length=128_000,
        max_completion_tokens=16_384,
        max_prompt_tokens=None,
        quantization=None,
        prices=None if pricing is None else Prices.parse(pricing),
        pricing=pricing,
        supported_parameters=frozenset({"temperature", "tools", "response_format"}),
        taken_fields=frozenset({"temperature", "tools", "response_format"}),
        supports_implicit_caching=False,
        status=0,
        tier="default",
        region="global",
        collects_data=False,
        zdr=False,
        moderated=False,
        supports_cancellation=True,
        input_modalities=("text",),
        output_modalities=("text",),
        decisions_max_questions=None,
        decisions_max_options=None,
        decisions_max_levels=None,
    )
    return replace(entry, **changes)


def model(*endpoints: EndpointEntry, id: str = "acme/small") -> ModelEntry:
    return ModelEntry(
        pk=next(_numbers),
        id=id,
        canonical_slug=id,
        name=id,
        description="",
        created=0,
        family=None,
        visible=True,
        decisions=True,
        distillable=False,
        context_length=128_000,
        input_modalities=("text",),
        output_modalities=("text",),
        categories=(),
        tokenizer=None,
        instruct_type=None,
        hugging_face_id=None,
        knowledge_cutoff=None,
        expiration_date=None,
        default_parameters=None,
        per_request_limits=None,
        reasoning=None,
        supported_voices=None,
        endpoints=tuple(replace(each, model_id=id) for each in endpoints),
    )
