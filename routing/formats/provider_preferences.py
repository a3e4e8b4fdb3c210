"""The `provider` object, shared by every caller format."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from routing.formats.fields import ONE_KIND, Amount, Positive

Sort = Literal["price", "throughput", "latency", "exacto"]
Partition = Literal["model", "none"]
Quantization = Literal[
    "int4",
    "int8",
    "fp4",
    "mxfp4",
    "nvfp4",
    "fp6",
    "fp8",
    "mxfp8",
    "fp16",
    "bf16",
    "fp32",
    "unknown",
]
DecimalText = Annotated[str, Field(pattern=r"^([0-9]+\.?[0-9]*|\.[0-9]+)$", max_length=64)]
PriceCap = Annotated[DecimalText | Amount, ONE_KIND]

# No limit of the gateway's own is longer.
Milliseconds = Annotated[int, Field(ge=1, le=86_400_000)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]

CLOSED = ConfigDict(extra="forbid")


@with_config(CLOSED)
class MaxPriceField(TypedDict, total=False):
    prompt: PriceCap
    completion: PriceCap
    request: PriceCap
    image: PriceCap
    audio: PriceCap


@with_config(CLOSED)
class PercentilesField(TypedDict, total=False):
    p50: Positive | None
    p75: Positive | None
    p90: Positive | None
    p99: Positive | None


@with_config(CLOSED)
class SortField(TypedDict, total=False):
    by: Sort | None
    partition: Partition | None


Cutoff = Annotated[Positive | PercentilesField, ONE_KIND]


@with_config(CLOSED)
class ProviderField(TypedDict, total=False):
    allow_fallbacks: bool | None
    data_collection: Literal["allow", "deny"] | None
    deadline_ms: Milliseconds | None
    enforce_distillable_text: bool | None
    hedge: bool | None
    hedge_after_s: Seconds | None
    ignore: list[str] | None
    only: list[str] | None
    order: list[str] | None
    max_first_byte_s: Seconds | None
    max_price: MaxPriceField
    preferred_max_latency: Cutoff | None
    preferred_min_throughput: Cutoff | None
    quantizations: list[Quantization] | None
    require_parameters: bool | None
    rescue: bool | None
    sort: Annotated[Sort | SortField, ONE_KIND] | None
    zdr: bool | None


@dataclass(frozen=True, slots=True)
class ProviderPreferences:
    """How one request wants to be routed. An empty or None field leaves the choice to the gateway.

    `max_price` is in USD per million tokens (prompt, completion) or per unit (request, image,
    audio). Cutoffs map a percentile ("p50") to seconds or to tokens per second. `deadline_s` bounds
    the whole answer, `max_first_byte_s` each endpoint's wait for its first byte. With `rescue` a
    stream that breaks off is continued elsewhere. With `hedge` a second endpoint is asked where the
    first has given no content after `hedge_after_s`, else after what is usual for it. None of
    either leaves it to the workspace.
    """

    allow_fallbacks: bool = True
    data_collection: Literal["allow", "deny"] | None = None
    deadline_s: float | None = None
    enforce_distillable_text: bool = False
    hedge: bool | None = None
    hedge_after_s: float | None = None
    ignore: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    max_first_byte_s: float | None = None
    max_price_usd: Mapping[str, Decimal] = field(default_factory=dict)
    max_latency_s: Mapping[str, float] = field(default_factory=dict)
    min_throughput_tps: Mapping[str, float] = field(default_factory=dict)
    quantizations: tuple[str, ...] = ()
    require_parameters: bool = False
    rescue: bool | None = None
    sort: Sort | None = None
    partition: Partition | None = None
    zdr: bool = False


def resolve_provider(
    checked: ProviderField | None, *, route: str | None = None
) -> ProviderPreferences | None:
    """Preferences from the checked field and the deprecated `route`; None when neither was given.

    `route` only fills a partition that the object leaves open.
    """
    partition = _ROUTE_PARTITIONS.get(route or "")
    if checked is None:
        return ProviderPreferences(partition=partition) if partition else None
    sort = checked.get("sort")
    if isinstance(sort, dict):
        partition = sort.get("partition") or partition
        sort = sort.get("by")
    # A JSON number means what it reads as, so 0.1 is the decimal 0.1 and not the nearest double.
    deadline_ms = checked.get("deadline_ms")
    hedge_after_s, hedge = checked.get("hedge_after_s"), checked.get("hedge")
    if hedge is None and hedge_after_s is not None:
        # A time after which to hedge asks for hedging.
        hedge = True
    caps: Mapping[str, Any] = checked.get("max_price") or {}
    return ProviderPreferences(
        allow_fallbacks=checked.get("allow_fallbacks") is not False,
        data_collection=checked.get("data_collection"),
        deadline_s=deadline_ms and deadline_ms / 1000,
        max_first_byte_s=checked.get("max_first_byte_s"),
        enforce_distillable_text=bool(checked.get("enforce_distillable_text")),
        hedge=hedge,
        hedge_after_s=hedge_after_s,
        ignore=tuple(checked.get("ignore") or ()),
        only=tuple(checked.get("only") or ()),
        order=tuple(checked.get("order") or ()),
        max_price_usd={name: Decimal(str(value)) for name, value in caps.items()},
        max_latency_s=_cutoffs(checked.get("preferred_max_latency")),
        min_throughput_tps=_cutoffs(checked.get("preferred_min_throughput")),
        quantizations=tuple(checked.get("quantizations") or ()),
        require_parameters=bool(checked.get("require_parameters")),
        rescue=checked.get("rescue"),
        sort=sort,
        partition=partition,
        zdr=bool(checked.get("zdr")),
    )


_ROUTE_PARTITIONS: dict[str, Partition] = {"fallback": "model", "sort": "none"}


def _cutoffs(value: float | PercentilesField | None) -> dict[str, float]:
    if value is None:
        return {}
    items: Mapping[str, Any] = value if isinstance(value, dict) else {"p50": value}
    return {name: cutoff for name, cutoff in items.items() if cutoff is not None}
