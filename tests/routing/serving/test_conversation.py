"""A loop in one piece. It tests what the books get of a turn that its upstream broke off, and what
turns and fees come to. It also tests what a model that a tool asks leaves on the bill of its
answer."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.errors import GatewayError, PaymentRequired
from routing.entities.exchange import Answer
from routing.metering.byok import fee_nano
from routing.metering.cost import ExactCost
from routing.metering.usage import Usage
from routing.planning import submodel_calls
from routing.serving.admission import rate_limits
from routing.serving.answer import tool_loop as loop_turns
from routing.serving.answer.tool_loop import run_tool_loop
from routing.serving.attempts.attempt_answer import Served
from routing.serving.attempts.attempts import Attempts
from routing.serving.request.context import RequestProgress
from routing.serving.request.loop import Loop
from routing.serving.request.loop_costs import Tally
from routing.serving.request.outcome import Outcome, failed_outcome, price
from routing.tools.toolbox import Toolbox
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import attempt_at, call_to, failed_at
from tests.routing.tools.made import no_model

USAGE = {"prompt_tokens": 30, "completion_tokens": 3}
NOW = {"id": "call_1", "type": "function", "function": {"name": "datetime", "arguments": "{}"}}
TURN_NANO = 700


def answer_with(message: dict[str, Any], finish: str | None = None) -> Answer:
    answer = Answer({"role": "assistant", **message}, finish, *(None,) * 6)
    answer.usage = USAGE
    return answer


def broken_after(
    turns: Sequence[Answer], monkeypatch: pytest.MonkeyPatch
) -> tuple[Outcome, Outcome]:
    """How a loop ends whose last turn is broken off; and how the same ends as a stream."""
    call = call_to(endpoint(), tools=[{"type": "router:datetime"}])
    call.loop = Loop(call.context.chat, Toolbox(call.context.chat.body["tools"]))
    call.loop.ask_model = lambda _, body: no_model(body)
    broken = failed_at(endpoint(), status=502)
    call.attempts.append(broken)
    served = [Served(attempt_at(endpoint()), answer) for answer in turns]
    answers = iter([*served, Served(broken, answer_with({"content": "Half of"}), broken.failure)])
    monkeypatch.setattr(loop_turns, "request_answer", lambda *_: next(answers))
    with pytest.raises(GatewayError) as caught:
        run_tool_loop(call, Attempts(call))
    usage = Usage(prompt_tokens=30, completion_tokens=3)
    streamed = failed_outcome(caught.value, usage=usage, cost=price(call, broken, usage))
    return failed_outcome(caught.value, loop=call.loop), streamed


def test_its_first_turn_costs_what_a_stream_of_it_does(monkeypatch) -> None:
    whole, streamed = broken_after([], monkeypatch)
    assert (whole.cost, whole.usage) == (streamed.cost, streamed.usage)
    assert (whole.charged_nano, whole.finish_reason) == (0, "error")


def test_a_later_turn_is_added_to_those_before(monkeypatch) -> None:
    first = answer_with({"content": None, "tool_calls": [NOW]}, "tool_calls")
    whole, streamed = broken_after([first], monkeypatch)
    assert whole.cost.total_nano == 2 * streamed.cost.total_nano
    assert whole.usage.prompt_tokens == 60
    assert (whole.charged_nano, whole.finish_reason) == (0, "error")


def loop_progress(parent: RequestProgress | None = None) -> Any:
    call = call_to(endpoint())
    call.loop, call.parent = Loop(call.context.chat, Toolbox(())), parent
    return call


def test_whose_agent_cannot_be_paid_has_an_answer_that_is_not_kept(monkeypatch) -> None:
    root = loop_progress()
    agent = loop_progress(root)

    def refuse_payment(*_: object) -> Served:
        raise PaymentRequired

    monkeypatch.setattr(loop_turns, "request_answer", refuse_payment)
    monkeypatch.setattr(Attempts, "is_unaffordable", True)
    with pytest.raises(PaymentRequired):
        run_tool_loop(agent, Attempts(agent))

    assert root.loop.cut_unpaid


class Killed(BaseException):
    """Stands for the end of a greenlet."""


@pytest.mark.parametrize(
    ("owner", "waits"), [(Loop, "close"), (Attempts, "end_probe"), (rate_limits, "settle")]
)
def test_the_bill_is_told_before_anything_that_waits(owner: Any, waits: str, monkeypatch) -> None:
    root = loop_progress()
    # What the answer owed when something that may wait was done.
    owed_nano: list[int] = []

    def leave_after_turn(call: Any, attempts: Attempts) -> Any:
        cost = ExactCost(Fraction(TURN_NANO), Fraction(TURN_NANO), Fraction(0))
        call.loop.tally.add_turn(Usage(7, 0), cost, is_own=False, is_free=False)
        raise Killed

    def look(*_: Any) -> None:
        owed_nano.append(root.loop.tally.whole_charge.charged_nano)

    monkeypatch.setattr(submodel_calls, "run_tool_loop", leave_after_turn)
    monkeypatch.setattr(owner, waits, look)
    with pytest.raises(Killed):
        submodel_calls._answer_submodel(loop_progress(root))

    assert owed_nano == [TURN_NANO]
    assert root.loop.shares[id(root)].charged_nano == TURN_NANO


# --- Tallies --------------------------------------------------------------------------------------


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


def owed_sums(made, paid=()) -> tuple[Fraction, Fraction]:
    """On the gateway's own credentials, and on the caller's."""
    shared, own = (
        sum((n for n, is_own, is_free in made if is_own is own and not is_free), Fraction(0))
        for own in (False, True)
    )
    return shared + sum(fee for fee, _ in paid), own + sum(fee for _, fee in paid)


@given(turns, fees)
def test_a_charge_is_the_sum_of_what_was_made(made, paid) -> None:
    tally = tally_of(made, paid)
    whole, failed, most = tally.whole_charge, tally.fees, tally.most_owed

    (shared, own), (shared_fees, own_fees) = owed_sums(made, paid), owed_sums([], paid)
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
    before = outer.whole_charge
    outer.add_fees_of(inner, turns=answered)
    assert outer.usage.prompt_tokens == len(mine)
    shared, own = map(round, owed_sums([*mine, *others]))
    after = (shared + fee_nano(own), own, shared if own else 0)
    assert outer.whole_charge == (after if answered else before)


@given(turns, turns, fees, st.booleans())
def test_what_agents_cost_is_told_whoever_pays(mine, others, paid, answered) -> None:
    root, asked, deepest = tally_of(mine), tally_of(others), tally_of(others, paid)
    alone = root.total_nano, asked.total_nano, deepest.total_nano
    asked.add_fees_of(deepest, turns=True)
    root.add_fees_of(asked, turns=answered)
    assert root.total_nano == sum(alone)
    assert root.cost.total_nano == round(sum(alone, Fraction(0)))
