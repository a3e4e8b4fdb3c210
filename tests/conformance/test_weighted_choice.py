"""Load balancing over HTTP, counted: 9 : 1 for prices 1 : 3, ties, and what is free."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from math import sqrt
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.server import as_json

CALLS, CALLERS = 400, 8
# The gateway's chance has no seed: one honest run in a million misses by more.
DEVIATIONS = 5
# By model: the price of each persona's tokens in millionths of a USD, and the shares that follow.
MODELS: dict[str, tuple[dict[str, int], dict[str, float]]] = {
    "weigh/one-to-three": ({"first": 1, "second": 3}, {"First": 0.9, "Second": 0.1}),
    "weigh/ties": (
        {"first": 2, "second": 2, "third": 2},
        {"First": 1 / 3, "Second": 1 / 3, "Third": 1 / 3},
    ),
    "weigh/free": ({"first": 1, "second": 0}, {"Second": 1.0}),
    "weigh/two-free": ({"first": 0, "second": 1, "third": 0}, {"First": 0.5, "Third": 0.5}),
}


def priced(model_id: str, prices: dict[str, int]) -> dict[str, Any]:
    ends = [
        bench.endpoint(persona, pricing={"prompt": f"{usd / 1e6:.6f}", "completion": "0"})
        for persona, usd in prices.items()
    ]
    return bench.model(model_id, *ends)


@pytest.fixture(scope="module")
def desk(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("weights")
    models = [priced(model_id, prices) for model_id, (prices, _) in MODELS.items()]
    file = folder / "catalogue.yaml"
    file.write_text(bench.as_yaml(bench.personas(simulator), models), encoding="utf-8")
    with StartGateway(stores, folder) as starter:
        server = starter.build()
        server.manage("load_catalogue", str(file))
        server.start()
        yield Desk(server, simulator, seed_account(server, credits_usd="1000"))


@pytest.mark.parametrize("model_id", MODELS)
def test_the_first_choice_follows_the_prices(desk: Desk, model_id: str) -> None:
    desk.upstream.clear()
    shares = MODELS[model_id][1]

    with ThreadPoolExecutor(CALLERS) as pool:
        answers = list(pool.map(lambda _: desk.post(model=model_id), range(CALLS)))

    assert {answer.status_code for answer in answers} == {200}
    served = Counter(as_json(answer)["provider"] for answer in answers)
    assert served.keys() == shares.keys()
    for name, share in shares.items():
        tolerance = DEVIATIONS * sqrt(share * (1 - share) / CALLS)
        assert served[name] / CALLS == pytest.approx(share, abs=tolerance), served
    # Each was the first choice: nobody was asked beside.
    assert len(desk.upstream.requests()) == CALLS
