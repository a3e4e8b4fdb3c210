"""Machines that run interns die, freeze and come back. No intern runs twice, none is lost, and
every disk is at least what was archived last."""

from pathlib import Path

import pytest

from tests.interns.drill.fleet import running_fleet
from tests.support.bed import Bed

pytestmark = [pytest.mark.timeout(900)]


@pytest.mark.nightly
def test_one_machine_dies_and_another_is_cut_off_and_both_come_back(
    stores: Bed, tmp_path: Path
) -> None:
    with running_fleet(stores, tmp_path, "a", "b", "c") as fleet:
        made = fleet.make(9)
        assert {name for each in made for name in fleet.places(each)} == {"a", "b", "c"}

        fleet.machines["a"].kill()
        fleet.wait_until(lambda: "a" not in fleet.alive(), "a counts as gone")
        fleet.wait_until(lambda: fleet.all_run_once(made), "all run on b and c")
        # Its agents live on for a moment, and must not once others begin.
        assert ["b"] in map(fleet.places, made)
        fleet.machines["b"].freeze()
        fleet.wait_until(lambda: "b" not in fleet.alive(), "b counts as gone")
        fleet.wait_until(lambda: fleet.all_run_once(made), "all run on c")
        assert {name for each in made for name in fleet.places(each)} == {"c"}

        fleet.machines["b"].freeze(is_on=False)
        fleet.machines["a"].start()
        fleet.wait_until(lambda: fleet.alive() == {"a", "b", "c"}, "all are back")
        # They own nothing of what they had.
        assert fleet.all_run_once(made)
        for each in made:
            assert fleet.read(each, "acknowledged.txt") == each
        assert fleet.twice == []
