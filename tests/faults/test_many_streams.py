"""Hundreds and a thousand streams at once in two workers: every token of each, in its place."""

from collections.abc import Iterator

import pytest

from tests.support.bed import Bed
from tests.support.crowds import Between, counting_gateway, workers_of
from tests.support.gateways import StartGateway

pytestmark = pytest.mark.thorough

POOL = 4


@pytest.fixture(scope="module")
def between(stores: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Between]:
    folder = tmp_path_factory.mktemp("many")
    with (
        StartGateway(stores, folder) as starter,
        counting_gateway(starter, folder, DATABASE_POOL_SIZE=str(POOL)) as between,
    ):
        yield between


@pytest.mark.parametrize(
    ("streams", "tokens"),
    [
        pytest.param(300, 4, id="300"),
        pytest.param(1000, 60, id="1000", marks=pytest.mark.nightly),
    ],
)
def test_no_stream_is_lost_and_no_token_out_of_place(
    between: Between, streams: int, tokens: int
) -> None:
    with between.crowd(streams=streams, tokens=tokens, tokens_per_s=1, open_s=5) as crowd:
        crowd.wait_open()
        # All at once, and none of them keeps a connection to the database.
        assert between.health("/readyz") == 200
        told = crowd.end()

    assert (told["whole"], told["told"], told["broken"]) == (streams, 0, 0), told["shown"]
    assert len(workers_of(between.server.pid)) == 2
    between.check_books()
