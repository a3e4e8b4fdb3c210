"""The measured intervals: each returns samples and decides nothing."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tests.load import asks, crossings
from tests.load.accounting import ProcessTree
from tests.load.apart import measured_apart
from tests.load.books import commit_p50_ms, settled_commits
from tests.load.console_pages import Pages
from tests.load.crossings import BY_WIRE, CONTENT, CROSSINGS, FORMATS, Crossing
from tests.load.figures import Interval, Pair
from tests.load.flooding import GOOD_PER_S, Flooded, Paced, measure_flood, read_paced, start_paced
from tests.load.guessing import Guessed, measure_guesses
from tests.load.history import Told
from tests.load.observing import Observing, observed_gateways
from tests.load.plan import BUSY_CONNECTIONS, CHUNKS_PER_S, STREAMS, Plan
from tests.load.rules import ruled_gateway
from tests.load.samples import (
    Commits,
    Decided,
    FirstTokens,
    Formats,
    Memory,
    Observed,
    Selected,
    Single,
    Tools,
)
from tests.load.selecting import Choosing
from tests.load.stand import DATABASE, WEB_WORKERS, Stand
from tests.load.streams import ENDS, Ends, first_content_ms, measured_streams
from tests.load.targets import LoadFailed, Target, fetch_answer
from tests.load.tokens import Presented, measure_tokens
from tests.load.toolless import Toolless
from tests.load.translating import Translating
from tests.support import processes
from tests.support.speakers import SPEAKERS

# Requests are counted in slices, because wrk is told seconds and not requests.
_SLICE_S = 3.0
_GROWTH_S_MAX = 180.0
_STREAM_GRACE_S = 60.0
_HISTORY_S_MAX = 1200.0
# What the upstream of decisions takes for each call.
_UPSTREAM_S = 0.05
# As many calls at once either way: a request for decisions makes up to eight.
_DECIDING = 8
_WARM_UP_WORDS = 5
# The rest of a stream whose first word counts.
_SHORT_WORDS = 2
_PLAIN = re.compile(rb'"content"')


@dataclass
class Measures:
    """Measures on one stand; `say` tells what is going on, `answered` what the books must hold."""

    stand: Stand
    plan: Plan
    say: Callable[[str], None]
    answered: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        stand, body = self.stand, asks.whole_body()
        self._governed = self._chat_target(body)
        self._ceiling = Target(f"{stand.ceiling_url}/whole", stand.key, body)
        self._direct = Target(f"{stand.upstream_url}/v1/chat/completions", stand.key, body)

    def warm_up(self) -> None:
        """Both servers, so that no measured interval pays for a first time; and their answers."""
        direct = fetch_answer(self._direct)
        asks.check_passed_on(fetch_answer(self._ceiling), direct)
        asks.check_governed(self._ask(self._governed), direct)
        self._load_ceiling(BUSY_CONNECTIONS, self.plan.warm_up_s)
        self._load(self._governed, BUSY_CONNECTIONS, self.plan.warm_up_s)

    def memory(self) -> Memory:
        """Workers at rest, then after the warm-up and after thousands of requests more."""
        self.say("memory of the web workers")
        idle = _resting(self.stand.web)
        self.warm_up()
        warm = self.stand.web.worker_rss_bytes()
        requests, until = 0, time.monotonic() + _GROWTH_S_MAX
        while requests < self.plan.growth_requests and time.monotonic() < until:
            requests += self._load(self._governed, BUSY_CONNECTIONS, _SLICE_S).units
        after = self.stand.web.worker_rss_bytes()
        return Memory(
            idle_bytes=max(idle.values()),
            warm_bytes=max(warm.values()),
            after_bytes=max(after.values()),
            growth_share=max(after[pid] / warm[pid] - 1 for pid in warm),
            requests=requests,
        )

    def requests(self) -> list[Pair]:
        """64 connections: the gateway, the ceiling, the gateway, the ceiling."""
        return [
            Pair(self._busy(), self._load_ceiling(BUSY_CONNECTIONS, self.plan.busy_s))
            for _ in self._turns("64 connections, pair", self.plan.busy_pairs)
        ]

    def rules(self) -> list[Pair]:
        """64 connections: with all rules on, without any, and again."""
        pairs = []
        with ruled_gateway(self.stand, asks.whole_body()) as (ruled, web):
            asks.check_governed(self._ask(ruled), fetch_answer(self._direct))
            self._load(ruled, BUSY_CONNECTIONS, self.plan.warm_up_s, web)
            for _ in self._turns("rules, pair", self.plan.busy_pairs):
                held = self._load(ruled, BUSY_CONNECTIONS, self.plan.busy_s, web)
                pairs.append(Pair(held, self._busy()))
        return pairs

    def selection(self) -> list[Selected]:
        """64 connections, then the choice alone, in turn."""
        return [
            Selected(
                self._busy(), Choosing(**self._measure_apart("selecting", self.plan.selection_s))
            )
            for _ in self._turns("selection, round", self.plan.selection_rounds)
        ]

    def single(self) -> list[Single]:
        """One connection, and one commit after the other on the same PostgreSQL."""
        seconds, run = self.plan.single_s, self.stand.generator.run
        return [
            Single(
                governed_ms=self._load(self._governed, 1, seconds).p50_ms,
                ceiling_ms=self._load_ceiling(1, seconds).p50_ms,
                direct_ms=run(self._direct, connections=1, seconds=seconds).p50_ms,
                commit_ms=commit_p50_ms(self.stand.postgres, seconds=self.plan.probe_s),
            )
            for _ in self._turns("1 connection, pair", self.plan.single_pairs)
        ]

    def commits(self) -> dict[int, Commits]:
        """By number of connections. What commits without requests is measured first."""
        self.say("commits per request")

        def read_settled() -> tuple[int, float]:
            return settled_commits(self.stand.postgres, DATABASE), time.monotonic()

        (began, idle_from), (before, started) = read_settled(), read_settled()
        idle_per_s = (before - began) / (started - idle_from)
        found = {}
        for connections in (1, BUSY_CONNECTIONS):
            load = self._load(self._governed, connections, self.plan.commits_s)
            now, ended = read_settled()
            found[connections] = Commits(load.units, now - before, ended - started, idle_per_s)
            before, started = now, ended
        return found

    def streams(self) -> list[Pair]:
        """200 streams at a time: the gateway, the bare relay, the gateway, the bare relay."""
        self.stand.pace_streams()
        words = self.plan.stream_chunks
        governed = self._chat_target(asks.stream_body(words))
        relay = Target(
            f"{self.stand.ceiling_url}/relay/chat/completions", governed.key, governed.body
        )
        return [
            Pair(self._read(governed, words), self._read(relay, words, of_ceiling=True))
            for _ in self._turns(f"{STREAMS} streams, pair", self.plan.stream_pairs)
        ]

    def decisions(self) -> Decided:
        """Twenty questions in one request, and what one costs beside a chat call to the same
        upstream, which takes 50 ms."""
        self.stand.simulator.control("PUT", "/_persona/judging", {"first_token_s": _UPSTREAM_S})
        url = f"{self.stand.gateway.root_url}/api/alpha/decisions"
        decisions = Target(url, self.stand.key, asks.decisions_body())
        question = self._chat_target(asks.question_body())
        asks.check_decided(self._ask(decisions))
        self._ask(question)
        waited, pairs, seconds = [], [], self.plan.single_s
        for _ in self._turns("decisions, round", self.plan.single_pairs):
            waited.append(self.stand.generator.run(decisions, connections=1, seconds=seconds))
            self.answered += waited[-1].answers
            done = self._load(decisions, _DECIDING, seconds)
            by_question = Interval(done.units * asks.QUESTIONS, done.seconds, done.cpu_s)
            pairs.append(Pair(by_question, self._load(question, BUSY_CONNECTIONS, seconds)))
        return Decided(waited, pairs)

    def tools(self) -> Tools:
        """64 connections, in turn: loops of five server-tool steps and a last turn, and single
        calls of the same model. Also what tools do to a call that names none."""
        self.stand.simulator.script("tools", asks.TOOL_CALL, repeat=True)
        loop, single = self._chat_target(asks.loop_body()), self._chat_target(asks.call_body())
        asks.check_loop(self._ask(loop))
        self._ask(single)
        pairs, toolless = [], []
        for _ in self._turns("server tools, pair", self.plan.busy_pairs):
            pairs.append(Pair(self._busy(loop), self._busy(single)))
            toolless.append(Toolless(**self._measure_apart("toolless", self.plan.selection_s)))
        return Tools(pairs, toolless)

    def observing(self) -> Observed:
        """Connections shared by a gateway with metrics, one with traces and one with neither, all
        at the same time; and the parts alone."""
        pairs: dict[str, list[Pair]] = {"metrics": [], "traces": []}
        with observed_gateways(self.stand, self._governed) as gateways:
            self._load_together(gateways, self.plan.warm_up_s)
            for _ in self._turns("metrics and traces, round", self.plan.observing_pairs):
                done = self._load_together(gateways, self.plan.busy_s)
                for name, found in pairs.items():
                    found.append(Pair(done[name], done["plain"]))
        alone = Observing(**self._measure_apart("observing", self.plan.observing_s))
        return Observed(**pairs, alone=alone)

    def flood(self) -> list[Flooded]:
        """Good requests so often a second, alone and beside 500 refusals a second, in turn."""
        seconds, unknown = self.plan.flood_s, self._chat_target(asks.unknown_body())
        turns = self._turns("flood, pair", self.plan.flood_pairs)
        return measure_flood(self._pace, unknown, seconds, self.stand.postgres, turns)

    def guesses(self) -> list[Guessed]:
        """Good requests so often a second, alone and beside guesses at all ways in, in turn."""
        turns = self._turns("guesses, pair", self.plan.guesses_pairs)
        root_url = self.stand.gateway.root_url
        return measure_guesses(self._pace, root_url, self.plan.guesses_s, turns)

    def _pace(self, seconds: float) -> Paced:
        done = read_paced(start_paced(self._governed, GOOD_PER_S, seconds), seconds)
        self.answered += done.statuses.get("200", 0)
        return done

    def tokens(self) -> list[Presented]:
        """64 connections, then a token in a key's place alone, in turn."""
        turns = self._turns("tokens, round", self.plan.selection_rounds)
        return [measure_tokens(self._busy(), self.stand, self.plan.selection_s) for _ in turns]

    def history(self) -> Told:
        """What is told of a million generations, in a database of its own."""
        return Told(**self._measure_filled("history", self.plan.history_rounds))

    def console(self) -> Pages:
        """The console's pages, likewise."""
        return Pages(**self._measure_filled("console_pages", self.plan.console_rounds))

    def _measure_filled(self, module: str, rounds: int) -> dict[str, Any]:
        rows, postgres = self.plan.history_rows, self.stand.postgres
        self.say(f"{module} of {rows:,} generations")
        postgres.create(module)
        env = {**self.stand.gateway.env, "DATABASE_URL": postgres.url(module)}
        try:
            return measured_apart(env, module, rows, rounds, most_s=_HISTORY_S_MAX)
        finally:
            postgres.drop(module)

    def _chat_target(self, body: str) -> Target:
        url = f"{self.stand.gateway.base_url}/chat/completions"
        return Target(url, self.stand.key, body)

    def _turns(self, what: str, count: int) -> Iterator[None]:
        for number in range(count):
            self.say(f"{what} {number + 1} of {count}")
            yield

    def _ask(self, target: Target) -> dict[str, Any]:
        self.answered += 1
        return fetch_answer(target)

    def _measure_apart(self, module: str, seconds: float) -> dict[str, Any]:
        return measured_apart(self.stand.gateway.env, module, seconds)

    def _busy(self, target: Target | None = None) -> Interval:
        return self._load(target or self._governed, BUSY_CONNECTIONS, self.plan.busy_s)

    def _load(
        self, target: Target, connections: int, seconds: float, web: ProcessTree | None = None
    ) -> Interval:
        """One interval of the gateway, or of whose processes `web` is."""
        done, load = self.stand.generator.interval(
            target, web or self.stand.web, connections=connections, seconds=seconds
        )
        if load.failed:
            self.stand.warn(f"{load.failed} of {load.requests} requests failed")
        self.answered += 0 if web is self.stand.ceiling_web else done.units
        return done

    def _load_together(
        self, gateways: Mapping[str, tuple[Target, ProcessTree]], seconds: float
    ) -> dict[str, Interval]:
        """One interval of each, with as many connections."""
        connections = BUSY_CONNECTIONS // len(gateways)

        def load(name: str) -> Interval:
            return self._load(gateways[name][0], connections, seconds, gateways[name][1])

        with ThreadPoolExecutor(len(gateways)) as pool:
            return dict(zip(gateways, pool.map(load, gateways), strict=True))

    def _load_ceiling(self, connections: int, seconds: float) -> Interval:
        return self._load(self._ceiling, connections, seconds, self.stand.ceiling_web)

    def _read(
        self, target: Target, words: int, *, of_ceiling: bool = False, ends: Ends = ENDS["chat"]
    ) -> Interval:
        """200 streams of the gateway, or of the bare relay beside the ceiling."""
        web = self.stand.ceiling_web if of_ceiling else self.stand.web
        within_s = words / CHUNKS_PER_S + _STREAM_GRACE_S
        done = measured_streams(target, web, streams=STREAMS, within_s=within_s, ends=ends)
        if done.units < STREAMS * words:
            raise LoadFailed(f"{target.url}: {done.units} events in {STREAMS} x {words} words")
        self.answered += 0 if of_ceiling else STREAMS
        return done

    def formats(self) -> Formats:
        """Everything, each answer looked at before."""
        self.stand.pace_streams()
        self._look()
        rounds, streams = self.plan.format_rounds, self._format_streams()
        first: dict[str, list[FirstTokens]] = {wire: [] for wire in BY_WIRE}
        for _ in self._turns("first texts, 1 connection, round", rounds):
            for wire, samples in first.items():
                samples.append(self._first_tokens(wire))
        translating = [
            Translating(**self._measure_apart("translating", self.plan.translating_s))
            for _ in self._turns("translating a conversation, round", rounds)
        ]
        return Formats(streams, first, translating)

    def _look(self) -> None:
        """Also the first time of everything, for which no interval shall pay."""
        words = _WARM_UP_WORDS
        for wire, pair in BY_WIRE.items():
            self._read_wire(wire, words)
            for each in pair:
                target = self._crossing_target(each, "paced", words)
                crossings.check_governed_stream(each.caller, target, words)
                self.answered += 1
                self._read_crossing(each, words)

    def _format_streams(self) -> dict[str, list[Pair]]:
        """Over each wire two crossings take the bare relay between them."""
        pairs: dict[str, list[Pair]] = {crossing.name: [] for crossing in CROSSINGS}
        words = self.plan.format_chunks
        for _ in self._turns(f"{STREAMS} streams over each wire, round", self.plan.format_rounds):
            for wire, (before, after) in BY_WIRE.items():
                first, relay = self._read_crossing(before, words), self._read_wire(wire, words)
                pairs[before.name].append(Pair(first, relay))
                pairs[after.name].append(Pair(self._read_crossing(after, words), relay))
        return pairs

    def _read_crossing(self, crossing: Crossing, words: int) -> Interval:
        target = self._crossing_target(crossing, "paced", words)
        return self._read(target, words, ends=ENDS[crossing.caller])

    def _read_wire(self, wire: str, words: int) -> Interval:
        # No upstream of the responses format says `[DONE]` behind its last event.
        ends, base_url = ENDS[FORMATS[wire]][:1], f"{self.stand.ceiling_url}/relay"
        relay = crossings.direct_target(wire, base_url=base_url, words=words)
        return self._read(relay, words, of_ceiling=True, ends=ends)

    def _first_tokens(self, wire: str) -> FirstTokens:
        """What is compared stands side by side."""
        base_url, governed_ms = f"{self.stand.simulator.url}/lively/v1", {}
        direct = crossings.direct_target(wire, base_url=base_url, words=_SHORT_WORDS)
        plain_ms = self._first_ms(self._governed, _PLAIN, counted=True)
        plain_direct_ms = self._first_ms(self._direct, _PLAIN)
        for each in BY_WIRE[wire]:
            target = self._crossing_target(each, "lively", _SHORT_WORDS)
            governed_ms[each.name] = self._first_ms(target, CONTENT[each.caller], counted=True)
        direct_ms = self._first_ms(direct, CONTENT[FORMATS[wire]])
        return FirstTokens(plain_ms, plain_direct_ms, governed_ms, direct_ms)

    def _first_ms(
        self, target: Target, content: re.Pattern[bytes], *, counted: bool = False
    ) -> float:
        """The median; `counted` are the gateway's, whose books hold every answer."""
        found_ms = first_content_ms(target, content, seconds=self.plan.first_token_s)
        self.answered += len(found_ms) if counted else 0
        return median(found_ms)

    def _crossing_target(self, crossing: Crossing, persona: str, words: int) -> Target:
        """A stream from the gateway, whose model is served by an endpoint of the wire."""
        url = self.stand.gateway.root_url + SPEAKERS[crossing.caller].path
        body = crossings.stream_request(crossing.caller, f"bench/{persona}-{crossing.wire}", words)
        return Target(url, self.stand.key, body)


def _resting(web: ProcessTree) -> dict[int, int]:
    """Resident bytes by worker, once all are there and grow no more."""
    last: dict[int, int] = {}

    def at_rest() -> bool:
        nonlocal last
        before, last = last, web.worker_rss_bytes()
        time.sleep(0.5)
        return len(last) == WEB_WORKERS and last == before

    processes.eventually(at_rest, within_s=15, what="the workers' rest", log=None)
    return last
