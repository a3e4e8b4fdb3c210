"""What a master and its workers know of each other while workers are replaced."""

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.server import worker
from gateway.server.worker import Roster

pytestmark = pytest.mark.thorough


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two workers, of the ages 1 and 2."""
    monkeypatch.setattr(worker, "roster", Roster())
    return SimpleNamespace(worker_age=2, num_workers=2, WORKERS={101: "first", 102: "second"})


def test_a_worker_leaves_once_all_the_new_ones_are_at_work() -> None:
    roster = Roster()
    for age in (1, 2):
        roster.accepts(age)
    assert not roster.has_replaced(2, workers=2)

    roster.retire(2)
    assert not roster.has_replaced(2, workers=2)
    roster.accepts(3)
    assert not roster.has_replaced(2, workers=2)
    # Number four died while it loaded.
    roster.accepts(5)

    assert roster.has_replaced(1, workers=2)
    assert roster.has_replaced(2, workers=2)
    assert not roster.has_replaced(5, workers=2)


def test_workers_that_are_leaving_do_not_stand_in_for_new_ones(master: Any) -> None:
    worker.retire_workers(master)
    # Both old ones and two new: the master has what it wants and hurries nobody.
    assert master.num_workers == 4

    worker.forget_worker(master, SimpleNamespace(age=3))
    assert master.num_workers == 4
    worker.forget_worker(master, SimpleNamespace(age=1))
    worker.forget_worker(master, SimpleNamespace(age=2))
    assert master.num_workers == 2


def test_a_second_reload_counts_everyone_who_is_still_there(master: Any) -> None:
    worker.retire_workers(master)
    # gunicorn reads its settings again, and by now the first worker has left.
    worker.forget_worker(master, SimpleNamespace(age=1))
    master.num_workers, master.worker_age = 2, 4
    master.WORKERS = {102: "second", 103: "third", 104: "fourth"}

    worker.retire_workers(master)

    assert master.num_workers == 5
    for age in (2, 3, 4):
        worker.forget_worker(master, SimpleNamespace(age=age))
    assert master.num_workers == 2
