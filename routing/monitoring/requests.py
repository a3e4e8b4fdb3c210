"""Metrics of requests, from the reports of those that ended.

A batch is summed up first, so that a number that many requests add to is written once.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import Final

from gateway.http.jsonio import JsonObject, loads
from gateway.metrics.families import Counter, Histogram
from gateway.metrics.label_values import OTHER, LabelValues
from routing.reports.report import RequestReport
from routing.serving.request.context import Attempt

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
    "Requests that were refused before a provider was asked, by reason: which rate limit, budget "
    "or filter it was.",
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
CACHE_HITS: Final = Counter(
    "gateway_cache_hits_total", "Requests answered from the response cache.", "model"
)
DECISIONS: Final = Counter(
    "gateway_decisions_total",
    "Questions of decisions that were answered, by path: `native`, `logprobs` or `schema`.",
    "path",
)

_models = LabelValues("model")
_providers = LabelValues("provider")
_workspaces = LabelValues("workspace")
_reasons = LabelValues("reason")


class _Batch:
    """What is to be added to counters, by family and values of labels; and what histograms get."""

    def __init__(self) -> None:
        self.sums: defaultdict[tuple[Counter, tuple[str, ...]], float] = defaultdict(float)
        self.measured: defaultdict[tuple[Histogram, tuple[str, ...]], list[float]]
        self.measured = defaultdict(list)

    def add(self, family: Counter, amount: float, *values: str) -> None:
        self.sums[family, values] += amount

    def observe(self, family: Histogram, value: float, *values: str) -> None:
        self.measured[family, values].append(value)

    def write(self) -> None:
        for (family, values), amount in self.sums.items():
            family.add(amount, *values)
        for (histogram, values), measured in self.measured.items():
            histogram.observe_all(measured, *values)


class RequestMetrics:
    """`list_models` gives the ids of models there are: the name in a refused request is whatever
    its caller wrote."""

    def __init__(self, list_models: Callable[[], Collection[str]]) -> None:
        self._list_models = list_models

    def observe(self, reports: Sequence[RequestReport]) -> None:
        """Count a batch of ended requests."""
        batch, models = _Batch(), self._list_models()
        for report in reports:
            _count_request(report, batch, models)
        batch.write()


def _count_request(report: RequestReport, batch: _Batch, models: Collection[str]) -> None:
    record, error, caller = report.record, report.error, report.caller
    workspace = ""
    if caller is not None and caller.workspace_id is not None:
        workspace = _workspaces.limit(str(caller.workspace_id))
    provider = ""
    if record is not None:
        model = _models.limit(record["model"])
        if name := record["provider_name"]:
            provider = _providers.limit(name)
    else:
        asked = report.requested_model
        model = _models.limit(asked) if asked in models else OTHER
    status, error_type = str(report.status), error.error_type if error else ""
    batch.add(REQUESTS, 1, report.format, model, provider, workspace, status, error_type)
    took_s = max(0.0, report.ended - report.started)
    batch.observe(DURATION, took_s, report.format, model, provider)
    if report.is_repeat:
        batch.add(REPEATS, 1, report.format, workspace)
    if record is None:
        if error is not None:
            batch.add(REFUSALS, 1, _reasons.limit(error.reason), workspace)
        return
    _count_usage(record, batch, (model, provider, workspace))
    if report.attempts:
        _count_attempts(report.attempts, batch)
    elif error is None:
        batch.add(CACHE_HITS, 1, model)
    for attempts in report.submodel_attempts:
        _count_attempts(attempts, batch)
    for (tool, failed), count in report.ended_calls.items():
        batch.add(TOOL_CALLS, count, tool, "failed" if failed else "ok")
    if report.streamed and error is None and not record["cancelled"]:
        _observe_stream(report, record, batch, model, provider)
    if report.format == "decisions":
        methods = (loads(record["detail"]).get("decisions") or {}).get("methods", {})
        for path, count in methods.items():
            batch.add(DECISIONS, count, path)


def _count_usage(record: JsonObject, batch: _Batch, whose: tuple[str, str, str]) -> None:
    for kind, column in (
        ("input", "tokens_prompt"),
        ("output", "tokens_completion"),
        ("cached", "tokens_cached"),
        ("reasoning", "tokens_reasoning"),
    ):
        if count := record[column]:
            batch.add(TOKENS, count, kind, *whose)
    if cost_nano := record["upstream_cost_nano"]:
        batch.add(COST, cost_nano / _USD_NANO, *whose)
    if charge_nano := record["charge_nano"]:
        batch.add(CHARGE, charge_nano / _USD_NANO, *whose)


def _count_attempts(attempts: Sequence[Attempt], batch: _Batch) -> None:
    for attempt in attempts:
        outcome = attempt.failure.error_type if attempt.failure else "ok"
        batch.add(ATTEMPTS, 1, _providers.limit(attempt.endpoint.provider.name), outcome)
    for former, later in pairwise(attempts):
        # After an answer comes the next turn of a tool loop, or the next question.
        if former.failure is not None:
            is_same = former.endpoint.pk == later.endpoint.pk
            provider = _providers.limit(former.endpoint.provider.name)
            batch.add(RETRIES if is_same else FALLBACKS, 1, provider)


def _observe_stream(
    report: RequestReport, record: JsonObject, batch: _Batch, model: str, provider: str
) -> None:
    first = next((each.first_token for each in report.attempts if each.failure is None), None)
    if first is not None:
        batch.observe(FIRST_TOKEN, max(0.0, first - report.started), model, provider)
    first_ms, whole_ms = record["latency_ms"], record["generation_time_ms"]
    later_tokens = record["tokens_completion"] - 1
    if first_ms is not None and whole_ms is not None and later_tokens > 0:
        each_s = max(0, whole_ms - first_ms) / 1000 / later_tokens
        batch.observe(OUTPUT_TOKEN, each_s, model, provider)
