"""L3: hundreds of streams at 20 tokens a second each, none of them late, none incomplete."""

from pathlib import Path

import pytest

from tests.support.bed import Bed
from tests.support.crowds import counting_gateway
from tests.support.gateways import StartGateway

pytestmark = pytest.mark.nightly

# Proof's first proposal, for a machine that does nothing else; commits are tried on any machine.
FIRST_TOKEN_P99_MS = 100.0
BUSY_MACHINE_P99_MS = 3000.0


@pytest.mark.parametrize(
    ("streams", "tokens", "p99_ms"),
    [
        pytest.param(100, 20, BUSY_MACHINE_P99_MS, id="100"),
        pytest.param(500, 600, FIRST_TOKEN_P99_MS, id="500", marks=pytest.mark.nightly),
    ],
)
def test_every_token_comes_and_the_first_one_soon(
    stores: Bed, tmp_path: Path, streams: int, tokens: int, p99_ms: float
) -> None:
    with (
        StartGateway(stores, tmp_path) as starter,
        counting_gateway(starter, tmp_path) as between,
    ):
        with between.crowd(streams=2, tokens=2) as warm_up:
            warm_up.wait_open()
            warm_up.end()
        with between.crowd(streams=streams, tokens=tokens, tokens_per_s=20, open_s=5) as crowd:
            crowd.wait_open()
            told = crowd.end()

        assert (told["whole"], told["broken"]) == (streams, 0), told["shown"]
        assert told["first_token_ms"]["p99"] <= p99_ms
        between.check_books()
