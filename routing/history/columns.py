"""The columns of each source of analytics: names to SQL. No name comes from a caller.

A source is the table of records (`raw`), of facts, or of sums by hour or day. A row of the first
two is one generation; a row of sums is many. Refused requests are in tables of their own: by
themselves (`refusal`), and counted (`refusal_count`).
"""

from collections.abc import Mapping, Set
from functools import cache
from typing import Final

from routing.history.dialect import Dialect
from routing.history.spans import Source

# The largest number of prompt tokens, and the bucket's name.
CONTEXT_BUCKETS: Final = (
    (1_000, "0-1K"),
    (4_000, "1K-4K"),
    (16_000, "4K-16K"),
    (64_000, "16K-64K"),
    (128_000, "64K-128K"),
    (1_000_000, "128K-1M"),
)
CONTEXT_BEYOND: Final = "1M+"
# The columns of a usage line, besides account, workspace and key.
LINE: Final = (
    *("model", "permaslug", "variant", "endpoint_tag", "provider_name", "app"),
    *("origin", "finish_reason", "context_length_bucket"),
)
# Percentiles of full days are prepared for queries whose columns are all in one of these cuts.
CUTS: Final = (
    ("workspace_id", "permaslug", "variant", "provider_name"),
    ("workspace_id", "api_key_id"),
    ("workspace_id", "app", "origin"),
    ("workspace_id", "finish_reason", "context_length_bucket"),
    ("workspace_id", "provider_name"),
)
# Its spreads are there where briefs are.
NARROWEST_CUT: Final = len(CUTS) - 1
# Sums of full days are prepared in brief for queries whose columns are all among these.
BRIEF: Final = (
    *("workspace_id", "api_key_id", "model", "permaslug", "variant", "endpoint_tag"),
    "provider_name",
)
MEASURES: Final = ("latency_ms", "speed_dtps")
# Sixteen buckets to each doubling: values of one bucket differ by a sixteenth at most.
_BUCKETS_PER_DOUBLING: Final = 16
_DOUBLINGS: Final = 30
STANDARD: Final = "standard"
# In the SQL of `external_user`: the placeholder of the salt that is hashed before the name.
SALT: Final = "%s"


def _own_part(name: str, *, of: str) -> str:
    """The part of an amount that is on a team's own credentials. A request that used both kinds
    records it; otherwise it is all or nothing."""
    return f"COALESCE(own_{name}_nano, CASE WHEN is_byok = 1 THEN {of} ELSE 0 END)"


# Sums by name, over rows of facts. The rolled tables have a column of the same name.
SUMS: Final[Mapping[str, str]] = {
    "requests": "COUNT(*)",
    "tokens_prompt": "SUM(tokens_prompt)",
    "tokens_completion": "SUM(tokens_completion)",
    "tokens_reasoning": "SUM(tokens_reasoning)",
    "tokens_cached": "SUM(tokens_cached)",
    "charge_nano": "SUM(charge_nano)",
    "cost_nano": "SUM(cost_nano)",
    "byok_requests": "SUM(is_byok)",
    "byok_fee_nano": f"SUM({_own_part('fee', of='charge_nano')})",
    "byok_cost_nano": f"SUM({_own_part('cost', of='cost_nano')})",
    "cache_saved_nano": "SUM(cache_saved_nano)",
    "data_saved_nano": "SUM(data_saved_nano)",
    "web_nano": "SUM(web_nano)",
    "web_cost_nano": "SUM(web_cost_nano)",
    "guarded": "SUM(guarded)",
    "from_cache": "SUM(from_cache)",
    "failed": "SUM(failed)",
    "latency_ms": "SUM(latency_ms)",
    "latency_count": "COUNT(latency_ms)",
    "speed_dtps": "SUM(speed_dtps)",
    "speed_count": "COUNT(speed_dtps)",
}
# The columns of facts that sums are made of.
FIGURES: Final = (
    *("tokens_prompt", "tokens_completion", "tokens_reasoning", "tokens_cached"),
    *("charge_nano", "cost_nano", "is_byok", "cache_saved_nano", "data_saved_nano"),
    *("own_cost_nano", "own_fee_nano"),
    *("web_nano", "web_cost_nano", "guarded", "from_cache", "failed", "latency_ms", "speed_dtps"),
)
# A tag as filters and rows name it, of the pairs that the statement joins (`Dialect.tags`).
TAG: Final = "tag.key || '=' || tag.value"
# The sum that only refused requests have; no generation is one.
REFUSED: Final = "refused"
_NOT_REFUSED: Final = {REFUSED: "0", "refusal_reason": "''"}


@cache
def raw_columns(dialect: Dialect) -> Mapping[str, str]:
    """The columns of the record `g`."""
    detail = {name: dialect.json_text("g.detail", name) for name in _IN_DETAIL}

    def nano(name: str) -> str:
        return f"COALESCE({nano_or_null(name)}, 0)"

    def nano_or_null(name: str) -> str:
        return f"CAST({detail[name]} AS bigint)"

    user = dialect.hash_text(SALT, "g.external_user")
    variant = dialect.last_word("g.model", ":")
    buckets = [f"WHEN g.tokens_prompt <= {most} THEN '{name}'" for most, name in CONTEXT_BUCKETS]
    timed = "g.status = 200 AND g.generation_time_ms > 0 AND g.tokens_completion > 0"
    speed = "(g.tokens_completion * 10000 + g.generation_time_ms / 2) / g.generation_time_ms"
    return {
        "at": "g.created_at",
        "account_id": "g.account_id",
        "workspace_id": "g.workspace_id",
        "api_key_id": "g.api_key_id",
        "generation_id": "g.id",
        "model": "g.model",
        "permaslug": f"COALESCE({detail['permaslug']}, g.model)",
        "variant": f"COALESCE(NULLIF({variant}, ''), '{STANDARD}')",
        "endpoint_tag": "COALESCE(g.endpoint_tag, '')",
        "provider_name": "COALESCE(g.provider_name, '')",
        "app": f"COALESCE({detail['app']}, '')",
        "app_title": f"COALESCE({detail['app_title']}, '')",
        "origin": f"COALESCE({detail['origin']}, '')",
        "finish_reason": "COALESCE(g.finish_reason, '')",
        "context_length_bucket": f"CASE {' '.join(buckets)} ELSE '{CONTEXT_BEYOND}' END",
        "external_user": f"CASE WHEN g.external_user IS NULL THEN '' ELSE {user} END",
        "tags": dialect.json_part("g.detail", "tags"),
        "tokens_prompt": "g.tokens_prompt",
        "tokens_completion": "g.tokens_completion",
        "tokens_reasoning": "g.tokens_reasoning",
        "tokens_cached": "g.tokens_cached",
        "charge_nano": "g.charge_nano",
        "cost_nano": "g.upstream_cost_nano",
        "is_byok": "CASE WHEN g.is_byok THEN 1 ELSE 0 END",
        "own_cost_nano": nano_or_null("own_cost_nano"),
        "own_fee_nano": nano_or_null("own_fee_nano"),
        "cache_saved_nano": nano("cache_saved_nano"),
        "data_saved_nano": nano("data_saved_nano"),
        "web_nano": nano("web_nano"),
        "web_cost_nano": nano("web_cost_nano"),
        "guarded": f"CASE WHEN {detail['guarded']} IS NULL THEN 0 ELSE 1 END",
        "from_cache": f"CASE WHEN {detail['response_cache_source_id']} IS NULL THEN 0 ELSE 1 END",
        "failed": "CASE WHEN g.error_type IS NULL THEN 0 ELSE 1 END",
        "status": "g.status",
        "error_type": "COALESCE(g.error_type, '')",
        **_NOT_REFUSED,
        "latency_ms": "CASE WHEN g.status = 200 THEN g.latency_ms END",
        "speed_dtps": f"CASE WHEN {timed} THEN {speed} END",
    }


_IN_DETAIL: Final = (
    *("permaslug", "app", "app_title", "origin", "cache_saved_nano", "data_saved_nano"),
    *("web_nano", "web_cost_nano", "guarded", "response_cache_source_id"),
    *("own_cost_nano", "own_fee_nano"),
)
_OF_LINE: Final = {name: f"l.{name}" for name in ("workspace_id", "api_key_id", "app_title", *LINE)}
FACT_COLUMNS: Final[Mapping[str, str]] = {
    **_OF_LINE,
    **{name: f"f.{name}" for name in ("at", "account_id", "generation_id", "external_user")},
    "tags": "f.tags",
    **{name: f"f.{name}" for name in FIGURES},
    # Facts of an older version do not say.
    "status": "COALESCE(f.status, 200)",
    "error_type": "f.error_type",
    **_NOT_REFUSED,
}
SUM_COLUMNS: Final[Mapping[str, str]] = {
    **_OF_LINE,
    "at": "f.start",
    "account_id": "f.account_id",
    **{name: f"f.{name}" for name in SUMS},
    **_NOT_REFUSED,
}
SPREAD_COLUMNS: Final[Mapping[str, str]] = {
    **_OF_LINE,
    "at": "f.start",
    "account_id": "f.account_id",
}
_OF_REFUSALS: Final[Mapping[str, str]] = {
    **dict.fromkeys(SUMS, "0"),
    **dict.fromkeys(("app_title", "generation_id", "external_user", *LINE), "''"),
    **{name: f"f.{name}" for name in ("account_id", "workspace_id", "api_key_id")},
    **{name: f"f.{name}" for name in ("status", "error_type")},
    "refusal_reason": "f.reason",
}
REFUSAL_COLUMNS: Final[Mapping[str, str]] = {
    **_OF_REFUSALS,
    **dict.fromkeys(("model", "permaslug"), "f.requested_model"),
    "at": "f.at",
    "tags": "f.tags",
    REFUSED: "1",
}
REFUSAL_COUNT_COLUMNS: Final[Mapping[str, str]] = {
    **_OF_REFUSALS,
    "at": "f.minute",
    "tags": "CAST(NULL AS jsonb)",
    REFUSED: "f.requests",
}
TABLES: Final[Mapping[Source, str]] = {
    "raw": "routing_generation g",
    "fact": "routing_generationfact f",
    "hour": "routing_usagehour f",
    "day": "routing_usageday f",
    "brief": "routing_usagebrief f",
    "spread": "routing_usagespread f",
    "refusal": "routing_failedrequest f",
    "refusal_count": "routing_failedrequestcount f",
}
# A column with this prefix needs the join of lines.
LINE_PREFIX: Final = "l."
LINES: Final = " JOIN routing_usageline l ON l.id = f.line_id"
# Lost generations, whose process died, have no usage.
LIVING: Final = "NOT g.lost"
# The rows of a table that count; what an upstream was asked for is a generation already.
ROWS: Final[Mapping[Source, str]] = {
    "raw": LIVING,
    "refusal": "f.generation_id IS NULL",
    "refusal_count": "f.is_refused",
}


def get_columns(source: Source, dialect: Dialect) -> Mapping[str, str]:
    if source == "raw":
        return raw_columns(dialect)
    return _COLUMNS[source]


_COLUMNS: Final[Mapping[Source, Mapping[str, str]]] = {
    "fact": FACT_COLUMNS,
    "hour": SUM_COLUMNS,
    "day": SUM_COLUMNS,
    "brief": SUM_COLUMNS,
    "spread": SPREAD_COLUMNS,
    "refusal": REFUSAL_COLUMNS,
    "refusal_count": REFUSAL_COUNT_COLUMNS,
}


def find_cut(names: Set[str], *, has_briefs: bool) -> int | None:
    """The number of the first cut that has all these columns, the narrowest one first if it is
    there; None where none has."""
    if has_briefs and names <= set(CUTS[NARROWEST_CUT]):
        return NARROWEST_CUT
    cuts = enumerate(CUTS[:NARROWEST_CUT])
    return next((n for n, columns in cuts if names <= set(columns)), None)


def bucket_sql(value: str) -> str:
    """SQL of the least value in the bucket of a whole number from 0 on: the number with only its
    five leading binary digits."""
    steps = [
        f"WHEN {value} < {_BUCKETS_PER_DOUBLING << n + 1} THEN {value} - {value} % {1 << n}"
        for n in range(_DOUBLINGS)
    ]
    return f"CASE {' '.join(steps)} ELSE {value} - {value} % {1 << _DOUBLINGS} END"
