"""A stop while the database is frozen: what cannot be booked is in the log, charge by charge."""

import re
from pathlib import Path

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.faults.conftest import loaded
from tests.faults.test_hang_ups import begin
from tests.support.bed import Bed
from tests.support.faulty_postgres import FaultyPostgres
from tests.support.gateways import StartGateway, seed_account

pytestmark = pytest.mark.thorough


def test_charges_that_a_stop_cannot_book_are_told(
    stores: Bed, start_gateway: StartGateway, simulator: SimulatedUpstream, tmp_path: Path
) -> None:
    simulator.clear()
    tmp_path.chmod(0o755)
    postgres = FaultyPostgres(tmp_path / "cluster", tcp=True)
    postgres.start()
    try:
        url = postgres.fill("frozen_stop", stores)
        catalogue = bench.as_yaml(bench.personas(simulator), bench.plain_models())
        server = loaded(start_gateway, tmp_path, catalogue, database_url=url)
        account = seed_account(server, credits_usd="1000")
        desk = Desk(server, simulator, account, "plain/first")
        events = [{"text": "A beginning."}, {"gate": "never"}]
        desk.upstream.script("first", {"events": events})
        stream = begin(desk, model="plain/first")
        head = stream.head()[1]
        stream.until(b"A beginning.")
        postgres.freeze()

        stream.close()  # From here on a charge waits to be booked.
        server.stop()

        generation = head["x-generation-id"]
        assert re.search(rf"Not booked: generation {generation} .* nano-USD", server.log())
    finally:
        postgres.mend()
        postgres.stop()
