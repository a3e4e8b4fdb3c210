"""The features under which money is put to the proof, and the crowd that asks with one of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import HELLO, Desk, changed_workspace
from tests.conformance.guarded import set_guardrail
from tests.conformance.own_credentials import bring, credentials_at
from tests.faults import bench
from tests.support.callers import Heard, ask, begin
from tests.support.ledger import Call

REQUESTS, AT_ONCE, MAX_TOKENS = 24, 8, 100
ASKED = {"model": "plain/first", "messages": HELLO, "max_tokens": MAX_TOKENS}
USAGE = {"prompt_tokens": 27, "completion_tokens": MAX_TOKENS}
ONE_NANO = 27 * bench.CHEAP_NANO[0] + MAX_TOKENS * bench.CHEAP_NANO[1]
# After so many of each crowd prices change from one to the other.
CHANGED_AFTER = 4
DEARER = {"prompt": "0.0000015", "completion": "0.000003"}
PAID_NANO = frozenset({ONE_NANO, 27 * 1_500 + MAX_TOKENS * 3_000})
CREDITS_USD, LIMIT_USD, LIMIT_NANO = "0.004", 0.003, 3_000_000
GOOD = {"text": "Well met", "usage": USAGE}
# More than anybody reckoned with.
OVERRUN = {**USAGE, "completion_tokens": 3 * MAX_TOKENS}
BUSY = {"status": 503, "json": {"error": {"message": "busy"}}}
CUT = {"events": [{"text": "Well "}, {"text": "m"}, {"cut": "reset"}]}
# Longer than any caller waits.
LATE = {"gate": "never", **GOOD}
SECRET = {"text": "It is secret-7 of course", "usage": USAGE}
ORDER = ["first", "second"]
SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "a",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "required": ["a"],
            "additionalProperties": False,
        },
    },
}
CLASSIFIER = {
    "id": "auto-router",
    "classifier": {
        "model": "acme/judge",
        "classes": {"one": {"model": "plain/first"}, "two": {"model": "plain/second"}},
    },
}


@dataclass(frozen=True)
class Outcome:
    """What the callers who stayed were answered, and what is on record of all by generation."""

    desk: Desk
    heard: list[Heard]
    calls: dict[str, Call]

    @property
    def statuses(self) -> set[int]:
        return {each.status for each in self.heard}

    def read_records(self) -> Iterator[Any]:
        """Each generation as GET /generation shows it."""
        return map(self.desk.generation, self.calls)


def has_attempts(*statuses: int) -> Callable[[Outcome], bool]:
    """Whether some request had attempts that ended like this, in this order."""
    return lambda outcome: any(
        [each["status"] for each in record["provider_responses"]] == list(statuses)
        for record in outcome.read_records()
    )


def has_cache_status(status: str) -> Callable[[Outcome], bool]:
    return lambda outcome: any(each.cache_status == status for each in outcome.heard)


@dataclass(frozen=True)
class Feature:
    """One feature and its requests. `happened` sees that it was at work; `set_up` switches it on.

    Each request has `body` beside; where it `is_same` all are of one user and so the very same.
    `first` answers by `steps` in turn. `refusals` may come beside those of what cannot be paid for.
    A whole answer may cost one of `owed_nano`; None where a request has parts of which some may be
    owed. A request makes so many `generations`, and `limit_nano` is the smallest limit on all.
    """

    happened: Callable[[Outcome], bool]
    set_up: Callable[[Desk], object] = lambda desk: None
    body: dict[str, Any] = field(default_factory=dict)
    is_same: bool = False
    steps: tuple[dict[str, Any], ...] = (GOOD,)
    refusals: frozenset[int] = frozenset()
    owed_nano: frozenset[int] | None = PAID_NANO
    generations: int = 1
    limit_nano: int = LIMIT_NANO


def limit_rates(desk: Desk) -> None:
    """Some requests find no place, and are refused before they cost anything."""
    changed_workspace(desk, rate_limits=[{"concurrent": 2, "tokens_per_minute": 10**6}])


FEATURES = {
    "retries": Feature(has_attempts(503, 200), steps=(BUSY, GOOD, GOOD), refusals=frozenset({503})),
    "hedge": Feature(
        has_attempts(499, 200),
        lambda desk: changed_workspace(desk, hedge=True),
        {"model": "plain/pair", "provider": {"order": ORDER, "hedge_after_s": 0.1}},
        steps=({"delay_s": 2.0, **GOOD}, GOOD),
        owed_nano=None,
    ),
    "rescue": Feature(
        # Both parts are paid for.
        lambda outcome: any(
            call.status == 200 and call.tokens_prompt > USAGE["prompt_tokens"]
            for call in outcome.calls.values()
        ),
        lambda desk: changed_workspace(desk, rescue=True),
        {"model": "plain/pair", "provider": {"order": ORDER}, "stream": True},
        steps=(CUT,),
        # Who cannot pay for the rest.
        refusals=frozenset({502}),
        owed_nano=None,
    ),
    "coalescing": Feature(
        has_cache_status("SHARED"),
        body={"temperature": 0},
        is_same=True,
        steps=({"delay_s": 1.0, **GOOD},),
        owed_nano=PAID_NANO | {0},
    ),
    "exact cache": Feature(
        has_cache_status("HIT"),
        lambda desk: changed_workspace(desk, response_cache=True),
        is_same=True,
        owed_nano=PAID_NANO | {0},
    ),
    "output guardrail": Feature(
        lambda outcome: any(
            record["finish_reason"] == "content_filter" for record in outcome.read_records()
        ),
        lambda desk: set_guardrail(
            desk, output_filters=[{"pattern": "secret-[0-9]", "action": "block"}]
        ),
        steps=(GOOD, SECRET),
    ),
    "classifier": Feature(
        lambda outcome: bool(outcome.desk.list_sent_bodies("judge")),
        body={"model": "router/auto", "plugins": [CLASSIFIER]},
        generations=2,
    ),
    "deadline": Feature(
        lambda outcome: any(call.status == 408 for call in outcome.calls.values()),
        body={"model": "plain/patient", "provider": {"deadline_ms": 15_000}},
        steps=(GOOD, GOOD, LATE),
        refusals=frozenset({408}),
    ),
    "own credential": Feature(
        lambda outcome: any(record["is_byok"] for record in outcome.read_records()),
        lambda desk: bring(desk, "first", "sk-mine-0123456789abcdef"),
        owed_nano=frozenset({0}),
    ),
    "pool": Feature(
        lambda outcome: len(set(credentials_at(outcome.desk, "pooled"))) == 2,
        body={"model": "plain/pooled"},
    ),
    "schema and repair": Feature(
        has_attempts(200, 200),
        lambda desk: set_guardrail(desk, enforce_schema=True),
        {"response_format": SCHEMA},
        steps=(GOOD, {"text": '{"a": 1}', "usage": USAGE}),
        owed_nano=None,
    ),
    "rate limits": Feature(
        lambda outcome: 429 in outcome.statuses,
        limit_rates,
        steps=({"delay_s": 0.3, **GOOD},),
        refusals=frozenset({429}),
    ),
    "tags and end users": Feature(
        # Of the key's own limit enough is left.
        lambda outcome: bool(outcome.statuses & {402, 403}),
        lambda desk: changed_workspace(
            desk,
            end_user_budget={"reset_interval": "daily", "limit_usd": 10, "overrides": []},
            tag_budgets=[{"tag": "run=*", "reset_interval": "daily", "limit_usd": 0.0025}],
        ),
        {"metadata": {"run": "crowd"}},
        # Where nothing is left of the tag's budget.
        refusals=frozenset({403}),
        limit_nano=2_500_000,
    ),
}


def list_providers(simulator: SimulatedUpstream) -> list[dict[str, Any]]:
    pooled = bench.provider("pooled", f"{simulator.url}/pooled/v1")
    del pooled["credential"]
    pooled["credentials"] = [
        {"label": label, "credential": f"secret-{label}", "weight": 1} for label in "ab"
    ]
    judge = bench.provider("judge", f"{simulator.url}/judge/v1", kind="decisions")
    return [*bench.personas(simulator), pooled, judge]


def list_models(pricing: dict[str, str]) -> list[dict[str, Any]]:
    deciding = {"provider": "judge", "upstream_model": "judge", "pricing": bench.CHEAP}
    parameters = [*bench.PARAMETERS, "structured_outputs"]
    first, second = (
        bench.endpoint(slug, supported_parameters=parameters, pricing=pricing)
        for slug in ("first", "second")
    )
    return [
        bench.model("plain/first", first),
        bench.model("plain/second", second),
        bench.model("plain/pair", first, second),
        bench.model("plain/patient", first, first_byte_s=60),
        bench.model("plain/pooled", bench.endpoint("pooled", pricing=pricing)),
        bench.model("acme/judge", deciding, output_modalities=["decisions"]),
    ]


def script_upstreams(
    simulator: SimulatedUpstream, feature: Feature, usage: dict[str, int] = USAGE
) -> None:
    """Let all answer as the feature has it, for more requests than are sent."""
    many = 4 * REQUESTS
    steps = [each | {"usage": usage} if "usage" in each else each for each in feature.steps]
    simulator.script("first", *(steps * many)[:many])
    for other in ("second", "pooled"):
        simulator.script(other, *[GOOD | {"usage": usage}] * many)


def stay(desk: Desk, number: int, feature: Feature, key: str | None = None) -> Heard:
    """One of the crowd, every third as a stream."""
    asked = {**ASKED, "stream": number % 3 == 0, **feature.body}
    user = "crowd" if feature.is_same else f"call-{number}"
    port = int(desk.server.env["PORT"])
    return ask(port, key or desk.account.api_key, tag=user, **asked)


def leave(desk: Desk, number: int, feature: Feature) -> None:
    """One who goes as soon as the answer begins."""
    user = "crowd" if feature.is_same else f"call-{number}"
    asked = {**ASKED, "stream": True, "user": user, **feature.body}
    wire = begin(int(desk.server.env["PORT"]), desk.account.api_key, **asked)
    try:
        wire.head()
    finally:
        wire.close()


def is_unpaid(answer: Heard) -> bool:
    """Whether it could not be paid for, or not to its end: what is left is too little, or nothing
    is left of a budget."""
    error = answer.body.get("error") if isinstance(answer.body, dict) else None
    return isinstance(error, dict) and error["code"] in {402, 403}


def ask_until_unpaid(
    desk: Desk, feature: Feature, heard: list[Heard], key: str | None = None
) -> None:
    """Ask on, one at a time, until even a lonely request cannot be paid for: what the feature
    refuses cost the crowd nothing."""
    heard.append(stay(desk, 1, feature, key))
    while not is_unpaid(heard[-1]):
        assert len(heard) < 3 * REQUESTS, heard[-1]
        heard.append(stay(desk, 1, feature, key))
