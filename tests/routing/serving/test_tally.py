"""What a loop's turns and fees come to, whoever paid for which of them."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from routing.metering.byok import fee_nano
from routing.metering.cost import ExactCost
from routing.metering.usage import Usage
from routing.serving.tally import Tally

nano = st.fractions(min_value=0, max_value=10**12, max_denominator=1_000)
# What a turn costs, whether on a credential of the caller's own, and whether it is free.
turns = st.lists(st.tuples(nano, st.booleans(), st.booleans()), max_size=8)
fees = st.lists(st.tuples(nano, nano), max_size=4)


def tally_of(made, paid=()) -> Tally:
    tally = Tally()
    for total, is_own, is_free in made:
        cost = ExactCost(total, total, Fraction(0))
        tally.add_turn(Usage(1, 1), cost, is_own=is_own, is_free=is_free)
    for shared_fee, own_fee in paid:
        tally.add_fee(shared_fee, own_nano=own_fee)
    return tally


def owed(made, paid=()) -> tuple[Fraction, Fraction]:
    """On the gateway's own credentials, and on the caller's."""
    shared, own = (
        sum((n for n, is_own, is_free in made if is_own is own and not is_free), Fraction(0))
        for own in (False, True)
    )
    return shared + sum(fee for fee, _ in paid), own + sum(fee for _, fee in paid)


@given(turns, fees)
def test_a_charge_is_the_sum_of_what_was_made(made, paid) -> None:
    tally = tally_of(made, paid)
    whole, failed, most = tally.whole, tally.fees, tally.owed

    (shared, own), (shared_fees, own_fees) = owed(made, paid), owed([], paid)
    # What is no fee for the use of a credential, and that fee: nothing is lost between them.
    assert whole.charged_nano == round(shared) + fee_nano(round(own))
    assert whole.byok_nano == round(own)
    assert whole.shared_nano == (round(shared) if whole.byok_nano else 0)
    assert failed.charged_nano == round(shared_fees) + fee_nano(round(own_fees))
    assert most.charged_nano >= whole.charged_nano >= failed.charged_nano
    assert most.byok_nano >= whole.byok_nano
    assert tally.usage.prompt_tokens == len(made)
    listed = sum((total for total, _, _ in made), shared_fees + own_fees)
    assert tally.cost.total_nano == round(listed)


@given(turns, turns, st.booleans())
def test_models_that_tools_ask_are_fees_of_the_answer(mine, others, answered) -> None:
    outer, inner = tally_of(mine), tally_of(others)
    before = outer.whole

    outer.add_fees_of(inner, turns=answered)

    assert outer.usage.prompt_tokens == len(mine)
    shared, own = map(round, owed([*mine, *others]))
    after = (shared + fee_nano(own), own, shared if own else 0)
    assert outer.whole == (after if answered else before)


@given(turns, turns, fees, st.booleans())
def test_what_agents_cost_is_told_whoever_pays(mine, others, paid, answered) -> None:
    root, asked, deepest = tally_of(mine), tally_of(others), tally_of(others, paid)
    alone = root.total_nano, asked.total_nano, deepest.total_nano

    asked.add_fees_of(deepest, turns=True)
    root.add_fees_of(asked, turns=answered)

    assert root.total_nano == sum(alone)
    assert root.cost.total_nano == round(sum(alone, Fraction(0)))
