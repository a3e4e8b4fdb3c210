"""Reading a stored trace back: requirements, policy, statistics and the outcome per endpoint."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from routing.entities.entries import EndpointEntry, ModelEntry
from routing.entities.exchange import CANCELLED
from routing.selection.filters import LIMITS_STEP, PARKED_STEP
from routing.selection.trace import VERSION, WEIGHTS_SUM, WORD_SETS
from routing.selection.types import (
    NO_POLICY,
    POLICY_FIELDS,
    EndpointState,
    EndpointStats,
    HealthSnapshot,
    Percentiles,
    Policy,
    Requirements,
    WarmCache,
)

CHOSEN: Final = "chosen"
FAILED: Final = "failed"
# Another endpoint, which was asked beside it, gave content first.
OVERTAKEN: Final = "overtaken"
PASSED_OVER: Final = "passed over"
RESERVE: Final = "in reserve"
REMOVED: Final = "removed"


class NotReplayable(Exception):
    """The trace does not suffice. The text is the reason; equal reasons have equal texts."""


class TraceRow(NamedTuple):
    """One endpoint of a trace.

    `place` counts from 0. `why` is the error type of its attempt or the step that removed it. `usd`
    is the price of a million tokens (prompt, completion), `weight` its share in the draw. `health`
    has the fields of `HealthSnapshot` that listed it. `figures` are as the trace has them. `byok`
    and `byok_fallback` are the places of the team's own credentials for it. An `unshared` endpoint
    was not to be tried with another credential.
    """

    model: str
    tag: str
    verdict: str
    place: int | None = None
    why: str | None = None
    usd: list[float] | None = None
    weight: float | None = None
    figures: Mapping[str, Any] = {}
    health: tuple[str, ...] = ()
    sticky: bool = False
    byok: tuple[int, ...] = ()
    byok_fallback: tuple[int, ...] = ()
    unshared: bool = False


class Replay(NamedTuple):
    """A request as its trace describes it. `models` are ids, in order; `rows` are by model id and
    tag. `by_session` says that a session kept it on its sticky endpoint, `cache` what that may have
    had cached."""

    models: tuple[str, ...]
    requirements: Requirements
    policy: Policy
    rows: Mapping[tuple[str, str], TraceRow]
    by_session: bool
    cache: WarmCache | None = None

    def was_unavailable(self, endpoint: EndpointEntry) -> bool:
        """Whether the endpoint failed the request, or was not asked for a reason that no rule has.
        It had no room, or the balance did not hold its price."""
        row = self.rows.get(endpoint_name(endpoint))
        if row is None:
            return False
        return row.verdict in (FAILED, PASSED_OVER) or row.why in (LIMITS_STEP, PARKED_STEP)


def read_replay(trace: object) -> Replay:
    """The request behind a stored trace. Raises `NotReplayable`."""
    if not isinstance(trace, dict) or not trace:
        raise NotReplayable("no trace")
    if trace.get("v") != VERSION:
        raise NotReplayable("a trace of another version")
    if trace.get("cut"):
        raise NotReplayable("the policy was too long to store")
    try:
        facts = trace["ask"]
        sets = {name: frozenset(facts.get(name, ())) for name in ("kinds", *WORD_SETS)}
        stay = trace.get("stay")
        return Replay(
            models=tuple(trace["models"]),
            requirements=Requirements(**{**facts, **sets}),
            policy=Policy(
                **{name: _READERS[name](value) for name, value in trace.get("policy", {}).items()}
            ),
            rows={(row.model, row.tag): row for row in read_rows(trace)},
            by_session=trace.get("by_session", False),
            cache=None if stay is None else WarmCache(*[stay[name] for name in WarmCache._fields]),
        )
    except UNREADABLE:
        raise NotReplayable("a trace that cannot be read") from None


# Exceptions from reading a trace of unknown content.
UNREADABLE: Final = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)


def read_names(
    trace: Mapping[str, Any],
) -> tuple[list[tuple[str, str]], list[tuple[str, str, str]]]:
    """Model and tag of the endpoints in the order, and of the removed ones with the step that
    removed them. It takes a tenth of the cost of `read_rows`."""
    tags, steps, models = trace["tag"], trace.get("removed", []), trace["models"]
    ordered = len(tags) - len(steps)
    at_model = trace.get("model") or [0] * len(tags)
    names = [(models[at], tag) for at, tag in zip(at_model, tags, strict=True)]
    removed = zip(names[ordered:], steps, strict=True)
    return names[:ordered], [(*name, step) for name, step in removed]


def read_rows(trace: Mapping[str, Any]) -> Iterator[TraceRow]:
    """The endpoints of a trace: those of the order, then the removed ones."""
    tags, steps = trace["tag"], trace.get("removed", [])
    models, ordered = trace["models"], len(trace["tag"]) - len(steps)
    at_model = trace.get("model") or [0] * len(tags)
    places = trace.get("places") or range(ordered)
    errors, chosen = dict(trace.get("attempts", [])), trace.get("chosen")
    last_tried = max(errors, default=-1)
    figures, weights = trace.get("figures"), trace.get("weights")
    own, own_last = (
        {at: tuple(places) for at, *places in trace.get(name, ())}
        for name in ("byok", "byok_fallback")
    )
    health = {name: trace.get(name, ()) for name in HealthSnapshot._fields}
    health["probe"] = (trace.get("probe"),)
    for at, tag in enumerate(tags):
        in_order = at < ordered
        if not in_order:
            verdict = REMOVED
        elif at == chosen:
            verdict = CHOSEN
        elif at in errors:
            verdict = OVERTAKEN if errors[at] == CANCELLED else FAILED
        else:
            verdict = PASSED_OVER if at < last_tried else RESERVE
        yield TraceRow(
            model=models[at_model[at]],
            tag=tag,
            verdict=verdict,
            place=places[at] if in_order else None,
            why=errors.get(at) if in_order else steps[at - ordered],
            usd=trace["usd"][at],
            weight=(weights[at] / WEIGHTS_SUM or None) if weights and in_order else None,
            figures=(figures and figures[at]) or {},
            health=tuple([name for name, numbers in health.items() if at in numbers]),
            sticky=trace.get("sticky") == at,
            byok=own.get(at, ()),
            byok_fallback=own_last.get(at, ()),
            unshared=at in trace.get("unshared", ()),
        )


def read_state(replay: Replay, models: Iterable[ModelEntry]) -> EndpointState:
    """The state at the time of the trace, by today's endpoint keys (matched by model and tag)."""
    rows = {
        endpoint.pk: row
        for model in models
        for endpoint in model.endpoints
        if (row := replay.rows.get(endpoint_name(endpoint))) is not None
    }
    return EndpointState(
        figures={key: _read_stats(row.figures) for key, row in rows.items() if row.figures},
        health=HealthSnapshot(
            *[
                frozenset(key for key, row in rows.items() if name in row.health)
                for name in HealthSnapshot._fields
            ]
        ),
        sticky=next((key for key, row in rows.items() if row.sticky), None),
        sticky_by_session=replay.by_session,
        byok={key: row.byok for key, row in rows.items() if row.byok},
        byok_fallback={key: row.byok_fallback for key, row in rows.items() if row.byok_fallback},
        unshared=frozenset(key for key, row in rows.items() if row.unshared),
        sticky_cache=replay.cache,
    )


def endpoint_name(endpoint: EndpointEntry) -> tuple[str, str]:
    """Model id and tag, which identify an endpoint across catalogue versions."""
    return endpoint.model_id, endpoint.tag


def _field_reader(default: object, name: str) -> Any:
    if name == "max_price_usd":
        return lambda value: {key: Decimal(text) for key, text in value.items()}
    if isinstance(default, tuple) or name == "account_allowed":
        return tuple
    if name in ("guard_models", "guard_providers", "guard_regions"):
        return frozenset
    return frozenset if isinstance(default, frozenset) else lambda value: value


_READERS: Final = {name: _field_reader(getattr(NO_POLICY, name), name) for name in POLICY_FIELDS}


def _read_stats(figures: Mapping[str, Any]) -> EndpointStats:
    up = figures.get("up", (None, None, None))
    return EndpointStats(
        latency_s=Percentiles(*figures["ttft"]) if "ttft" in figures else None,
        throughput_tps=Percentiles(*figures["tps"]) if "tps" in figures else None,
        tool_success=figures.get("tools"),
        uptime_5m=up[0],
        uptime_30m=up[1],
        uptime_1d=up[2],
        calls=figures.get("n", 0),
    )
