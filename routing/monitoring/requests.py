"""Metrics of requests, from the reports of those that ended."""

from collections import Counter as Counted
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Final
from uuid import UUID

from gateway.eventloop import yield_control
from gateway.http.jsonio import JsonObject, loads
from gateway.metrics.families import Counter, Histogram
from gateway.metrics.files import OTHER, LabelValues
from routing.reports.report import RequestReport
from routing.serving.request.context import Attempt

# New series take some time each to find their place.
_WRITTEN_AT_ONCE: Final = 50
# The buckets of OpenTelemetry's semantic conventions for generative AI.
_DURATION_BUCKETS: Final = (
    *(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
)
_FIRST_TOKEN_BUCKETS: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
)
_OUTPUT_TOKEN_BUCKETS: Final = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5),
)
_USD_NANO: Final = 10**9

REQUESTS: Final = Counter(
    "gateway_requests_total",
    "Inference requests that ended, refused ones included.",
    *("format", "model", "provider", "workspace", "status", "error_type"),
)
DURATION: Final = Histogram(
    "gateway_request_duration_seconds",
    "Time from the request's arrival to the end of its answer.",
    *("format", "model", "provider"),
    buckets=_DURATION_BUCKETS,
)
FIRST_TOKEN: Final = Histogram(
    "gateway_time_to_first_token_seconds",
    "Time from the arrival of a streamed request to the first token of its answer.",
    *("model", "provider"),
    buckets=_FIRST_TOKEN_BUCKETS,
)
OUTPUT_TOKEN: Final = Histogram(
    "gateway_time_per_output_token_seconds",
    "Mean time of the tokens of a streamed answer that came after its first.",
    *("model", "provider"),
    buckets=_OUTPUT_TOKEN_BUCKETS,
)
TOKENS: Final = Counter(
    "gateway_tokens_total",
    "Tokens as the serving model counts them, by type: `input`, `output`; `cached` are part of the "
    "input, `reasoning` of the output.",
    *("type", "model", "provider", "workspace"),
)
COST: Final = Counter(
    "gateway_cost_usd_total",
    "What providers are expected to bill, in USD.",
    *("model", "provider", "workspace"),
)
CHARGE: Final = Counter(
    "gateway_charge_usd_total",
    "What accounts were charged, in USD.",
    *("model", "provider", "workspace"),
)
SAVED: Final = Counter(
    "gateway_cache_saved_usd_total",
    "What accounts were charged less because providers read prompts from their cache, in USD. A "
    "request whose cache cost more than it saved counts as nothing.",
    *("model", "provider", "workspace"),
)
ATTEMPTS: Final = Counter(
    "gateway_upstream_attempts_total",
    "Requests that providers were sent, by outcome: `ok` or the type of the failure.",
    *("provider", "outcome"),
)
FALLBACKS: Final = Counter(
    "gateway_fallbacks_total",
    "Attempts at another endpoint after one failed, by the provider that failed.",
    "provider",
)
RETRIES: Final = Counter(
    "gateway_retries_total",
    "Further attempts at the endpoint that failed, by its provider.",
    "provider",
)
REFUSALS: Final = Counter(
    "gateway_refusals_total",
    "Requests that were refused before a provider was asked, or before the next one was, by "
    "reason: which rate limit, budget or filter it was.",
    *("reason", "workspace"),
)
REPEATS: Final = Counter(
    "gateway_repeats_total",
    "Requests whose `Idempotency-Key` had been used: the first answer once more, without a charge.",
    *("format", "workspace"),
)
TOOL_CALLS: Final = Counter(
    "gateway_tool_calls_total",
    "Calls of server tools that ended, by outcome: `ok` or `failed`.",
    *("tool", "outcome"),
)
GUARD_CHECKS: Final = Counter(
    "gateway_guard_checks_total",
    "Looks of external guards (`moderation`, `decision`) at `input` or `output`, by their result: "
    "`passed`, `flagged`, `blocked`, `would be blocked` or `failed`.",
    *("guard", "side", "result"),
)
CACHE_HITS: Final = Counter(
    "gateway_cache_hits_total", "Requests answered from the response cache.", "model"
)
DECISIONS: Final = Counter(
    "gateway_decisions_total",
    "Questions of decisions that were answered, by path: `native`, `logprobs` or `schema`.",
    "path",
)

# Types of tokens, and the columns of a record that count them.
_TOKEN_COLUMNS: Final[Mapping[str, str]] = {
    "input": "tokens_prompt",
    "output": "tokens_completion",
    "cached": "tokens_cached",
    "reasoning": "tokens_reasoning",
}

_models = LabelValues("model")
_providers = LabelValues("provider")
_workspaces = LabelValues("workspace")
_reasons = LabelValues("reason")


class _Sums:
    """The sums of requests with one set of labels since they were last written. Tokens are those of
    `_TOKEN_COLUMNS`."""

    __slots__ = (
        *("charge_nano", "cost_nano", "first_token_s", "output_token_s", "requests", "saved_nano"),
        *("tokens", "took_s"),
    )

    def __init__(self) -> None:
        self.requests = self.cost_nano = self.charge_nano = self.saved_nano = 0
        self.tokens = [0] * len(_TOKEN_COLUMNS)
        self.took_s: list[float] = []
        self.first_token_s: list[float] = []
        self.output_token_s: list[float] = []


# Format, model, provider, workspace, status and error type, as reports have them.
_Labels = tuple[str, str, str | None, UUID | None, int, str]


class RequestMetrics:
    """Sums up what `observe` is given until `write` is called. A number lies in a file that
    processes share, and is written once however many requests add to it.

    `list_models` gives the ids of models there are: the name in a refused request is whatever its
    caller wrote.
    """

    def __init__(self, list_models: Callable[[], Collection[str]]) -> None:
        self._list_models = list_models
        self._sums: defaultdict[_Labels, _Sums] = defaultdict(_Sums)
        # What few requests have, by family and values of labels.
        self._counts: Counted[tuple[Counter, tuple[str, ...]]] = Counted()

    def observe(self, reports: Sequence[RequestReport]) -> None:
        """Count a batch of ended requests."""
        models = self._list_models()
        for report in reports:
            self._add(report, models)

    def write(self) -> None:
        """Write what was counted since the last time."""
        sums, self._sums = self._sums, defaultdict(_Sums)
        counts, self._counts = self._counts, Counted()
        for number, (labels, own) in enumerate(sums.items(), 1):
            format, model, provider, workspace_id, status, error_type = labels
            model = model if model == OTHER else _models.limit(model)
            provider = _providers.limit(provider) if provider else ""
            workspace = _limit_workspace(workspace_id)
            REQUESTS.add(own.requests, format, model, provider, workspace, str(status), error_type)
            DURATION.observe_all(own.took_s, format, model, provider)
            for kind, count in zip(_TOKEN_COLUMNS, own.tokens, strict=True):
                if count:
                    TOKENS.add(count, kind, model, provider, workspace)
            for family, amount_nano in (
                (COST, own.cost_nano),
                (CHARGE, own.charge_nano),
                (SAVED, own.saved_nano),
            ):
                if amount_nano:
                    family.add(amount_nano / _USD_NANO, model, provider, workspace)
            for histogram, measured in (
                (FIRST_TOKEN, own.first_token_s),
                (OUTPUT_TOKEN, own.output_token_s),
            ):
                if measured:
                    histogram.observe_all(measured, model, provider)
            if number % _WRITTEN_AT_ONCE == 0:
                yield_control()
        for (family, values), amount in counts.items():
            family.add(amount, *values)

    def _add(self, report: RequestReport, models: Collection[str]) -> None:
        record, error, caller = report.record, report.error, report.caller
        workspace_id = None if caller is None else caller.workspace_id
        provider = None
        if record is not None:
            model, provider = record["model"], record["provider_name"]
        else:
            model = report.requested_model if report.requested_model in models else OTHER
        error_type = "" if error is None else error.error_type
        own = self._sums[report.format, model, provider, workspace_id, report.status, error_type]
        own.requests += 1
        own.took_s.append(max(0.0, report.ended - report.started))
        if report.is_repeat:
            self._count(REPEATS, report.format, _limit_workspace(workspace_id))
        # A budget may have had room for the first provider and none for the next.
        if error is not None and (record is None or error.is_unpaid):
            self._count(REFUSALS, _reasons.limit(error.reason), _limit_workspace(workspace_id))
        for check in report.guard_checks:
            self._count(GUARD_CHECKS, check["guard"], check["on"], check["result"])
        if record is None:
            return
        for place, column in enumerate(_TOKEN_COLUMNS.values()):
            own.tokens[place] += record[column]
        own.cost_nano += record["upstream_cost_nano"]
        own.charge_nano += record["charge_nano"]
        if record["tokens_cached"]:
            detail = loads(record["detail"].encode())
            own.saved_nano += max(0, detail.get("cache_saved_nano", 0))
        if report.attempts:
            self._count_attempts(report.attempts)
        elif error is None:
            self._count(CACHE_HITS, _models.limit(model))
        for attempts in report.submodel_attempts:
            self._count_attempts(attempts)
        for (tool, failed), count in report.ended_calls.items():
            self._counts[TOOL_CALLS, (tool, "failed" if failed else "ok")] += count
        if report.streamed and error is None and not record["cancelled"]:
            _add_stream(report, record, own)
        if report.format == "decisions":
            detail = loads(record["detail"].encode())
            methods = (detail.get("decisions") or {}).get("methods", {})
            for path, count in methods.items():
                self._counts[DECISIONS, (path,)] += count

    def _count(self, family: Counter, *values: str) -> None:
        self._counts[family, values] += 1

    def _count_attempts(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            outcome = attempt.failure.error_type if attempt.failure else "ok"
            self._count(ATTEMPTS, _providers.limit(attempt.endpoint.provider.name), outcome)
        for former, later in pairwise(attempts):
            # After an answer comes the next turn of a tool loop, or the next question; beside one
            # that was cancelled, the winner.
            if former.failure is not None and not former.is_cancelled:
                is_same = former.endpoint.pk == later.endpoint.pk
                provider = _providers.limit(former.endpoint.provider.name)
                self._count(RETRIES if is_same else FALLBACKS, provider)


def _limit_workspace(workspace_id: UUID | None) -> str:
    return "" if workspace_id is None else _workspaces.limit(str(workspace_id))


def _add_stream(report: RequestReport, record: JsonObject, own: _Sums) -> None:
    first = next((each.first_token for each in report.attempts if each.failure is None), None)
    if first is not None:
        own.first_token_s.append(max(0.0, first - report.started))
    first_ms, whole_ms = record["latency_ms"], record["generation_time_ms"]
    later_tokens = record["tokens_completion"] - 1
    if first_ms is not None and whole_ms is not None and later_tokens > 0:
        own.output_token_s.append(max(0, whole_ms - first_ms) / 1000 / later_tokens)
