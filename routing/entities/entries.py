"""The catalogue as requests see it: immutable, in memory, whole.

A snapshot is built from rows read at one moment (`routing.catalogue.assembly`), and nothing in it
changes afterwards; a request keeps the one it began with.
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, TypeVar

from gateway.limits.rules import RateRule
from routing.entities.efforts import EffortRules
from routing.entities.prices import Prices
from routing.entities.vocabulary import EMBEDDINGS, STATUS_ROUTABLE_MIN

_T = TypeVar("_T")
# How endpoints answer decisions: in that format, by the log-probabilities of labels, or by a JSON
# schema that asks for probabilities.
DECIDING: Final = frozenset({"native", "logprobs", "schema"})
# Dearer than anything: an endpoint without a price is never called.
_UNPRICED: Final = Decimal("Infinity")
# The order of equals in every sort: by price, then by tag.
BY_PRICE: Final = attrgetter("token_usd", "tag")
_KEY_BYTES: Final = 6


# Entries do not change; while one is made, this is how a field gets its value.
_put: Final = object.__setattr__


@dataclass(frozen=True, slots=True, eq=False)
class HouseCredential:
    """One credential of a pool. `weight` is its share of the requests relative to the others';
    `rate_rules` limit all requests that are sent with it. `seal_mark` tells its content from what
    the row held before, without telling it."""

    pk: int
    provider: str
    label: str
    secret: str
    seal_mark: str
    weight: int = 1
    rate_rules: tuple[RateRule, ...] = ()

    def __repr__(self) -> str:
        # The generated one would print the secret into logs and tracebacks.
        return f"<HouseCredential {self.provider}/{self.label}>"

    def parking_key(self, endpoint: int = 0) -> int:
        """The number under which it is parked: at one endpoint, or (0) everywhere. A rotated
        credential has others."""
        return _hash_parking(self.pk, self.seal_mark, endpoint)


@lru_cache(maxsize=4096)
def _hash_parking(pk: int, seal_mark: str, endpoint: int) -> int:
    text = f"{pk}|{endpoint}|{seal_mark}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=_KEY_BYTES).digest(), "big")


@dataclass(frozen=True, slots=True, eq=False)
class ProviderEntry:
    """How to reach a provider. Limits are in seconds; None takes the gateway's setting.

    `names` are slug and display name as references are compared: without regard to case.
    """

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
    # How long it keeps prompts in its cache, in seconds; None takes what is usual.
    cache_lifetime_s: float | None = None
    # Where there are several, requests are sent with these alone.
    credentials: tuple[HouseCredential, ...] = ()
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        _put(self, "names", frozenset({self.slug.casefold(), self.name.casefold()}))

    def __repr__(self) -> str:
        # The generated one would print the credential into logs and tracebacks.
        return f"<ProviderEntry {self.slug}>"


def find_wire_kind(provider_kind: str, output_modalities: Sequence[str]) -> str:
    """The format in which an endpoint is asked."""
    # A provider of chat serves embeddings beside, at a path of their own.
    embeds = EMBEDDINGS in output_modalities and "text" not in output_modalities
    return EMBEDDINGS if embeds and provider_kind == "openai" else provider_kind


@dataclass(frozen=True, slots=True, eq=False)
class EndpointEntry:
    """One provider serving one model, with everything inherited already filled in.

    `taken_fields` are the body fields it is sent: the supported parameters and the operator's extra
    ones. `prices` None means no price, and `pricing` is the same as published. `status` is the
    worse of the endpoint's and its provider's. `decides` is how it answers decisions, one of
    `DECIDING`, None where it does not. `efforts` is None where a request may ask for any reasoning;
    `rate_rules` limit all its requests together. The last fields are computed once, because
    selection reads them at every request. `tag_key` is the tag without regard to case, `wire_kind`
    the format in which it is asked. `token_usd` is the price of a prompt and a completion token
    together, `token_price` the same as a float. `prompt_tokens_max` is the longest prompt that
    leaves no room for an answer.
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
    distillable: bool = False
    publishes_data: bool = False
    decides: str | None = None
    efforts: EffortRules | None = None
    rate_rules: tuple[RateRule, ...] = ()
    # The model's own limit in seconds; None takes the provider's.
    first_byte_s: float | None = None
    tag_key: str = field(init=False)
    token_usd: Decimal = field(init=False)
    token_price: float = field(init=False)
    wire_kind: str = field(init=False)
    prompt_tokens_max: float = field(init=False)

    def __post_init__(self) -> None:
        key = self.tag.casefold()
        # Nearly all tags are their own key, and one string of each is enough.
        _put(self, "tag_key", self.tag if key == self.tag else key)
        _put(self, "wire_kind", find_wire_kind(self.provider.kind, self.output_modalities))
        prices = self.prices
        _put(self, "token_usd", _UNPRICED if prices is None else prices.token_usd)
        _put(self, "token_price", math.inf if prices is None else prices.token_price)
        limits = (self.max_prompt_tokens, self.context_length)
        known = [limit for limit in limits if limit is not None]
        _put(self, "prompt_tokens_max", min(known, default=math.inf))

    @property
    def routable(self) -> bool:
        """Whether a request may be sent there: priced, and not down, disabled or removed."""
        return self.prices is not None and self.status >= STATUS_ROUTABLE_MIN

    def is_output_below(self, output_tokens: int) -> bool:
        """Whether its maximum of output is below the requested one."""
        return self.max_completion_tokens is not None and output_tokens > self.max_completion_tokens

    def serves(self, kinds: frozenset[str]) -> bool:
        """Whether it can be asked in one of these ways: wire kinds, or those of `DECIDING`."""
        return self.wire_kind in kinds or self.decides in kinds

    def __repr__(self) -> str:
        return f"<EndpointEntry {self.model_id} {self.tag}>"


@dataclass(frozen=True, slots=True, eq=False)
class ModelEntry:
    """Something callers can name. `id` is `author/slug`; `created` is in Unix seconds.

    `by_price` are the endpoints that a request may be sent to, cheapest first. `kept` is
    selection's own, for what it works out of them.
    """

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
    decisions_temperature: float | None = None
    by_price: tuple[EndpointEntry, ...] = field(init=False)
    kept: dict[Any, Any] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        routable = [endpoint for endpoint in self.endpoints if endpoint.routable]
        _put(self, "by_price", tuple(sorted(routable, key=BY_PRICE)))

    @property
    def must_reason(self) -> bool:
        """Whether it cannot answer without reasoning."""
        return bool(self.reasoning and self.reasoning.get("mandatory"))

    def __repr__(self) -> str:
        return f"<ModelEntry {self.id}>"


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One whole catalogue.

    `models` holds all of them by id, hidden ones too. `listing` holds those the API lists, newest
    first: visible, with at least one priced endpoint that the operator has not taken away.
    `problems` says in words what stands in the tables and cannot be used.
    """

    version: int
    models: Mapping[str, ModelEntry]
    aliases: Mapping[str, str]
    providers: Mapping[str, ProviderEntry]
    listing: tuple[ModelEntry, ...]
    endpoint_count: int
    problems: tuple[str, ...] = ()
    _derived: dict[Any, Any] = field(default_factory=dict, init=False)

    def derive(self, work: "Callable[[Snapshot], _T]") -> _T:
        """What `work` makes of this snapshot, made once and kept as long as the snapshot."""
        if work not in self._derived:
            self._derived[work] = work(self)
        derived: _T = self._derived[work]
        return derived

    def model(self, reference: str) -> ModelEntry | None:
        """The model of this id, else of this alias."""
        model = self.models.get(reference)
        if model is None and reference in self.aliases:
            model = self.models.get(self.aliases[reference])
        return model

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
