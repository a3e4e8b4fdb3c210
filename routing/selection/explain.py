"""Why each endpoint of a stored trace did not answer, and by which change it would have."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

from routing.entities.prices import plain
from routing.selection.filters import (
    ALLOWED_STEP,
    CONTEXT_STEP,
    DATA_STEP,
    DISTILLABLE_STEP,
    GUARDRAILS_STEP,
    IGNORED_STEP,
    INPUT_STEPS,
    LIMITS_STEP,
    MAX_TOKENS_STEP,
    OUTPUT_MODALITY_STEP,
    PARAMETERS_STEP,
    PARKED_STEP,
    PRICE_STEP,
    QUANTIZATION_STEP,
    TIER_STEP,
    TOOLS_STEP,
    ZDR_STEP,
)
from routing.selection.replay import CHOSEN, FAILED, OVERTAKEN, REMOVED, TraceRow, read_rows

Cause = Literal[
    "setting", "request", "failure", "health", "order", "price", "latency", "throughput"
]
# The setting of the request, its guardrails or its account that each filter reads.
_SETTINGS: Final[Mapping[str, str]] = {
    GUARDRAILS_STEP: "guardrail",
    IGNORED_STEP: "provider.ignore",
    ALLOWED_STEP: "provider.only",
    DATA_STEP: "provider.data_collection",
    ZDR_STEP: "provider.zdr",
    DISTILLABLE_STEP: "provider.enforce_distillable_text",
    QUANTIZATION_STEP: "provider.quantizations",
    PRICE_STEP: "provider.max_price",
    TIER_STEP: "service_tier",
    PARAMETERS_STEP: "provider.require_parameters",
    LIMITS_STEP: "rate_limits",
}
# What of the request itself no setting changes.
_REQUEST_PARTS: Final[Mapping[str, str]] = {
    OUTPUT_MODALITY_STEP: "modalities",
    TOOLS_STEP: "tools",
    CONTEXT_STEP: "the length of the prompt",
    MAX_TOKENS_STEP: "max_tokens",
    **{step: f"the {kind} in the prompt" for kind, step in INPUT_STEPS.items()},
}


class WinningChange(NamedTuple):
    """By which change an endpoint would have answered. `setting` names what a caller can set,
    `below` or `above` the figure it would have had to beat, in `unit`."""

    cause: Cause
    text: str
    setting: str | None = None
    below: float | None = None
    above: float | None = None
    unit: str | None = None


class RouteVerdict(NamedTuple):
    """One endpoint of the trace. `change` is None for the one that answered."""

    row: TraceRow
    change: WinningChange | None


def explain_route(trace: Mapping[str, Any]) -> list[RouteVerdict]:
    """The endpoints of a trace, those of the order first. Raises one of
    `routing.selection.replay.UNREADABLE` for what is no trace."""
    rows = list(read_rows(trace))
    winner = next((row for row in rows if row.verdict == CHOSEN), None)
    return [
        RouteVerdict(row, None if row is winner else _find_change(row, winner, trace))
        for row in rows
    ]


def _find_change(row: TraceRow, winner: TraceRow | None, trace: Mapping[str, Any]) -> WinningChange:
    if row.verdict == REMOVED:
        step = row.why or ""
        if step == PARKED_STEP:
            text = f"Its provider refuses or throttles each credential of the gateway's ({step})."
            return WinningChange("health", text)
        if (setting := _SETTINGS.get(step)) is not None:
            return WinningChange("setting", f"{setting} excluded it ({step}).", setting)
        part = _REQUEST_PARTS.get(step, "what the request asks for")
        return WinningChange("request", f"It cannot serve {part} ({step}).")
    if row.verdict == FAILED:
        return WinningChange("failure", f"It was asked and failed ({row.why}).")
    if row.verdict == OVERTAKEN:
        first = "another endpoint" if winner is None else winner.tag
        return WinningChange("latency", f"It was asked, and {first} gave content first.")
    if winner is None:
        return WinningChange("failure", "No endpoint answered, and this one was not reached.")
    stay = trace.get("stay") or {}
    if winner.sticky and stay.get("reason") != "first":
        text = f"The conversation stayed with {winner.tag}, which may have it cached."
        if saving_nano := stay.get("saving_nano"):
            text += f" That was expected to save {_format_usd(saving_nano)} USD."
        return WinningChange("order", text, setting="session_id")
    if row.sticky and not stay.get("stays", True):
        return _explain_move(winner, stay)
    if row.health and not winner.health:
        return WinningChange("health", f"It was {' and '.join(row.health)} at that moment.")
    explain = _BY_RULE.get(trace["rule"], _explain_draw)
    return explain(row, winner)


def _explain_move(winner: TraceRow, stay: Mapping[str, Any]) -> WinningChange:
    """Why the conversation did not stay with the endpoint that answered it last."""
    saving, dearer = _format_usd(stay["saving_nano"]), _format_usd(stay["dearer_nano"])
    if stay["reason"] == "slower":
        text = f"It had the conversation cached, but {winner.tag} is much faster."
        return WinningChange("latency", text, "session_id")
    if stay["reason"] == "cold":
        text = "The conversation was there before, but nothing of it is cached any more."
        return WinningChange("order", text, "session_id")
    text = f"Its cache would have saved {saving} USD, less than {dearer} USD that"
    text += f" the request costs less at {winner.tag}."
    return WinningChange("price", text, "session_id")


def _format_usd(nano: int) -> str:
    return plain(Decimal(nano).scaleb(-9))


def _explain_price(row: TraceRow, winner: TraceRow) -> WinningChange:
    usd = sum(winner.usd or ())
    text = f"{winner.tag} was cheaper: below {usd:.10g} USD per million tokens in and out together."
    return WinningChange("price", text, "provider.sort", below=usd, unit="USD per million tokens")


def _explain_latency(row: TraceRow, winner: TraceRow) -> WinningChange:
    limit_s = _find_median(winner, "ttft")
    if limit_s is None:
        return WinningChange("latency", "Nothing is known of its time to the first token.")
    text = f"{winner.tag} began sooner: a median time to the first token below {limit_s:.3g} s."
    return WinningChange("latency", text, "provider.sort", below=limit_s, unit="seconds")


def _explain_throughput(row: TraceRow, winner: TraceRow) -> WinningChange:
    limit = _find_median(winner, "tps")
    if limit is None:
        return WinningChange("throughput", "Nothing is known of its throughput.")
    text = f"{winner.tag} was faster: a median throughput above {limit:.1f} tokens per second."
    return WinningChange("throughput", text, "provider.sort", above=limit, unit="tokens per second")


def _explain_order(row: TraceRow, winner: TraceRow) -> WinningChange:
    text = f"provider.order names {winner.tag} before it."
    return WinningChange("order", text, "provider.order")


def _explain_draw(row: TraceRow, winner: TraceRow) -> WinningChange:
    own, other = sum(row.usd or ()), sum(winner.usd or ())
    if row.weight is None:
        text = f"{winner.tag} was drawn; this one is a fallback at its price."
    else:
        text = f"{winner.tag} was drawn; this one had a share of {row.weight:.1%}."
    if own <= other:
        return WinningChange(
            "order", f"{text} Named in provider.order it comes first.", "provider.order"
        )
    text += f" Below {other:.10g} USD per million tokens it would have had the larger share."
    return WinningChange(
        "price", text, "provider.order", below=other, unit="USD per million tokens"
    )


def _find_median(row: TraceRow, figure: str) -> float | None:
    values = row.figures.get(figure)
    return values[0] if values else None


_BY_RULE: Final[Mapping[str, Callable[[TraceRow, TraceRow], WinningChange]]] = {
    "order": _explain_order,
    "price": _explain_price,
    "flex": _explain_price,
    "latency": _explain_latency,
    "throughput": _explain_throughput,
    "priority": _explain_throughput,
}
