"""S9: models come, go and are renamed, provider keys and prices change, every second under load.

Nothing fails for it, and each request sees one whole catalogue. Both web processes serve what is
new within two seconds, and no stream is cut or silent for it.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from django.db import transaction

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.faults.churn import LIVE_S, PAIR, PERSONAS, WHOLE, Timeline, generation, number_of
from tests.faults.conftest import start_loaded
from tests.faults.raw_desk import status_kib, worker_pids
from tests.faults.silence import Listener, listening, ticking_upstream
from tests.faults.steady import Asked, Steady
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.promptness import in_time
from tests.support.server import GatewayServer

pytestmark = pytest.mark.timed

OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]
# About a hundred requests a second together.
CALLERS, PAUSE_S = 8, 0.06
STREAMS = 6
# A stream ticks 50 times a second, which is the clock here.
SECOND_TICKS = 50
RELOADS_A_ROUND = 3
SILENCE_S = 0.05
# How many models that come and go there are at a time.
LIVES = 3
LIMITS = {
    "WEB_CONCURRENCY": "2",
    "ROUTER_CONNECT_TIMEOUT": "5",
    "ROUTER_FIRST_BYTE_TIMEOUT": "20",
    "ROUTER_IDLE_TIMEOUT": "20",
}
LARGE_MODELS, LARGE_PROVIDERS, LARGE_CHANGES = 2000, 5, 12
# What allocators keep and do not give back; one catalogue too many would be twice that.
SPARE_KIB = 30_000


@dataclass
class Scene:
    """Streams that flow, and a catalogue to be changed."""

    desk: Desk
    listeners: list[Listener]
    folder: Path
    timeline: Timeline = field(default_factory=Timeline)
    number: int = 0
    # When each generation was committed, at the latest.
    done_at: dict[int, float] = field(default_factory=dict)

    def second(self) -> None:
        for _ in range(SECOND_TICKS):
            self.listeners[0].until_another()

    def reload(self) -> None:
        """Everything changes once: by the ORM in one transaction, by the command in another."""
        self.number += 1
        number, gone = self.number, self.number - LIVES
        added = [f"come/{number}", f"moved/{number}"]
        removed = [f"come/{gone}"] * (gone > 0) + [f"moved/{number - 1}"] * (number > 1)
        with self.timeline.change(added=added, removed=removed):
            change_models(number, gone)
        file = self.folder / "generation.yaml"
        file.write_text(generation(number, self.desk.upstream.url), encoding="utf-8")
        self.desk.server.manage("load_catalogue", str(file))
        self.done_at[number] = time.monotonic()

    def reloads(self) -> None:
        for _ in range(RELOADS_A_ROUND):
            self.reload()
            self.second()

    def silence_s(self, work: Callable[[], object]) -> float:
        """The longest silence of any stream meanwhile, seconds beyond one tick."""
        return longest_s(self.listeners, work)


def change_models(number: int, gone: int) -> None:
    """A model comes, one goes, one is renamed."""
    from routing.catalogue.models import Endpoint, Model, Provider

    def make(name: str) -> None:
        words = {"input_modalities": ["text"], "output_modalities": ["text"]}
        row = Model.objects.create(slug=name, canonical_slug=name, name=name, created=1, **words)
        steady = Provider.objects.get(slug="steady")
        names = {"tag": "steady", "upstream_model": "steady", "pricing": bench.CHEAP}
        Endpoint.objects.create(model=row, provider=steady, **names)

    with transaction.atomic():
        names = {"slug": f"moved/{number}", "canonical_slug": f"moved/{number}"}
        if not Model.objects.filter(slug=f"moved/{number - 1}").update(**names):
            make(f"moved/{number}")
        make(f"come/{number}")
        Model.objects.filter(slug=f"come/{gone}").delete()


def longest_s(listeners: list[Listener], work: Callable[[], object]) -> float:
    if not listeners:
        work()
        return 0.0
    first, *others = listeners
    theirs: list[float] = []
    own_s = first.silence_s(lambda: theirs.append(longest_s(others, work)), waits=True)
    return max(own_s, *theirs)


class Choosing(Steady):
    """Asks for the pair, for the whole and for models that come and go, in turn."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.desk, callers=CALLERS, pause_s=PAUSE_S)
        self._timeline = scene.timeline
        self.models: dict[str, str] = {}

    def body(self, tag: str) -> dict[str, Any]:
        turn, kind = divmod(int(tag.rpartition("-")[2]), 4)
        names = self._timeline.names()[-2 * LIVES - 2 :]
        chosen = (WHOLE, PAIR, names[turn % len(names)], names[-1 - turn % 2])[kind]
        self.models[tag] = chosen
        body = super().body(tag) | {"model": chosen}
        return body | ({"provider": {"order": list(PERSONAS)}} if chosen == PAIR else {})


@pytest.fixture
def scene(
    stores: Bed, simulator: SimulatedUpstream, tmp_path: Path, orm_of: OrmOf
) -> Iterator[Scene]:
    """`first` answers nothing but 503, so that the pair needs both its endpoints."""
    simulator.clear()
    simulator.script("first", {"status": 503}, repeat=True)
    with ExitStack() as stack:
        ticks = stack.enter_context(ticking_upstream())
        providers = [
            bench.provider("ticks", f"http://127.0.0.1:{ticks.port}/v1"),
            bench.provider("steady", f"{simulator.url}/third/v1"),
        ]
        models = [bench.model("tick/tock", bench.endpoint("ticks"))]
        starter = stack.enter_context(StartGateway(stores, tmp_path))
        server = start_loaded(starter, bench.as_yaml(providers, models), **LIMITS)
        account = seed_account(server, credits_usd="100000")
        listeners = [
            stack.enter_context(listening(server, account, "tick/tock")) for _ in range(STREAMS)
        ]
        scene = Scene(Desk(server, simulator, account), listeners, tmp_path)
        with orm_of(server):
            scene.reload()
            server.wait_until(lambda: server.get(f"/api/v1/model/{PAIR}").status_code == 200)
            for _ in range(int(LIVE_S) + 1):
                scene.second()
            yield scene


def check(scene: Scene, load: Choosing) -> None:
    """Whatever was asked, when it was asked."""
    tried = defaultdict(list)
    for entry in scene.desk.upstream.requests():
        if entry["body"]["model"].startswith("upstream-"):
            tried[entry["body"]["messages"][-1]["content"]].append(entry)
    for one in load.asked:
        chosen = load.models[one.tag]
        if chosen in (PAIR, WHOLE):
            assert one.status == 200, (chosen, one)
            check_whole(scene, one, tried[one.tag], attempts=2 if chosen == PAIR else 1)
        else:
            allowed = scene.timeline.list_allowed(chosen, one.begun_at, one.ended_at)
            assert one.status in allowed, (chosen, allowed, one)
            if one.status == 400:
                assert "is not a valid model ID" in one.body["error"]["message"]


def check_whole(scene: Scene, one: Asked, tried: list[dict[str, Any]], *, attempts: int) -> None:
    """Keys, names and prices of one generation, which is not an old one."""
    assert len(tried) == attempts
    (number,) = {number_of(entry) for entry in tried}
    assert one.cost_nano == one.body["usage"]["prompt_tokens"] * number * 1000
    known = [n for n, done_at in scene.done_at.items() if done_at + LIVE_S <= one.begun_at]
    assert number >= max(known)


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("quiet", "rounds"), [(2, 2), pytest.param(5, 20, marks=pytest.mark.nightly)]
)
def test_a_reload_each_second_is_felt_by_nobody(scene: Scene, quiet: int, rounds: int) -> None:
    with Choosing(scene) as load:
        load.wait_until(200, CALLERS, since=0)
        calm_s = median(scene.silence_s(scene.second) for _ in range(quiet))
        reloading_s = [scene.silence_s(scene.reloads) for _ in range(rounds)]
    assert len(load.asked) > CALLERS * rounds * RELOADS_A_ROUND
    check(scene, load)
    in_time(median(reloading_s), calm_s + SILENCE_S, (calm_s, reloading_s))
    for listener in scene.listeners:
        listener.until_another()


@pytest.mark.nightly
@pytest.mark.timeout(180)
def test_a_large_catalogue_is_live_in_time_and_leaves_nothing_behind(scene: Scene) -> None:
    """10,000 endpoints, changed again and again: served by both processes within two seconds."""
    server = scene.desk.server
    load_large(scene)
    change_provider(server, 0)
    took_s: list[float] = []
    silent_s, sizes_kib = [], []

    def change() -> None:
        took_s.append(change_provider(server, len(took_s) + 1))

    for _ in range(LARGE_CHANGES):
        silent_s.append(scene.silence_s(change))
        sizes_kib.append(max(status_kib(pid, "VmRSS") for pid in worker_pids(server)))

    in_time(median(took_s), LIVE_S, took_s)
    in_time(median(silent_s), SILENCE_S, silent_s)
    assert sizes_kib[-1] <= sizes_kib[LARGE_CHANGES // 3] + SPARE_KIB, sizes_kib


def load_large(scene: Scene) -> None:
    slugs = [f"large-{n}" for n in range(LARGE_PROVIDERS)]
    providers = [bench.provider(slug, "http://127.0.0.1:9/v1") for slug in slugs]
    models = [
        bench.model(f"large/model-{n}", *(bench.endpoint(slug) for slug in slugs))
        for n in range(LARGE_MODELS)
    ]
    file = scene.folder / "large.yaml"
    file.write_text(bench.as_yaml(providers, models), encoding="utf-8")
    scene.desk.server.manage("load_catalogue", str(file))


def change_provider(server: GatewayServer, number: int) -> float:
    """Seconds from the commit until every web process says that it serves the change."""
    from routing.catalogue.models import Provider
    from routing.catalogue.snapshot import list_served_versions
    from routing.catalogue.version import current_version

    Provider.objects.filter(slug="large-0").update(name=f"Renamed {number}")
    committed_at, version = time.monotonic(), current_version()
    server.wait_until(
        lambda: (
            len(list_served_versions()) == 2 and min(list_served_versions().values()) >= version
        ),
        within_s=20,
    )
    return time.monotonic() - committed_at
