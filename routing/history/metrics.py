"""What analytics offers: metrics, dimensions, and the longest time each may be queried over."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Display = Literal["number", "currency", "percent", "latency", "throughput"]
# The unit of a value in the database: a count, nano-USD, a share, milliseconds, or tenths of tokens
# per second.
Kind = Literal["count", "nano", "share", "ms", "dtps"]
LONG_DAYS: Final = 365
SHORT_DAYS: Final = 31


class Metric(NamedTuple):
    """`sql` computes the metric from the `sums` it names (see `columns.SUMS`). A percentile has no
    `sql`: `percent` of the values of the column `value` are at most as large."""

    label: str
    display: Display
    kind: Kind
    sums: tuple[str, ...] = ()
    sql: str = ""
    days_max: int = LONG_DAYS
    is_rate: bool = False
    percent: int = 0
    value: str = ""


def _sum(label: str, name: str, *, days_max: int = LONG_DAYS) -> Metric:
    return Metric(label, "number", "count", (name,), name, days_max)


def _usd(label: str, sql: str, *sums: str, days_max: int = LONG_DAYS) -> Metric:
    return Metric(label, "currency", "nano", sums, sql, days_max)


def _share(label: str, part: str, whole: str, *, days_max: int = LONG_DAYS) -> Metric:
    sql = f"CAST({part} AS double precision) / NULLIF({whole}, 0)"
    return Metric(label, "percent", "share", (part, whole), sql, days_max, is_rate=True)


def _mean(label: str, display: Display, kind: Kind, total: str, count: str) -> Metric:
    sql = f"CAST({total} AS double precision) / NULLIF({count}, 0)"
    return Metric(label, display, kind, (total, count), sql, SHORT_DAYS)


def _percentile(label: str, display: Display, kind: Kind, value: str, percent: int) -> Metric:
    return Metric(label, display, kind, days_max=SHORT_DAYS, percent=percent, value=value)


METRICS: Final[Mapping[str, Metric]] = {
    "request_count": _sum("Requests", "requests"),
    "tokens_total": Metric(
        "Tokens",
        "number",
        "count",
        ("tokens_prompt", "tokens_completion"),
        "tokens_prompt + tokens_completion",
    ),
    "tokens_prompt": _sum("Prompt tokens", "tokens_prompt"),
    "tokens_completion": _sum("Completion tokens", "tokens_completion"),
    "reasoning_tokens": _sum("Reasoning tokens", "tokens_reasoning"),
    "cached_tokens": _sum("Cached tokens", "tokens_cached"),
    "byok_request_count": _sum("BYOK requests", "byok_requests"),
    "guardrail_invoked_count": _sum("Guardrail invocations", "guarded", days_max=SHORT_DAYS),
    "response_cached_count": _sum("Cached responses", "from_cache", days_max=SHORT_DAYS),
    "refused_count": _sum("Refused requests", "refused", days_max=SHORT_DAYS),
    "total_usage": _usd(
        "Total usage", "charge_nano + byok_cost_nano", "charge_nano", "byok_cost_nano"
    ),
    "credits_usage": _usd("Credits used", "charge_nano", "charge_nano"),
    "router_usage": _usd(
        "Usage without BYOK fees",
        "charge_nano - byok_fee_nano",
        *("charge_nano", "byok_fee_nano"),
        days_max=SHORT_DAYS,
    ),
    "byok_usage": _usd("BYOK inference", "byok_cost_nano", "byok_cost_nano"),
    "byok_fees": _usd("BYOK fees", "byok_fee_nano", "byok_fee_nano", days_max=SHORT_DAYS),
    "usage_upstream": _usd("Upstream inference cost", "cost_nano", "cost_nano"),
    "usage_cache": _usd("Prompt caching", "0 - cache_saved_nano", "cache_saved_nano"),
    "usage_data": _usd("Data discount", "0 - data_saved_nano", "data_saved_nano"),
    "usage_web": _usd("Web search", "web_nano", "web_nano"),
    "usage_upstream_web": _usd("Upstream web search", "web_cost_nano", "web_cost_nano"),
    # No plug-in for files or fetching is charged.
    "usage_file": _usd("Files", "0", days_max=SHORT_DAYS),
    "usage_upstream_file": _usd("Upstream files", "0", days_max=SHORT_DAYS),
    "usage_web_fetch": _usd("Web fetch", "0", days_max=SHORT_DAYS),
    "usage_upstream_web_fetch": _usd("Upstream web fetch", "0", days_max=SHORT_DAYS),
    "avg_latency": _mean("Average latency", "latency", "ms", "latency_ms", "latency_count"),
    **{
        f"p{percent}_latency": _percentile(
            f"Latency p{percent}", "latency", "ms", "latency_ms", percent
        )
        for percent in (50, 90, 99)
    },
    "avg_throughput": _mean(
        "Average throughput", "throughput", "dtps", "speed_dtps", "speed_count"
    ),
    **{
        f"p{percent}_throughput": _percentile(
            f"Throughput p{percent}", "throughput", "dtps", "speed_dtps", percent
        )
        for percent in (50, 90, 99)
    },
    "cache_hit_rate": _share("Cache hit rate", "tokens_cached", "tokens_prompt"),
    "error_rate": Metric(
        "Error rate",
        "percent",
        "share",
        ("failed", "refused", "requests"),
        "CAST(failed + refused AS double precision) / NULLIF(requests + refused, 0)",
        SHORT_DAYS,
        is_rate=True,
    ),
    "guardrail_invoked_rate": _share("Guardrail rate", "guarded", "requests", days_max=SHORT_DAYS),
    "response_cached_rate": _share(
        "Cached response rate", "from_cache", "requests", days_max=SHORT_DAYS
    ),
}


class Dimension(NamedTuple):
    """`column` is one of `routing.history.columns`, "user" for the key's creator, "tag" for a row
    of each tag, "" where nothing is known. `is_number` ones are compared as numbers; `is_single`
    ones need facts."""

    label: str
    column: str
    days_max: int = LONG_DAYS
    is_number: bool = False
    is_single: bool = False


DIMENSIONS: Final[Mapping[str, Dimension]] = {
    "model": Dimension("Model", "permaslug"),
    "variant": Dimension("Variant", "variant"),
    "api_key_id": Dimension("API key", "api_key_id", is_number=True),
    "user": Dimension("User", "user", is_number=True),
    "workspace": Dimension("Workspace", "workspace_id"),
    "app": Dimension("App", "app"),
    "generation_id": Dimension("Generation", "generation_id", SHORT_DAYS, is_single=True),
    "provider": Dimension("Provider", "provider_name", SHORT_DAYS),
    "origin": Dimension("Origin", "origin", SHORT_DAYS),
    # Nothing here maps addresses to places.
    "country": Dimension("Country", "", SHORT_DAYS),
    "finish_reason": Dimension("Finish reason", "finish_reason", SHORT_DAYS),
    "external_user": Dimension("External user", "external_user", SHORT_DAYS, is_single=True),
    "tag": Dimension("Tag", "tag", SHORT_DAYS, is_single=True),
    "status": Dimension("Status", "status", SHORT_DAYS, is_number=True, is_single=True),
    "error_type": Dimension("Error type", "error_type", SHORT_DAYS, is_single=True),
    "refusal_reason": Dimension("Refusal reason", "refusal_reason", SHORT_DAYS, is_single=True),
    "context_length_bucket": Dimension("Context length", "context_length_bucket", SHORT_DAYS),
}
SCALAR: Final[Mapping[str, str]] = {
    "eq": "=",
    "neq": "<>",
    "gt": ">",
    "gte": ">=",
    "lt": "<",
    "lte": "<=",
}
ARRAY: Final[Mapping[str, str]] = {"in": "IN", "not_in": "NOT IN"}
