"""The last so many slices: sums that grow and shrink as slices come and go."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from routing.selection.figures import Tally
from routing.selection.window import PIECE_ENDPOINTS, Window, opened

SLICES = 3


def answered(count: int = 1) -> Tally:
    tally = Tally()
    for _ in range(count):
        tally.answer(0.5, streamed=True)
    return tally


def advanced(window: Window, number: int) -> set[int]:
    return {endpoint for step in window.advance(number) for endpoint in step}


def sums(window: Window) -> dict[int, int]:
    return {endpoint: tally.answered for endpoint, tally in window.totals.items()}


def test_a_slice_counts_until_it_leaves_the_window() -> None:
    window = Window(slice_s=10, slices=SLICES)
    window.add(window.number_at(100), [(1, answered(2))])
    assert advanced(window, 12) == set()
    window.add(12, [(1, answered()), (2, answered())])
    assert sums(window) == {1: 3, 2: 1}

    assert advanced(window, 13) == {1}

    assert sums(window) == {1: 1, 2: 1}
    assert advanced(window, 100) == {1, 2}
    assert window.totals == {}


def test_late_news_counts_where_it_belongs_and_old_news_does_not() -> None:
    window = Window(slice_s=10, slices=SLICES)
    advanced(window, 10)
    window.add(9, [(1, answered())])
    window.add(7, [(1, answered(50))])
    advanced(window, 11)
    window.add(9, [(1, answered())])
    assert sums(window) == {1: 2}

    advanced(window, 12)

    assert sums(window) == {}


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(1, 5), st.integers(1, 3)),
        max_size=40,
    )
)
def test_sums_are_those_of_the_slices_in_the_window(steps: list[tuple[int, int, int, int]]) -> None:
    """Each step: time passes, then something is counted, some slices late."""
    window, now = Window(slice_s=1, slices=SLICES), 10
    told: list[tuple[int, int, int]] = []
    for passes, late, endpoint, calls in steps:
        now += passes
        advanced(window, now)
        window.add(now - late, [(endpoint, answered(calls))])
        told.append((now - late, endpoint, calls))

        wanted: Counter[int] = Counter()
        for number, of, count in told:
            if now - SLICES < number:
                wanted[of] += count
        assert sums(window) == wanted
        between: Counter[int] = Counter()
        for of, tally in window.between(now - SLICES + 1, now):
            between[of] += tally.answered
        assert between == wanted


def test_a_big_window_is_worked_on_in_pieces() -> None:
    window = Window(slice_s=10, slices=SLICES)
    everybody = range(5 * PIECE_ENDPOINTS)
    window.add(1, [(endpoint, answered()) for endpoint in everybody])

    sealing = list(window.advance(2))
    leaving = list(window.advance(20))

    assert len(sealing) == len(leaving) == 5
    assert max(map(len, leaving)) == PIECE_ENDPOINTS


def test_what_was_dumped_can_be_loaded() -> None:
    window = Window(slice_s=10, slices=SLICES)
    window.add(1, [(1, answered(2))])
    advanced(window, 2)
    window.add(2, [(1, answered(3)), (2, answered())])

    other = Window(slice_s=10, slices=SLICES)
    for number, piece in window.dumped():
        other.add(number + 100, opened(piece))

    assert sums(other) == sums(window) == {1: 5, 2: 1}
    assert advanced(other, 104) == {1}
    assert sums(other) == {1: 3, 2: 1}
