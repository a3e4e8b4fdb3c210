"""What a loop's turns and fees come to, whoever paid for which of them."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from routing.metering.byok import fee_nano
from routing.metering.cost import ExactCost
from routing.metering.usage import Usage
from routing.serving.tally import Tally

nano = st.fractions(min_value=0, max_value=10**12, max_denominator=1_000)
turns = st.lists(st.tuples(nano, st.booleans(), st.booleans()), max_size=8)
fees = st.lists(st.tuples(nano, nano), max_size=4)


def exact(total: Fraction) -> ExactCost:
    return ExactCost(total, total, Fraction(0))


@given(turns, fees)
def test_a_charge_is_the_sum_of_what_was_made(made, paid) -> None:
    tally = Tally()
    for total, is_own, is_free in made:
        tally.add_turn(Usage(1, 1), exact(total), is_own=is_own, is_free=is_free)
    for shared_fee, own_fee in paid:
        tally.add_fee(shared_fee, own_nano=own_fee)

    owed = [(total, is_own) for total, is_own, is_free in made if not is_free]
    shared_fees = sum((fee for fee, _ in paid), Fraction(0))
    own_fees = sum((fee for _, fee in paid), Fraction(0))
    shared = sum((total for total, is_own in owed if not is_own), shared_fees)
    own = sum((total for total, is_own in owed if is_own), own_fees)
    whole, failed, most = tally.whole, tally.fees, tally.owed
    assert whole.byok_nano == round(own)
    # What is no fee for the use of a credential, and that fee: nothing is lost between them.
    assert whole.charged_nano == round(shared) + fee_nano(round(own))
    assert whole.shared_nano == (round(shared) if whole.byok_nano else 0)
    assert failed.charged_nano == round(shared_fees) + fee_nano(round(own_fees))
    assert most.charged_nano >= whole.charged_nano >= failed.charged_nano
    assert most.byok_nano >= whole.byok_nano
    assert tally.usage.prompt_tokens == len(made)
    listed = sum((total for total, _, _ in made), Fraction(0)) + shared_fees + own_fees
    assert tally.cost.total_nano == round(listed)


@given(turns, turns, st.booleans())
def test_models_that_tools_ask_are_fees_of_the_answer(mine, others, answered) -> None:
    outer, inner = Tally(), Tally()
    for tally, made in ((outer, mine), (inner, others)):
        for total, is_own, is_free in made:
            tally.add_turn(Usage(1, 1), exact(total), is_own=is_own, is_free=is_free)
    before = outer.whole

    outer.add_fees_of(inner, turns=answered)

    assert outer.usage.prompt_tokens == len(mine)
    if not answered:
        assert outer.whole == before
        return
    owed = [(total, own) for total, own, is_free in (*mine, *others) if not is_free]
    shared = round(sum((total for total, own in owed if not own), Fraction(0)))
    own = round(sum((total for total, own in owed if own), Fraction(0)))
    assert outer.whole == (shared + fee_nano(own), own, shared if own else 0)


@given(turns, turns, fees, st.booleans())
def test_what_agents_cost_is_told_whoever_pays(mine, others, paid, answered) -> None:
    root, asked, deepest = Tally(), Tally(), Tally()
    for tally, made in ((root, mine), (asked, others), (deepest, others)):
        for total, is_own, is_free in made:
            tally.add_turn(Usage(1, 1), exact(total), is_own=is_own, is_free=is_free)
    for shared_fee, own_fee in paid:
        deepest.add_fee(shared_fee, own_nano=own_fee)
    alone = root.total_nano, asked.total_nano, deepest.total_nano

    asked.add_fees_of(deepest, turns=True)
    root.add_fees_of(asked, turns=answered)

    assert root.total_nano == sum(alone)
    assert root.cost.total_nano == round(sum(alone, Fraction(0)))
