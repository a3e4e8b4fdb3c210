"""A loop in one piece: what the books are told of a turn that its upstream broke off."""

from collections.abc import Sequence

import pytest

from gateway.http.errors import GatewayError, PaymentRequired
from routing.exchange import Answer
from routing.metering.usage import Usage
from routing.serving import conversation
from routing.serving.attempts import Attempts
from routing.serving.conversation import converse
from routing.serving.loop import Loop
from routing.serving.one_answer import Served
from routing.serving.outcome import Outcome, failed, price
from routing.tools.toolbox import Toolbox
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import attempt_at, call_to, failed_at
from tests.routing.tools.made import no_model

USAGE = {"prompt_tokens": 30, "completion_tokens": 3}
NOW = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "datetime", "arguments": "{}"},
}


def broken_after(
    turns: Sequence[Answer], monkeypatch: pytest.MonkeyPatch
) -> tuple[Outcome, Outcome]:
    """How a loop ends whose last turn is broken off; and how the same ends as a stream."""
    call = call_to(endpoint(), tools=[{"type": "router:datetime"}])
    call.ask = lambda _, body: no_model(body)
    call.loop = Loop(call.chat, Toolbox(call.chat.body["tools"]))
    broken = failed_at(endpoint(), status=502)
    call.attempts.append(broken)
    last = Answer({"role": "assistant", "content": "Half of"}, *(None,) * 7)
    last.usage = USAGE
    served = [Served(attempt_at(endpoint()), answer) for answer in turns]
    said = iter([*served, Served(broken, last, broken.failure)])
    monkeypatch.setattr(conversation, "answer_of", lambda *_: next(said))
    attempts = Attempts(call)
    with pytest.raises(GatewayError) as caught:
        converse(call, attempts)
    whole = failed(caught.value, loop=call.loop)
    usage = Usage(prompt_tokens=30, completion_tokens=3)
    streamed = failed(caught.value, usage=usage, cost=price(call, broken, usage))
    return whole, streamed


def test_its_first_turn_costs_what_a_stream_of_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, streamed = broken_after([], monkeypatch)

    assert whole.cost == streamed.cost
    assert whole.usage == streamed.usage
    assert (whole.charged_nano, whole.finish_reason) == (0, "error")


def test_a_later_turn_is_added_to_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [NOW]}
    first = Answer(message, "tool_calls", *(None,) * 6)
    first.usage = USAGE

    whole, streamed = broken_after([first], monkeypatch)

    assert whole.cost.total_nano == 2 * streamed.cost.total_nano
    assert whole.usage.prompt_tokens == 60
    assert (whole.charged_nano, whole.finish_reason) == (0, "error")


def test_whose_agent_cannot_be_paid_has_an_answer_that_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root, agent = call_to(endpoint()), call_to(endpoint())
    agent.loop, agent.parent = Loop(agent.chat, Toolbox(())), root

    def refused(*_: object) -> Served:
        raise PaymentRequired

    monkeypatch.setattr(conversation, "answer_of", refused)
    monkeypatch.setattr(Attempts, "is_unaffordable", True)

    with pytest.raises(PaymentRequired):
        converse(agent, Attempts(agent))

    assert root.cut_unpaid
