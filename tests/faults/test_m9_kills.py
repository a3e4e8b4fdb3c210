"""M9: whatever is killed, and at whatever moment, the books agree afterwards. No worker runs here,
so that expired holds are swept by web processes alone.

The simulated upstream tells when to kill: it has seen a request, sent its first chunk, or its last
byte. Meanwhile other calls are at every other point of their way.
"""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk, changed_workspace
from tests.conformance.guarded import set_guardrail
from tests.faults import bench, victims
from tests.faults.faulty_postgres import FaultyPostgres
from tests.faults.victims import Victim
from tests.support.bed import Bed
from tests.support.callers import Heard, ask, seeded_random
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.ledger import Call, Ledger
from tests.support.postgres import PostgresCluster
from tests.support.promptness import PATIENCE_S
from tests.support.server import GatewayServer
from tests.support.valkey import ValkeyServer

pytestmark = [pytest.mark.both, pytest.mark.thorough]
CALLERS = 10
LEASE_S, SWEEP_S, TOTAL_S = 3.0, 0.3, 2.5
# On top of lease and sweep: a machine that does other things too.
SLACK_S = 4.0 + PATIENCE_S
RECOVERY_S = 6.0 + PATIENCE_S
# Workers that were replaced a moment ago still start.
REACHED_S = 20.0 + PATIENCE_S
SETTINGS: dict[str, Any] = {
    "WEB_CONCURRENCY": "2",
    "HOLD_LEASE_SECONDS": str(LEASE_S),
    "HOLD_SWEEP_SECONDS": str(SWEEP_S),
    "ROUTER_TOTAL_TIMEOUT": str(TOTAL_S),
}
MODELS = {True: "kill/stream", False: "kill/whole"}
PERSONAS = {True: "kill-stream", False: "kill-whole"}
PACE = {"first_token_s": 0.003, "tokens_per_s": 2000, "error_rate": 0}
# What a request may have that holds, reserves and settles in ways of its own.
MANY = 1_000_000
RATES = [
    {"requests_per_minute": MANY, "tokens_per_minute": 100 * MANY, "concurrent": MANY},
    {"scope": {"model": MODELS[False]}, "requests_per_minute": MANY, "burst": MANY // 10},
]
FEATURES: dict[str, Any] = {
    "hedge": True,
    "rescue": True,
    "rate_limits": RATES,
    "end_user_budget": {"reset_interval": "daily", "limit_usd": 10, "overrides": []},
    "tag_budgets": [{"tag": "run=*", "reset_interval": "daily", "limit_usd": 1000}],
}
FILTERS = {"output_filters": [{"pattern": "nobody says this", "action": "block"}]}
MOMENTS = ("request seen", "first chunk sent", "last byte sent")
WHAT = ("server", "worker", "postgres", "valkey")
WITHOUT_STORES = ("server", "worker")


@dataclass
class Rig:
    """A gateway on stores of its own, and what its callers and its upstream have seen so far."""

    server: GatewayServer
    upstream: SimulatedUpstream
    account: SeededAccount
    cluster: PostgresCluster | None
    valkey: ValkeyServer | None
    heard: list[Heard] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    gated_server_kills: int = 0
    body: dict[str, Any] = field(default_factory=dict)

    def switch_features_on(self) -> None:
        """For all requests of the account, which have a tag too."""
        manage = Desk(self.server, self.upstream, self.account)
        changed_workspace(manage, **FEATURES)
        set_guardrail(manage, **FILTERS)
        self.body["metadata"] = {"run": "kills"}

    def victim(self, what: str, chance: random.Random) -> Victim:
        if what == "server":
            return victims.whole_server(self.server)
        if what == "worker":
            return victims.one_worker(self.server, chance)
        if what == "postgres":
            assert self.cluster is not None
            return victims.postgres(self.cluster, self.server)
        assert self.valkey is not None
        return victims.valkey(self.valkey)


@pytest.fixture
def rig(stores: Bed, simulator: SimulatedUpstream, tmp_path: Path) -> Iterator[Rig]:
    with ExitStack() as left, StartGateway(stores, tmp_path) as starter:
        left.callback(simulator.clear)
        cluster = valkey = None
        settings = dict(SETTINGS)
        if stores.is_postgres:
            # A Unix socket's path has about 100 characters at most.
            folder = Path(mkdtemp(prefix="kills-", dir=stores.folder))
            cluster, valkey = FaultyPostgres(folder, durable=True), ValkeyServer(folder / "valkey")
            for store in (valkey, cluster):
                left.callback(store.stop)
                store.start()
            url = cluster.fill("gateway", stores)
            settings |= {"database_url": url, "redis_url": valkey.url}
        server = starter.build(**settings)
        providers = [bench.provider(p, f"{simulator.url}/{p}/v1") for p in PERSONAS.values()]
        models = [bench.model(MODELS[s], bench.endpoint(PERSONAS[s])) for s in MODELS]
        file = tmp_path / "catalogue.yaml"
        file.write_text(bench.as_yaml(providers, models), encoding="utf-8")
        server.manage("load_catalogue", str(file))
        for persona in PERSONAS.values():
            simulator.control("PUT", f"/_persona/{persona}", PACE)
        server.start()
        yield Rig(server, simulator, seed_account(server, credits_usd="1000"), cluster, valkey)


# --- One round ------------------------------------------------------------------------------------


@contextmanager
def load(rig: Rig, name: str) -> Iterator[threading.Event]:
    """Callers who ask again and again until the event is set; what they heard joins the rig's."""
    stop = threading.Event()

    def call_on(caller: int) -> list[Heard]:
        heard: list[Heard] = []
        while not stop.is_set():
            heard.append(_ask(rig, f"{name}-{caller}-{len(heard)}", stream=caller % 2 == 0))
        return heard

    with ThreadPoolExecutor(CALLERS) as pool:
        futures = [pool.submit(call_on, caller) for caller in range(CALLERS)]
        try:
            yield stop
        finally:
            stop.set()
        late = wait(futures, RECOVERY_S).not_done
    assert not late, f"{len(late)} callers still waited {RECOVERY_S} s after the return"
    for future in futures:
        rig.heard += future.result()


def _ask(rig: Rig, tag: str, *, stream: bool) -> Heard:
    return ask(
        int(rig.server.env["PORT"]),
        rig.account.api_key,
        tag=tag,
        model=MODELS[stream],
        messages=[{"role": "user", "content": tag}],
        max_tokens=100,
        stream=stream,
        **rig.body,
    )


def kill_once(rig: Rig, number: int, what: str, chance: random.Random) -> None:
    upstream, moment, stream = rig.upstream, chance.choice(MOMENTS), chance.random() < 0.5
    nth = chance.randint(5, 25)
    gate = f"kill-{number}"
    upstream.clear()
    if moment != MOMENTS[2]:
        upstream.script(
            PERSONAS[stream], *[{}] * nth, _gated_answer(moment, gate, stream), {}, repeat=True
        )
    victim = rig.victim(what, chance)
    with load(rig, f"{number}-{what}") as stop:
        if moment == MOMENTS[2]:
            upstream.wait(2 * nth, "ended", timeout_s=REACHED_S)
        else:
            path = f"/_gate/{gate}?wait=reached&timeout={REACHED_S}"
            assert upstream.control("GET", path)["reached"], f"round {number}: nobody came"
        victim.kill()
        if what != "postgres":
            stop.set()
        # Whoever was not killed gets its answer.
        upstream.open_gate(gate)
        victim.bring_back()
    rig.gated_server_kills += what == "server" and moment != MOMENTS[2]
    rig.seen |= {e["body"]["messages"][0]["content"] for e in upstream.requests()}


def _gated_answer(moment: str, gate: str, stream: bool) -> dict[str, Any]:
    """The answer that stands still at this moment, until the gate opens."""
    if moment == MOMENTS[0]:
        return {"gate": gate}
    if stream:
        usage = {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
        return {"events": [{"text": "Hello"}, {"gate": gate}, {"json": end}, "[DONE]"]}
    choice = '{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Hi"}}'
    halves = ['{"id":"half","choices":[', {"gate": gate}, choice + "]}"]
    return {"events": halves, "content_type": "application/json"}


# --- What must hold afterwards --------------------------------------------------------------------


def check_books(rig: Rig) -> None:
    ledger = Ledger(rig.server.env["DATABASE_URL"])
    mine = rig.account.account_id
    rig.server.wait_until(lambda: ledger.open_holds() == 0, within_s=LEASE_S + SWEEP_S + SLACK_S)
    rig.server.check_books()
    calls = ledger.calls(mine)
    assert ledger.entries_without_a_generation() == 0
    assert ledger.totals(mine)[1:] == (sum(call.charge_nano for call in calls), 0)
    _check_entries(calls)
    _check_answers(rig.heard, {call.id: call for call in calls})
    _check_lost(rig, calls)


def _check_entries(calls: list[Call]) -> None:
    """What is settled is charged once, and what was lost is not charged."""
    for call in calls:
        assert call.entries == (0 if call.lost else 1), call
        assert call.entries_nano == call.charge_nano, call
    settled = [call.user for call in calls if not call.lost]
    assert len(settled) == len(set(settled)), "a request was charged twice"


def _check_answers(heard: list[Heard], calls: dict[str, Call]) -> None:
    """An answer that somebody has in full is in the books, for what it says it cost."""
    for each in heard:
        assert each.status in {0, 200, 503}, each
        if each.cost_nano is not None:
            call = calls[each.body["id"]]
            assert (call.user, call.lost, call.charge_nano) == (each.tag, False, each.cost_nano)
            assert each.cost_nano > 0
        elif each.generation_id is not None:
            assert each.generation_id in calls, each
    assert sum(each.cost_nano is not None for each in heard) > len(heard) // 4


def _check_lost(rig: Rig, calls: list[Call]) -> None:
    """What an upstream was asked is settled or lost; lost is nothing that was never asked for."""
    settled = {call.user for call in calls if not call.lost}
    lost = sum(call.lost for call in calls)
    sent = {each.tag for each in rig.heard}
    assert settled <= sent
    assert len(rig.seen - settled) <= lost <= len(sent - settled)
    # Whatever stood at the gate of a server that was killed can only be lost.
    assert lost >= rig.gated_server_kills


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "kills_each", [1, pytest.param(25, marks=[pytest.mark.nightly, pytest.mark.timeout(900)])]
)
def test_the_books_agree_after_a_kill_of_each_kind(rig: Rig, kills_each: int) -> None:
    """The second half of them with limits, budgets and races."""
    chance = seeded_random()
    rounds = [*(WHAT if rig.cluster else WITHOUT_STORES)] * kills_each
    chance.shuffle(rounds)
    for number, what in enumerate(rounds):
        if number == len(rounds) // 2:
            rig.switch_features_on()
        kill_once(rig, number, what, chance)
    check_books(rig)
