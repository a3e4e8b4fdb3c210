"""The retry budget, on a clock of the test's own."""

from routing.serving.retries import RetryBudget


def drawn(budget: RetryBudget, now: float, tries: int) -> int:
    return sum(budget.draw(now) for _ in range(tries))


def test_retries_are_a_share_of_first_attempts_and_a_floor() -> None:
    budget = RetryBudget(share=0.2, floor=3)
    for _ in range(50):
        budget.first(0)

    assert drawn(budget, 0, 100) == 13


def test_without_first_attempts_the_floor_is_there() -> None:
    assert drawn(RetryBudget(share=0.2, floor=3), 0, 100) == 3


def test_what_is_older_than_the_window_counts_no_more() -> None:
    budget = RetryBudget(share=1, floor=0)
    for now in range(5):
        budget.first(now)

    assert drawn(budget, 4, 10) == 5
    assert drawn(budget, 10, 10) == 0
    # The retries of second 4 and all first attempts are forgotten after their ten seconds.
    assert drawn(budget, 14.1, 10) == 0
    budget.first(14.1)
    assert drawn(budget, 14.1, 10) == 1


def test_a_budget_of_nothing_gives_nothing() -> None:
    budget = RetryBudget(share=0, floor=0)
    budget.first(0)

    assert not budget.draw(0)
