"""The catalogue as requests see it: immutable, in memory, whole.

A snapshot is built from rows read at one moment (`routing.catalogue.reading`), and nothing in it
changes afterwards; a request keeps the one it began with.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from routing.catalogue.prices import Prices
from routing.catalogue.vocabulary import STATUS_ROUTABLE_MIN


@dataclass(frozen=True, slots=True, eq=False)
class ProviderEntry:
    """How to reach a provider. Limits are in seconds; None takes the gateway's setting."""

    pk: int
    slug: str
    name: str
    kind: str
    base_url: str
    credential: str | None
    connect_s: float | None
    first_byte_s: float | None
    idle_s: float | None
    total_s: float | None
    privacy_policy_url: str | None
    terms_of_service_url: str | None
    status_page_url: str | None
    headquarters: str | None
    datacenters: tuple[str, ...] | None
    status: int

    def __repr__(self) -> str:
        # The generated one would print the credential into logs and tracebacks.
        return f"<ProviderEntry {self.slug}>"


@dataclass(frozen=True, slots=True, eq=False)
class EndpointEntry:
    """One provider serving one model, with everything inherited already filled in.

    `taken_fields` are the body fields it is sent: the supported parameters and the operator's extra
    ones. `prices` None means no price, and `pricing` is the same as published. `status` is the
    worse of the endpoint's and its provider's.
    """

    pk: int
    model_id: str
    canonical_slug: str
    model_name: str
    tag: str
    provider: ProviderEntry
    upstream_model: str
    context_length: int | None
    max_completion_tokens: int | None
    max_prompt_tokens: int | None
    quantization: str | None
    prices: Prices | None
    pricing: Mapping[str, Any] | None
    supported_parameters: frozenset[str]
    taken_fields: frozenset[str]
    supports_implicit_caching: bool
    status: int
    tier: str
    region: str
    collects_data: bool
    zdr: bool
    moderated: bool
    supports_cancellation: bool
    input_modalities: tuple[str, ...]
    output_modalities: tuple[str, ...]
    decisions_max_questions: int | None
    decisions_max_options: int | None
    decisions_max_levels: int | None

    @property
    def routable(self) -> bool:
        """Whether a request may be sent there: priced, and not down, disabled or removed."""
        return self.prices is not None and self.status >= STATUS_ROUTABLE_MIN

    def __repr__(self) -> str:
        return f"<EndpointEntry {self.model_id} {self.tag}>"


@dataclass(frozen=True, slots=True, eq=False)
class ModelEntry:
    """Something callers can name. `id` is `author/slug`; `created` is in Unix seconds."""

    pk: int
    id: str
    canonical_slug: str
    name: str
    description: str
    created: int
    family: str | None
    visible: bool
    decisions: bool
    distillable: bool
    context_length: int | None
    input_modalities: tuple[str, ...]
    output_modalities: tuple[str, ...]
    categories: tuple[str, ...]
    tokenizer: str | None
    instruct_type: str | None
    hugging_face_id: str | None
    knowledge_cutoff: str | None
    expiration_date: str | None
    default_parameters: Mapping[str, Any] | None
    per_request_limits: Mapping[str, Any] | None
    reasoning: Mapping[str, Any] | None
    supported_voices: tuple[str, ...] | None
    endpoints: tuple[EndpointEntry, ...]

    def __repr__(self) -> str:
        return f"<ModelEntry {self.id}>"


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One whole catalogue.

    `models` holds all of them by id, hidden ones too; `listing` those the API lists: visible, with
    at least one priced endpoint that the operator has not taken away, newest first. `problems` says
    in words what stands in the tables and cannot be used.
    """

    version: int
    models: Mapping[str, ModelEntry]
    aliases: Mapping[str, str]
    providers: Mapping[str, ProviderEntry]
    listing: tuple[ModelEntry, ...]
    endpoint_count: int
    problems: tuple[str, ...] = ()

    def model(self, reference: str) -> ModelEntry | None:
        """The model of this id, else of this alias."""
        found = self.models.get(reference)
        if found is None and reference in self.aliases:
            found = self.models.get(self.aliases[reference])
        return found

    def __repr__(self) -> str:
        return f"<Snapshot {self.version}: {len(self.models)} models>"


EMPTY = Snapshot(
    version=0,
    models=MappingProxyType({}),
    aliases=MappingProxyType({}),
    providers=MappingProxyType({}),
    listing=(),
    endpoint_count=0,
)
