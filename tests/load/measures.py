"""The measured intervals: each returns samples and decides nothing."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.load.accounting import WebProcesses, spent_s
from tests.load.answers import asked, check_governed, check_passed_on
from tests.load.apart import measured_apart
from tests.load.database import CommitCounter, commit_p50_ms
from tests.load.decisions_part import Decided, DecisionMeasures
from tests.load.figures import Commits, Interval, Pair
from tests.load.format_measures import FormatMeasures
from tests.load.format_samples import Formats
from tests.load.generators import Generator, Target
from tests.load.history import Told
from tests.load.history_part import told_apart
from tests.load.plan import BUSY_CONNECTIONS, CHUNKS_PER_S, STREAMS, Plan
from tests.load.rules import RuledGateway
from tests.load.samples import Memory, Selected, Single, Tools
from tests.load.selecting import Choosing
from tests.load.stand import DATABASE, WEB_WORKERS, Stand
from tests.load.streams import measured_streams
from tests.load.tool_loops import TOOL_CALL, call_body, check_loop, loop_body
from tests.load.toolless import Toolless
from tests.support import processes

# Requests are counted in slices, because wrk is told seconds and not requests.
_SLICE_S = 3.0
_GROWTH_S_MAX = 180.0
_STREAM_GRACE_S = 60.0


@dataclass
class Measures:
    """Measures on one stand with one load generator; `say` tells what is going on."""

    stand: Stand
    generator: Generator
    plan: Plan
    say: Callable[[str], None]
    answered: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        stand = self.stand
        body = whole_body()
        key = stand.key
        self._governed = Target(f"{stand.gateway.base_url}/chat/completions", key, body)
        self._ceiling = Target(f"{stand.ceiling.root_url}/whole", key, body)
        self._direct = Target(f"{stand.upstream_url}/v1/chat/completions", key, body)

    def warm_up(self) -> None:
        """Both servers, so that no measured interval pays for a first time; and their answers."""
        direct = asked(self._direct)
        check_passed_on(asked(self._ceiling), direct)
        check_governed(asked(self._governed), direct)
        self.answered += 1
        for target in (self._ceiling, self._governed):
            self._load(target, BUSY_CONNECTIONS, self.plan.warm_up_s)

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
        pairs = []
        for number in range(self.plan.busy_pairs):
            self.say(f"64 connections, pair {number + 1} of {self.plan.busy_pairs}")
            governed = self._load(self._governed, BUSY_CONNECTIONS, self.plan.busy_s)
            pairs.append(
                Pair(governed, self._load(self._ceiling, BUSY_CONNECTIONS, self.plan.busy_s))
            )
        return pairs

    def rules(self) -> list[Pair]:
        """64 connections: with all rules on, without any, and again."""
        pairs = []
        with RuledGateway(self.stand, self._governed.body) as ruled:
            check_governed(asked(ruled.target), asked(self._direct))
            ruled.load(self.generator, connections=BUSY_CONNECTIONS, seconds=self.plan.warm_up_s)
            for number in range(self.plan.busy_pairs):
                self.say(f"rules, pair {number + 1} of {self.plan.busy_pairs}")
                held = ruled.load(
                    self.generator, connections=BUSY_CONNECTIONS, seconds=self.plan.busy_s
                )
                self.answered += held.units
                pairs.append(Pair(held, self._load_plain()))
        return pairs

    def _load_plain(self) -> Interval:
        return self._load(self._governed, BUSY_CONNECTIONS, self.plan.busy_s)

    def selection(self) -> list[Selected]:
        """64 connections, then the choice alone, in turn."""
        found = []
        for number in range(self.plan.selection_rounds):
            self.say(f"selection, round {number + 1} of {self.plan.selection_rounds}")
            governed = self._load(self._governed, BUSY_CONNECTIONS, self.plan.busy_s)
            found.append(Selected(governed, self._choosing()))
        return found

    def _choosing(self) -> Choosing:
        module = "tests.load.selecting"
        return Choosing(**measured_apart(self.stand, module, seconds=self.plan.selection_s))

    def single(self) -> list[Single]:
        """One connection, and one commit after the other on the same PostgreSQL."""
        pairs = []
        for number in range(self.plan.single_pairs):
            self.say(f"1 connection, pair {number + 1} of {self.plan.single_pairs}")
            pairs.append(
                Single(
                    governed_ms=self._load(self._governed, 1, self.plan.single_s).p50_ms,
                    ceiling_ms=self._load(self._ceiling, 1, self.plan.single_s).p50_ms,
                    direct_ms=self._load(self._direct, 1, self.plan.single_s).p50_ms,
                    commit_ms=commit_p50_ms(self.stand.postgres, seconds=self.plan.probe_s),
                )
            )
        return pairs

    def commits(self) -> dict[int, Commits]:
        """By number of connections. What commits without requests is measured first."""
        self.say("commits per request")
        counter = CommitCounter(self.stand.postgres, DATABASE)
        try:
            began, idle_from = counter.settled(), time.monotonic()
            at_rest, measured_at = counter.settled(), time.monotonic()
            idle_per_s = (at_rest - began) / (measured_at - idle_from)
            found, before = {}, at_rest
            for connections in (1, BUSY_CONNECTIONS):
                started = measured_at
                load = self._load(self._governed, connections, self.plan.commits_s)
                now, measured_at = counter.settled(), time.monotonic()
                found[connections] = Commits(
                    load.units, now - before, measured_at - started, idle_per_s
                )
                before = now
            return found
        finally:
            counter.close()

    def streams(self) -> list[Pair]:
        """200 streams at a time: the gateway, the bare relay, the gateway, the bare relay."""
        stand, plan = self.stand, self.plan
        stand.pace_streams()
        body = stream_body(plan.stream_chunks)
        governed = Target(self._governed.url, stand.key, body)
        relay = Target(f"{stand.ceiling.root_url}/relay", stand.key, body)
        pairs = []
        for number in range(plan.stream_pairs):
            self.say(f"{STREAMS} streams, pair {number + 1} of {plan.stream_pairs}")
            first = self._read(governed, stand.web)
            self.answered += STREAMS
            pairs.append(Pair(first, self._read(relay, stand.ceiling.web)))
        return pairs

    def formats(self) -> Formats:
        """Callers of three formats over upstreams of three kinds."""
        whole, direct = self._governed, self._direct
        measures = FormatMeasures(self.stand, self.plan, whole, direct, self.say)
        found = measures.all()
        self.answered += measures.answered
        return found

    def decisions(self) -> Decided:
        """Twenty questions in one request, and what one costs beside a chat call."""
        measures = DecisionMeasures(self.stand, self.generator, self.plan, self.say)
        found = measures.all()
        self.answered += measures.answered
        return found

    def tools(self) -> Tools:
        """64 connections: loops of five server-tool steps and a last turn, single calls of the same
        model, and what tools do to a call that names none, in turn."""
        stand, url = self.stand, self._governed.url
        stand.simulator.script("tools", TOOL_CALL, repeat=True)
        loop, single = Target(url, stand.key, loop_body()), Target(url, stand.key, call_body())
        check_loop(asked(loop))
        asked(single)
        self.answered += 2
        pairs, toolless = [], []
        for number in range(self.plan.busy_pairs):
            self.say(f"server tools, pair {number + 1} of {self.plan.busy_pairs}")
            pairs.append(Pair(self._counted(loop), self._counted(single)))
            toolless.append(self._toolless())
        return Tools(pairs, toolless)

    def _toolless(self) -> Toolless:
        module = "tests.load.toolless"
        return Toolless(**measured_apart(self.stand, module, seconds=self.plan.selection_s))

    def _counted(self, target: Target) -> Interval:
        done = self._load(target, BUSY_CONNECTIONS, self.plan.busy_s)
        self.answered += done.units
        return done

    def history(self) -> Told:
        """What is told of a million generations, in a database of its own."""
        self.say(f"history of {self.plan.history_rows:,} generations")
        return told_apart(self.stand, rows=self.plan.history_rows, rounds=self.plan.history_rounds)

    def _load(self, target: Target, connections: int, seconds: float) -> Interval:
        web = self.stand.ceiling.web if target is self._ceiling else self.stand.web
        before = web.cpu_s()
        load = self.generator.run(target, connections=connections, seconds=seconds)
        cpu_s = spent_s(before, web.cpu_s())
        if load.failed:
            self.stand.warn(f"{load.failed} of {load.requests} requests failed")
        if target is self._governed:
            self.answered += load.requests - load.failed
        return Interval(load.requests, load.seconds, cpu_s, load.p50_ms)

    def _read(self, target: Target, web: WebProcesses) -> Interval:
        within_s = self.plan.stream_chunks / CHUNKS_PER_S + _STREAM_GRACE_S
        return measured_streams(target, web, streams=STREAMS, within_s=within_s)


def whole_body() -> str:
    """What every request that is no stream asks."""
    return _chat("bench/whole", "Say the same again.")


def stream_body(chunks: int) -> str:
    """Asks the simulated upstream for a stream of that many words, each a chunk."""
    return _chat("bench/paced", f"Please say {chunks} words.", stream=True)


def _chat(model: str, text: str, *, stream: bool = False) -> str:
    body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 400}
    # The relay passes the body on as it is, so it asks for what the gateway always asks for.
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    return json.dumps(body | options)


def _resting(web: WebProcesses) -> dict[int, int]:
    """Resident bytes by worker, once all are there and grow no more."""
    last: dict[int, int] = {}

    def at_rest() -> bool:
        nonlocal last
        before, last = last, web.worker_rss_bytes()
        time.sleep(0.5)
        return len(last) == WEB_WORKERS and last == before

    processes.eventually(at_rest, within_s=15, what="the workers' rest", log=None)
    return last
