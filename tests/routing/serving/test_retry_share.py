"""The retry budget never gives more than it says, whatever the mix of calls."""

from hypothesis import given
from hypothesis import strategies as st

from routing.serving.retries import WINDOW_S, RetryBudget


def test_a_share_of_few_calls_is_no_whole_retry() -> None:
    budget = RetryBudget(share=0.2, floor=0)
    for _ in range(4):
        budget.first(0)
    assert not budget.draw(0)

    budget.first(0)
    assert budget.draw(0)
    assert not budget.draw(0)


@given(
    steps=st.lists(st.tuples(st.booleans(), st.floats(0, 2)), max_size=80),
    share=st.sampled_from([0.0, 0.2, 1.0]),
    floor=st.integers(0, 4),
)
def test_no_window_holds_more_than_share_and_floor(
    steps: list[tuple[bool, float]], share: float, floor: int
) -> None:
    budget, now = RetryBudget(share=share, floor=floor), 0.0
    firsts: list[float] = []
    drawn: list[float] = []
    for is_first, pause_s in steps:
        now += pause_s
        if is_first:
            budget.first(now)
            firsts.append(now)
        elif budget.draw(now):
            drawn.append(now)
            recent = [moment for moment in firsts if now - moment <= WINDOW_S]
            retries = [moment for moment in drawn if now - moment <= WINDOW_S]
            assert len(retries) <= share * len(recent) + floor
