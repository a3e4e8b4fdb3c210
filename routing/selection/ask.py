"""What selection is asked and told, and what it answers. Values only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Final, Literal, NamedTuple

from routing.entities.entries import EndpointEntry, ModelEntry

Sort = Literal["price", "throughput", "latency", "exacto"]


class Ask(NamedTuple):
    """The request as the filters see it; token counts come from the estimator.

    `kinds` are the wire kinds that can serve the caller's format. `supplied_parameters` are those
    the caller gave; `required_parameters` are the same in the words that `require_parameters`
    looks for (`structured_outputs` for a JSON schema, `reasoning` for any reasoning setting),
    `native_fields` those of the body that an endpoint has to take.
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
    """What the caller, the workspace and the account want of the choice.

    References are provider references (inference reference 7.2) as they were written. Empty or
    None means that nothing was said. `max_price_usd` is in USD per million tokens (prompt,
    completion) or per unit (request, image, audio). Cutoffs map a percentile ("p50") to seconds or
    tokens per second. `sort_named` tells an explicit `provider.sort` from a suffix or a workspace's
    default, `sort_is_default` the latter from both; `admitted_tiers` are those that `:nitro` or
    `:floor` opened. What begins with `guard_` is the guardrails' and the account's, as are
    `zdr_groups` (of `routing.selection.guarding`), and `forbidden_uses` of what is sent. `standing`
    says that many requests have this very object.
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
    admitted_tiers: frozenset[str] = frozenset()
    guard_models: frozenset[str] | None = None
    guard_ignored_models: frozenset[str] = frozenset()
    guard_providers: frozenset[str] | None = None
    guard_ignored_providers: frozenset[str] = frozenset()
    guard_regions: frozenset[str] | None = None
    zdr_groups: frozenset[str] = frozenset()
    forbidden_uses: frozenset[str] = frozenset()
    standing: bool = field(default=False, compare=False)

    @property
    def keeps_sort(self) -> bool:
        """Whether the caller asked for a sort: an outage alone does not move an endpoint then."""
        return self.sort is not None and not self.sort_is_default

    @property
    def held_to(self) -> tuple[str, ...]:
        """The references to which the caller holds the request."""
        return self.only or (() if self.allow_fallbacks else self.order)


# The fields that say what is wanted.
WANTED: Final = tuple([each.name for each in fields(Policy) if each.compare])
NO_POLICY: Final = Policy(standing=True)


class Percentiles(NamedTuple):
    """Of one figure over the statistics window."""

    p50: float
    p75: float
    p90: float
    p99: float


class Figures(NamedTuple):
    """What is known of one endpoint's last minutes. None where the data is too thin to say.

    `latency_s` is the time to first token, `throughput_tps` tokens per second, both over five
    minutes; with `_30m` over thirty. `tool_success` is a share of 0..1, `uptime_*` percent. `calls`
    counts the window.
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


class Standing(NamedTuple):
    """Endpoints, by key, that are not as good as the others at this moment.

    `unstable` had an outage within their window, or are being probed; `parked` answered 429 and
    their hint has not passed; `half_open` may be tried by one request, the probe. `failing` did not
    do well in half of their last tries: what a sort of the caller's goes by instead of outages.
    """

    unstable: frozenset[int] = frozenset()
    parked: frozenset[int] = frozenset()
    half_open: frozenset[int] = frozenset()
    failing: frozenset[int] = frozenset()


ALL_WELL = Standing()


class State(NamedTuple):
    """What has been learned, as selection reads it: endpoint keys to values.

    `sticky` is the endpoint that served this conversation before. `byok` maps endpoints to the
    places of the team's prioritised credentials that match, the first of them first;
    `byok_fallback` likewise to those of credentials that are tried last. An endpoint may be in
    both, and among the shared ones, but for those that are `unshared`: the team wants them tried
    with its own credentials or not at all.
    """

    figures: Mapping[int, Figures] = {}
    standing: Standing = ALL_WELL
    sticky: int | None = None
    sticky_by_session: bool = False
    byok: Mapping[int, tuple[int, ...]] = {}
    byok_fallback: Mapping[int, tuple[int, ...]] = {}
    unshared: frozenset[int] = frozenset()


NOTHING_LEARNED = State()


class Removed(NamedTuple):
    """An endpoint that a step took out, and the step's name."""

    endpoint: EndpointEntry
    step: str


class Turn(NamedTuple):
    """One try of an endpoint: with the gateway's own credential, or with the team's one at the
    place `own`."""

    endpoint: EndpointEntry
    own: int | None = None


class Plan(NamedTuple):
    """The endpoints to try, in order, and why the others are not among them.

    `considered` are the candidates after the hard filters; where nothing is left, those before the
    filter that emptied the list, and `failed_step` names it. `order` holds the endpoints that may
    be tried and no other; `rule` is the ordering that made it. `output_caps` lowers the requested
    output for endpoints that cannot give as much. `weights` are those of the draw, by endpoint key,
    where one was made; `probe` is the half-open endpoint that this request is to probe because it
    comes first. `turns` are the tries where some are with a team's own credential, else empty: one
    for each endpoint of the order.
    """

    order: Sequence[EndpointEntry]
    removed: Sequence[Removed]
    considered: Sequence[EndpointEntry]
    failed_step: str | None = None
    output_caps: Mapping[int, int] = {}
    weights: Mapping[int, float] = {}
    rule: str = "balanced"
    probe: int | None = None
    turns: Sequence[Turn] = ()

    @property
    def tries(self) -> Sequence[Turn]:
        """What to try, one after the other."""
        return self.turns or [Turn(each) for each in self.order]


NO_PLAN: Final = Plan((), (), ())


class Resolution(NamedTuple):
    """What the named models come to (inference reference 7.4).

    `strategy` is `router_metadata`'s word. `sort` and `admitted_tiers` come from a suffix,
    `plugins` from `:online`. `virtual` names the virtual router, None for concrete models. Without
    any models, `pool` are those that it chose among.
    """

    models: tuple[ModelEntry, ...]
    strategy: str
    sort: Sort | None = None
    admitted_tiers: frozenset[str] = frozenset()
    plugins: tuple[str, ...] = ()
    virtual: str | None = None
    pool: tuple[ModelEntry, ...] = ()
