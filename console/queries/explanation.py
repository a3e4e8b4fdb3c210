"""Why a request went where it went, from the record and the trace that were written with it."""

from collections.abc import Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

from console.words import format_money, format_ms, join_words
from gateway.http.errors import MalformedJson
from gateway.http.jsonio import loads
from routing.entities.exchange import CANCELLED
from routing.selection.explain import RouteVerdict, WinningChange, explain_route
from routing.selection.replay import CHOSEN, FAILED, OVERTAKEN, PASSED_OVER, UNREADABLE, TraceRow
from routing.selection.trace import VERSION

# How the next endpoint was found, by the rule of the trace.
_NEXT_BY: Final = {
    "balanced": "next by price",
    "price": "next by price",
    "order": "next in the request's order",
    "throughput": "next by throughput",
    "latency": "next by latency",
    "exacto": "next by the quality of its tool calls",
    "priority": "next of the priority tier",
    "flex": "next of the flex tier",
}
_FIRST_BY: Final = {
    "balanced": "drawn by price among those that work",
    "price": "the cheapest",
    "order": "first in the request's order",
    "throughput": "the fastest",
    "latency": "the first to begin an answer",
    "exacto": "the best at tool calls",
    "priority": "first of the priority tier",
    "flex": "first of the flex tier",
}
# What an attempt that got no status ran into.
_ERRORS: Final = {
    "timeout": "did not answer in time",
    "provider_unavailable": "could not be reached",
}


class Explanation(NamedTuple):
    """`verdicts` are the endpoints of the trace, `rule` the order's name, and `facts` the trace
    itself. All are empty where no trace can be read."""

    verdicts: Sequence[RouteVerdict] = ()
    rule: str = ""
    facts: Mapping[str, Any] = {}


def read_explanation(trace_text: str) -> Explanation:
    """What a stored trace has to say."""
    try:
        trace = loads(trace_text.encode())
        if not isinstance(trace, dict) or trace.get("v") != VERSION:
            return Explanation()
        return Explanation(explain_route(trace), trace.get("rule", ""), trace)
    except (MalformedJson, *UNREADABLE):
        return Explanation()


def describe_in_a_sentence(record: Mapping[str, Any], rule: str = "") -> str:
    """`Thrifty answered 503 in 1 ms; Steady was next by price and answered in 62 ms; you paid
    $0.0000044.` Of a record's `attempts`, `status`, `charge_nano`, `streamed`, `cancelled` and
    `lost`, and the rule of its trace."""
    attempts = record["attempts"]
    parts = []
    is_continued = False
    for number, attempt in enumerate(attempts):
        name = shorten_provider(attempt.get("provider_name"))
        took = format_ms(attempt.get("latency"))
        is_good = attempt.get("error_type") is None and attempt.get("status") == 200
        if is_good:
            how = _NEXT_BY.get(rule, "next") if number else _FIRST_BY.get(rule, "")
            began = f"{name} was {how} and" if how else name
            verb = "began to answer" if record.get("streamed") else "answered"
            if is_continued and record.get("streamed"):
                verb = "began the rest of the answer"
            parts.append(f"{began} {verb} in {took}")
        elif attempt.get("error_type") == CANCELLED:
            parts.append(f"{name} was cancelled after {took}")
        elif (broke_ms := attempt.get("broke_off_ms")) is not None:
            is_continued = True
            broke = f"broke off after {format_ms(broke_ms)}"
            parts.append(f"{name} began to answer in {took} and {broke}")
        else:
            parts.append(f"{name} {describe_failure(attempt)} in {took}")
    if record.get("lost"):
        parts.append("the gateway stopped before the request was booked")
    elif record.get("cancelled"):
        parts.append("the caller hung up")
    elif not attempts and record.get("status") == 200:
        parts.append("the answer came from the response cache")
    elif record.get("status") != 200:
        parts.append("no endpoint was left" if attempts else "no endpoint was asked")
    charge_nano = record.get("charge_nano") or 0
    parts.append(f"you paid {format_money(charge_nano)}" if charge_nano else "you paid nothing")
    text = "; ".join(parts)
    return text[:1].upper() + text[1:] + "."


def shorten_provider(name: str | None) -> str:
    """Without the word that all providers of the demo share."""
    return (name or "A provider").removeprefix("Simulated ")


def describe_failure(attempt: Mapping[str, Any]) -> str:
    """`answered 503`, `did not answer in time`."""
    status, error = attempt.get("status"), attempt.get("error_type")
    if status and status != 200:
        return f"answered {status}"
    return _ERRORS.get(error or "", f"failed ({(error or 'unknown').replace('_', ' ')})")


# --- The endpoints of a trace ---------------------------------------------------------------------

_STEPS: Final = {
    "Filter by Guardrails": "a guardrail does not allow it",
    "Filter by Ignored Providers": "its provider is to be ignored",
    "Filter by Allowed Providers": "its provider is not among the allowed ones",
    "Filter by Data Policy": "it may keep or use the data",
    "Filter by Zero Data Retention": "it retains data",
    "Filter by Distillable Text": "its text may not be distilled",
    "Filter by Quantization": "its quantization is not among the wanted ones",
    "Filter by Max Price": "it costs more than the highest price allowed",
    "Filter by Service Tier": "its service tier was not asked for",
    "Filter by Output Modality": "it cannot give that kind of output",
    "Filter by Tool Compatibility": "it cannot call tools",
    "Filter by Parameters": "it does not take a required parameter",
    "Filter by Context Length": "the prompt is too long for it",
    "Filter by Max Tokens": "it cannot write that much",
    "Filter by Image Support": "it reads no images",
    "Filter by Audio Support": "it reads no audio",
    "Filter by Video Support": "it reads no video",
    "Filter by File Support": "it reads no files",
    "Rate Limits": "it had no room under a rate limit",
    "Credentials Parked": "its provider refuses or throttles each of the gateway's credentials",
    "Own Credentials Only": "no credential of the team's own is for it",
}
_HEALTH: Final = {
    "parked": "parked after failures",
    "unstable": "unstable of late",
    "half_open": "to be tried again by one request",
    "failing": "failing more than half of its requests",
    "probe": "tried to see whether it works again",
}


def describe_step(step: str) -> str:
    """Why a step of the plan leaves an endpoint out, in words."""
    return _STEPS.get(step, step)


class Candidate(NamedTuple):
    """An endpoint that was considered, in words. `would_win` says what would have put it first."""

    row: TraceRow
    verdict: str
    tone: str
    why: str
    would_win: str

    @property
    def price(self) -> str:
        return " / ".join(f"${usd:.10g}" for usd in self.row.usd or ()) or "no price"

    @property
    def first_token(self) -> str:
        values = self.row.figures.get("ttft")
        return format_ms(values[0] * 1000) if values and values[0] is not None else ""

    @property
    def speed_text(self) -> str:
        values = self.row.figures.get("tps")
        return f"{values[0]:.0f} tokens/s" if values and values[0] is not None else ""


def list_candidates(explanation: Explanation) -> list[Candidate]:
    """Every endpoint that was considered, in the order of the plan, then the removed ones."""
    found = {row.verdict for row, _ in explanation.verdicts}
    return [_describe(*verdict, found) for verdict in explanation.verdicts]


def _describe(row: TraceRow, change: WinningChange | None, found: Set[str]) -> Candidate:
    """`found` are the verdicts of all."""
    health = join_words([_HEALTH.get(word, word.replace("_", " ")) for word in row.health])
    if row.verdict == CHOSEN:
        why = f"drawn with a chance of {row.weight:.0%}" if row.weight else "first in the order"
        why = "took over" if FAILED in found else why
        return Candidate(row, "answered", "good", health or why, "")
    if row.verdict == FAILED:
        why = (row.why or "failed").replace("_", " ")
        return Candidate(row, "failed", "bad", why, "")
    if row.verdict == OVERTAKEN:
        return Candidate(row, "overtaken", "plain", "another one gave content first", "")
    wins = _word_change(change) if change else ""
    if row.place is None:
        step = row.why or ""
        return Candidate(row, "ruled out", "plain", describe_step(step), wins)
    if row.verdict == PASSED_OVER:
        why = "no room under a limit, or too little money"
        return Candidate(row, "passed over", "plain", health or why, wins)
    if CHOSEN not in found:
        why = "the request ended before its turn" if FAILED in found else "no provider was asked"
        return Candidate(row, "not asked", "plain", health or why, wins)
    return Candidate(row, "not needed", "plain", health or "an earlier one answered", wins)


def _word_change(change: WinningChange) -> str:
    """`below $1.2 in and out`, `without provider.ignore`; "" where no change is known."""
    if change.cause == "setting":
        return f"without {change.setting}"
    if change.cause == "price" and change.below is not None:
        return f"below ${change.below:.10g} in and out together"
    if change.below is not None:
        return f"below {change.below:.3g} {change.unit}"
    if change.above is not None:
        return f"above {change.above:.3g} {change.unit}"
    return "named first in provider.order" if change.setting == "provider.order" else ""
