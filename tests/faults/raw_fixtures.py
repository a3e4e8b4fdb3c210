"""One gateway in front of a scripted raw upstream, shared by every test module that asks for it."""

from collections.abc import Callable, Iterator

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.faults.raw_desk import LIMITS, RawDesk, raw_desk
from tests.support.bed import Bed


@pytest.fixture(scope="session")
def sit_down(
    stores: Bed, simulator: SimulatedUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], RawDesk]]:
    """`sit_down()`: a fresh account at the shared gateway."""
    with raw_desk(stores, simulator, tmp_path_factory.mktemp("raw"), **LIMITS) as sit_down:
        yield sit_down


@pytest.fixture
def raw(sit_down: Callable[[], RawDesk]) -> Iterator[RawDesk]:
    """A fresh account; when the test is over, nothing is held and the books add up."""
    desk = sit_down()
    yield desk
    desk.wait_settled()
