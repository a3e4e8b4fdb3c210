"""The retry budget, on a clock of the test's own: never more than it says, whatever the calls."""

from hypothesis import given
from hypothesis import strategies as st

from routing.serving.retries import WINDOW_S, RetryBudget


def budget_of(share: float, floor: int, *, firsts: int = 0) -> RetryBudget:
    budget = RetryBudget(share=share, floor=floor)
    for _ in range(firsts):
        budget.first(0)
    return budget


def drawn(budget: RetryBudget, now: float, tries: int = 100) -> int:
    return sum(budget.draw(now) for _ in range(tries))


def test_retries_are_a_share_of_first_attempts_and_a_floor() -> None:
    assert drawn(budget_of(0.2, 3, firsts=50), 0) == 13
    assert drawn(budget_of(0.2, 3), 0) == 3
    assert drawn(budget_of(0, 0, firsts=1), 0) == 0
    # A share of few calls is no whole retry.
    assert [drawn(budget_of(0.2, 0, firsts=n), 0) for n in (4, 5)] == [0, 1]


def test_what_is_older_than_the_window_counts_no_more() -> None:
    budget = budget_of(1, 0)
    for now in range(5):
        budget.first(now)

    # The retries of second 4 and all first attempts are forgotten after their ten seconds.
    assert [drawn(budget, now) for now in (4, 10, 14.1)] == [5, 0, 0]
    budget.first(14.1)
    assert drawn(budget, 14.1) == 1


@given(
    steps=st.lists(st.tuples(st.booleans(), st.floats(0, 2)), max_size=80),
    share=st.sampled_from([0.0, 0.2, 1.0]),
    floor=st.integers(0, 4),
)
def test_no_window_holds_more_than_share_and_floor(steps, share: float, floor: int) -> None:
    budget, now = RetryBudget(share=share, floor=floor), 0.0
    firsts, drawn = list[float](), list[float]()
    for is_first, pause_s in steps:
        now += pause_s
        if is_first:
            budget.first(now)
            firsts.append(now)
        elif budget.draw(now):
            drawn.append(now)
            first, again = (
                sum(now - moment <= WINDOW_S for moment in moments) for moments in (firsts, drawn)
            )
            assert again <= share * first + floor
