"""The values that selection takes and returns: requirements, policy, statistics, plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Final, Literal, NamedTuple

from routing.entities.entries import EndpointEntry, ModelEntry

Sort = Literal["price", "throughput", "latency", "exacto"]


class Requirements(NamedTuple):
    """The request as the filters see it; token counts come from the estimator.

    `kinds` are the wire kinds that can serve the caller's format. `supplied_parameters` are those
    the caller gave. `required_parameters` are the same in the words that `require_parameters` looks
    for: `structured_outputs` for a JSON schema, `reasoning` for any reasoning setting.
    `native_fields` are those of the body that an endpoint has to take.
    """

    kinds: frozenset[str]
    tools: bool = False
    input_modalities: frozenset[str] = frozenset()
    output_modalities: frozenset[str] = frozenset()
    supplied_parameters: frozenset[str] = frozenset()
    required_parameters: frozenset[str] = frozenset()
    prompt_tokens: int = 0
    output_tokens: int | None = None
    service_tier: str | None = None
    native_fields: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Policy:
    """How the caller, the workspace and the account restrict and rank the endpoints.

    `only`, `order` and `ignore` hold provider references as the caller wrote them. Empty or None
    means no restriction. `max_price_usd` is in USD per million tokens (prompt, completion) or per
    unit (request, image, audio). Cutoffs map a percentile ("p50") to seconds or tokens per second.

    `sort_named`: the sort is the request's `provider.sort`, not a suffix or the workspace's
    default. `sort_is_default`: the sort is the workspace's default. `admitted_tiers` are the
    service tiers that `:nitro` or `:floor` opened. Guardrails and the account set the fields
    `guard_*`, `zdr_groups` (names of `guardrail_filters.ZDR_GROUPS`) and `forbidden_uses`.
    `is_shared`: many requests use this very object, so results may be cached under its identity.
    """

    only: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    account_allowed: tuple[str, ...] | None = None
    account_ignored: tuple[str, ...] = ()
    allow_fallbacks: bool = True
    # An explicit `models` list moves on to the next model also without fallbacks.
    models_named: bool = False
    deny_data_collection: bool = False
    zdr: bool = False
    distillable_only: bool = False
    region: str | None = None
    quantizations: frozenset[str] = frozenset()
    max_price_usd: Mapping[str, Decimal] = field(default_factory=dict)
    require_parameters: bool = False
    sort: Sort | None = None
    sort_named: bool = False
    sort_is_default: bool = False
    across_models: bool = False
    max_latency_s: Mapping[str, float] = field(default_factory=dict)
    min_throughput_tps: Mapping[str, float] = field(default_factory=dict)
    # Endpoints that are unlikely to have answered by then go last.
    deadline_s: float | None = None
    admitted_tiers: frozenset[str] = frozenset()
    guard_models: frozenset[str] | None = None
    guard_ignored_models: frozenset[str] = frozenset()
    guard_providers: frozenset[str] | None = None
    guard_ignored_providers: frozenset[str] = frozenset()
    guard_regions: frozenset[str] | None = None
    zdr_groups: frozenset[str] = frozenset()
    forbidden_uses: frozenset[str] = frozenset()
    is_shared: bool = field(default=False, compare=False)

    @property
    def has_own_sort(self) -> bool:
        """Whether the caller chose the sort: then a single outage does not move an endpoint."""
        return self.sort is not None and not self.sort_is_default

    @property
    def required_references(self) -> tuple[str, ...]:
        """The provider references outside of which the request must not go."""
        return self.only or (() if self.allow_fallbacks else self.order)


# All fields but `is_shared`, in their order.
POLICY_FIELDS: Final = tuple([each.name for each in fields(Policy) if each.compare])
NO_POLICY: Final = Policy(is_shared=True)


class Percentiles(NamedTuple):
    """The percentiles of one figure over the statistics window."""

    p50: float
    p75: float
    p90: float
    p99: float


class EndpointStats(NamedTuple):
    """The statistics of one endpoint. None where there are too few calls.

    `latency_s` is the time to first token, `throughput_tps` tokens per second, both over five
    minutes; with `_30m` over thirty. `stream_p95_s` is the 95th percentile of the time to first
    token over thirty minutes, `whole_p95_s` that of the time to answers in one piece.
    `tool_success` is a share of 0..1, `uptime_*` percent. `calls` counts the window.
    """

    latency_s: Percentiles | None = None
    throughput_tps: Percentiles | None = None
    tool_success: float | None = None
    uptime_5m: float | None = None
    uptime_30m: float | None = None
    uptime_1d: float | None = None
    calls: int = 0
    latency_30m_s: Percentiles | None = None
    throughput_30m_tps: Percentiles | None = None
    stream_p95_s: float | None = None
    whole_p95_s: float | None = None


class HealthSnapshot(NamedTuple):
    """The endpoints (by key) that are unhealthy at one moment.

    `unstable` had an outage within their window, or a probe of them is under way. `parked` answered
    429 and their hint has not passed. `half_open` may be tried by one request, the probe. `failing`
    failed more than half of their last tries: a caller's own sort considers these alone.
    """

    unstable: frozenset[int] = frozenset()
    parked: frozenset[int] = frozenset()
    half_open: frozenset[int] = frozenset()
    failing: frozenset[int] = frozenset()


ALL_HEALTHY = HealthSnapshot()


class WarmCache(NamedTuple):
    """What an endpoint may still have cached of a conversation.

    `tokens` are those of the last prompt that it cached or read, `completion_tokens` those of the
    answer to it. That was `age_s` ago, and the provider keeps them for `lifetime_s`.
    """

    tokens: int
    completion_tokens: int
    age_s: float
    lifetime_s: float


StayReason = Literal["session", "first", "saving", "cold", "price", "slower"]


class Stay(NamedTuple):
    """Whether a conversation stays with its endpoint, and why.

    `cached_tokens` of the prompt are expected to be read from the cache, which saves `saving_nano`.
    Without a cache the request would cost `dearer_nano` more there than at `other`, the endpoint
    (by key) that would be first otherwise.
    """

    stays: bool
    reason: StayReason
    cached_tokens: int
    saving_nano: int
    dearer_nano: int = 0
    other: int | None = None


class EndpointState(NamedTuple):
    """Statistics, health and own credentials of the endpoints, by endpoint key.

    `sticky` is the endpoint that served this conversation before, `sticky_cache` what it may have
    cached of it (None where nobody knows: then the conversation stays). `byok` maps an endpoint to
    the places of the team's prioritised credentials for it, in order of preference. `byok_fallback`
    does so for credentials that are tried last. An endpoint may be in both. `unshared` endpoints
    are tried with the team's own credentials or not at all.
    """

    figures: Mapping[int, EndpointStats] = {}
    health: HealthSnapshot = ALL_HEALTHY
    sticky: int | None = None
    sticky_by_session: bool = False
    byok: Mapping[int, tuple[int, ...]] = {}
    byok_fallback: Mapping[int, tuple[int, ...]] = {}
    unshared: frozenset[int] = frozenset()
    sticky_cache: WarmCache | None = None


NOTHING_LEARNED = EndpointState()


class Excluded(NamedTuple):
    """An endpoint that a filter excluded, and the filter's name."""

    endpoint: EndpointEntry
    step: str


class Candidate(NamedTuple):
    """An endpoint to try with one credential: the gateway's, or the team's one at place `own`."""

    endpoint: EndpointEntry
    own: int | None = None


class Plan(NamedTuple):
    """The endpoints to try, in order, and why the others are not among them.

    `order` holds the endpoints that may be tried; `rule` names the ordering that made it.
    `considered` are the endpoints that passed the hard filters. If none did, they are those before
    the filter that excluded the last ones, and `failed_step` names that filter. `output_caps` maps
    endpoints to their maximum where the requested output exceeds it. `weights` are the shares of
    the draw. `probe` is the half-open endpoint that this request probes because it comes first.
    `own_candidates` is empty unless the team has credentials of its own. `stay` says whether the
    conversation stays where it was, None where there was nothing to decide.
    """

    order: Sequence[EndpointEntry]
    removed: Sequence[Excluded]
    considered: Sequence[EndpointEntry]
    failed_step: str | None = None
    output_caps: Mapping[int, int] = {}
    weights: Mapping[int, float] = {}
    rule: str = "balanced"
    probe: int | None = None
    own_candidates: Sequence[Candidate] = ()
    stay: Stay | None = None

    @property
    def candidates(self) -> Sequence[Candidate]:
        """The endpoints with their credentials, in the order to try."""
        return self.own_candidates or [Candidate(each) for each in self.order]


NO_PLAN: Final = Plan((), (), ())


class Resolution(NamedTuple):
    """The models that the references of a request name.

    `strategy` is the value of `router_metadata.strategy`. `sort` and `admitted_tiers` come from a
    suffix, `plugins` from `:online`. `virtual` names the virtual router, None for concrete models.
    If `models` is empty, `pool` are those that the router chose among.
    """

    models: tuple[ModelEntry, ...]
    strategy: str
    sort: Sort | None = None
    admitted_tiers: frozenset[str] = frozenset()
    plugins: tuple[str, ...] = ()
    virtual: str | None = None
    pool: tuple[ModelEntry, ...] = ()
