"""Decisions by log-probabilities beside chat calls to the same upstream, which takes 50 ms."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from tests.load.accounting import spent_s
from tests.load.answers import asked
from tests.load.figures import Interval, Pair, Part, median_ratio, medians
from tests.load.generators import Generator, LoadFailed, Target
from tests.load.plan import Plan
from tests.load.stand import Stand

QUESTIONS: Final = 20
UPSTREAM_S: Final = 0.05
MODEL: Final = "bench/judging"
# As many calls at once either way: a request makes up to eight.
_DECIDING: Final = 8
_CHATTING: Final = 64
_STATE: Final = "The parcel came a week late and the box was open. I want my money back. " * 4


@dataclass(frozen=True)
class Waited:
    """One caller after the other, in milliseconds."""

    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class Decided:
    """Requests of 20 questions one at a time; pairs of questions and chat calls under load."""

    waited: Sequence[Waited]
    pairs: Sequence[Pair]


@dataclass
class DecisionMeasures:
    """Measures on one stand; `answered` counts what the books must hold."""

    stand: Stand
    generator: Generator
    plan: Plan
    say: Callable[[str], None]
    answered: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        stand = self.stand
        self._decisions = Target(
            f"{stand.gateway.root_url}/api/alpha/decisions", stand.key, decisions_body()
        )
        self._chat = Target(f"{stand.gateway.base_url}/chat/completions", stand.key, chat_body())

    def all(self) -> Decided:
        """Everything, an answer looked at before."""
        temper = {"first_token_s": UPSTREAM_S}
        self.stand.simulator.control("PUT", "/_persona/judging", temper)
        check_decided(asked(self._decisions))
        asked(self._chat)
        self.answered += 2
        waited, pairs = [], []
        for number in range(self.plan.single_pairs):
            self.say(f"decisions, round {number + 1} of {self.plan.single_pairs}")
            waited.append(self._waited())
            pairs.append(Pair(self._deciding(), self._load(self._chat, _CHATTING)))
        return Decided(waited, pairs)

    def _waited(self) -> Waited:
        load = self.generator.run(self._decisions, connections=1, seconds=self.plan.single_s)
        self.answered += load.requests - load.failed
        return Waited(load.p50_ms, load.p99_ms)

    def _deciding(self) -> Interval:
        """By question."""
        done = self._load(self._decisions, _DECIDING)
        return Interval(done.units * QUESTIONS, done.seconds, done.cpu_s)

    def _load(self, target: Target, connections: int) -> Interval:
        web = self.stand.web
        before = web.cpu_s()
        load = self.generator.run(target, connections=connections, seconds=self.plan.single_s)
        cpu_s = spent_s(before, web.cpu_s())
        self.answered += load.requests - load.failed
        return Interval(load.requests - load.failed, load.seconds, cpu_s, load.p50_ms)


def decisions_part(decided: Decided) -> Part:
    """The slowest hundredth of requests, and questions for what a chat call costs."""
    cpu = medians(decided.pairs, _cpu)
    return Part(
        {
            "decisions_ms": median(each.p99_ms for each in decided.waited),
            "decisions_cpu_ratio": median_ratio(decided.pairs, _cpu),
        },
        {
            "decisions_ms": f"p50 {median(each.p50_ms for each in decided.waited):.0f} ms",
            "decisions_cpu_ratio": f"{cpu['governed']:.0f} us and {cpu['ceiling']:.0f} us",
        },
    )


def _cpu(one: Interval) -> float:
    return one.cpu_us_per_unit


def decisions_body() -> str:
    """Questions of every type about one state."""
    noul = {"type": "noul"}
    choice = {"type": "choice", "criteria": {"refund": "Money back", "repair": None, "other": None}}
    score = {"type": "score", "criteria": ["calm", "annoyed", "furious"]}
    kinds: list[dict[str, Any]] = [noul, choice, score, noul]
    questions = {
        f"q{n}": kinds[n % len(kinds)] | {"instructions": f"Question {n}: what is asked for?"}
        for n in range(QUESTIONS)
    }
    return json.dumps({"model": MODEL, "state": _STATE, "questions": questions})


def chat_body() -> str:
    """What one question would be as a chat."""
    message = {"role": "user", "content": f"{_STATE}\nIs money asked for? Answer yes or no."}
    return json.dumps({"model": MODEL, "messages": [message], "max_tokens": 1, "temperature": 0})


def check_decided(answer: dict[str, Any]) -> None:
    """Every question was answered with a distribution. Raises `LoadFailed`."""
    answers = answer["answers"].values()
    sums = [sum(each["probabilities"].values()) for each in answers if "probabilities" in each]
    if len(answers) != QUESTIONS or any(abs(total - 1) > 1e-9 for total in sums):
        raise LoadFailed(f"these are no decisions: {answer}")
