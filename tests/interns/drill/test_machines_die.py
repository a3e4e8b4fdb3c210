"""Machines that run interns die, are cut off and come back. No intern runs twice, none is lost, and
every disk is at least what was archived last."""

import time
from pathlib import Path

import pytest

from tests.interns.drill.cables import may_lay
from tests.interns.drill.fleet import running_fleet
from tests.support.bed import Bed

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3000)]
CUT_S = 60.0


@pytest.mark.parametrize(
    ("count", "has_cables"),
    [pytest.param(9, False, id="9-stand-still"), pytest.param(30, True, id="30-cable-pulled")],
)
def test_one_machine_dies_and_another_is_cut_off_and_both_come_back(
    stores: Bed, tmp_path: Path, count: int, has_cables: bool
) -> None:
    if has_cables and not may_lay():
        pytest.skip("networks are root's to make")
    with running_fleet(stores, tmp_path, "a", "b", "c", has_cables=has_cables) as fleet:
        made = fleet.make(count)
        assert {name for each in made for name in fleet.places(each)} == {"a", "b", "c"}

        fleet.machines["a"].kill()
        fleet.wait_until(lambda: "a" not in fleet.alive(), "a counts as gone")
        fleet.wait_until(lambda: fleet.all_run_once(made), "all run on b and c")
        # Its agents live on for a moment, and must not once others begin.
        assert ["b"] in map(fleet.places, made)
        cut_at = time.monotonic()
        fleet.machines["b"].cut_off()
        fleet.wait_until(lambda: "b" not in fleet.alive(), "b counts as gone")
        fleet.wait_until(lambda: fleet.all_run_once(made), "all run on c")
        assert {name for each in made for name in fleet.places(each)} == {"c"}
        fleet.wait_until(lambda: time.monotonic() - cut_at >= CUT_S, "a minute is over")

        fleet.machines["b"].cut_off(is_on=False)
        fleet.machines["a"].start()
        fleet.wait_until(lambda: fleet.alive() == {"a", "b", "c"}, "all are back")
        # They own nothing of what they had.
        assert fleet.all_run_once(made)
        for each in made:
            assert fleet.read(each, "acknowledged.txt") == each
        assert fleet.twice == []
        fleet.server.check_books()
