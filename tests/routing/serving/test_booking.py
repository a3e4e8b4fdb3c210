"""What the ledger and its neighbours learn of a call that ended, in whatever way. No end leaves
before its charge is in the books."""

import json
from fractions import Fraction
from typing import Any
from unittest.mock import Mock, call, create_autospec

import pytest
from gevent import GreenletExit

from gateway.http.errors import GatewayError, NotFound, PaymentRequired, Unavailable
from gateway.outbound.reply import Reply
from routing.entities.exchange import Answer
from routing.history.content_draft import ContentDraft
from routing.ledger.writer import LedgerWriter
from routing.metering.cost import FREE
from routing.metering.usage import Usage
from routing.reports.report import Publisher, RequestReport
from routing.serving.answer import nonstreaming as whole
from routing.serving.answer.loop_stream import LoopStream
from routing.serving.answer.stream import AnswerStream
from routing.serving.answer.stream_setup import build_relay
from routing.serving.answer.tool_loop import LoopResult
from routing.serving.attempts.attempts import Attempts
from routing.serving.attempts.relay import Relay
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.loop import Loop
from routing.serving.request.outcome import (
    Outcome,
    answered_outcome,
    failed_outcome,
    measure_usage,
)
from routing.serving.settlement import booking
from routing.serving.settlement.booking import (
    FailureRecorder,
    book,
    settle,
    settle_failure,
    stream_outcome,
)
from routing.tools.toolbox import Toolbox
from routing.upstreams.failures import from_error_object
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import attempt_at, call_to
from tests.routing.serving.streams import chat_events


class Desk:
    """A call at an endpoint, and all that is told of it, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        target = endpoint()
        self.call: RequestProgress = call_to(target)
        self.attempt: Attempt = attempt_at(target)
        self.call.attempts = [self.attempt]
        self.content = self.call.content = create_autospec(ContentDraft, instance=True)
        self.attempts = create_autospec(Attempts, instance=True)
        self.ledger = create_autospec(LedgerWriter, instance=True)
        self.told = Mock()
        self._reports: list[RequestReport] = []
        self.told.attach_mock(self.ledger.submit, "submit")
        self.told.attach_mock(self.ledger.wait, "wait")
        monkeypatch.setattr(booking, "ledger", self.ledger)
        for name in ("uses", "rate_limits", "queue_content"):
            monkeypatch.setattr(booking, name, getattr(self.told, name))
        monkeypatch.setattr(booking, "wait_until_stored", self.told.wait_until_stored)
        monkeypatch.setattr(booking, "publisher", publisher := Publisher())
        publisher.add_observer("test", self._reports.extend)
        self._publisher = publisher

    def take_report(self) -> RequestReport:
        """The one that was published."""
        self._publisher.deliver()
        (report,) = self._reports
        return report

    @property
    def steps(self) -> list[str]:
        return [name for name, *_ in self.told.mock_calls]

    @property
    def order(self) -> Any:
        (given,) = self.ledger.submit.call_args_list
        return given.args[0]

    def relay(self, *texts: str) -> Relay:
        """What came of a stream that broke off."""
        relay = build_relay(self.call, self.attempt)
        relay.feed_bytes(b"".join(chat_events(*texts)[: len(texts) + 1]))
        return relay

    def fail(self, attempt: Attempt | None, relay: Relay | None, **how: Any) -> Any:
        return settle_failure(self.call, self.attempts, attempt, relay, NotFound("gone"), **how)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(monkeypatch)


BOOKED = ["submit", "uses.note", "rate_limits.settle", "queue_content"]


def test_a_call_is_booked_once_and_told_to_all_who_count(desk) -> None:
    usage = measure_usage(desk.call, desk.attempt, None, 8)
    ends: Any = {"finish_reason": "stop", "native_finish": "stop", "service_tier": None}
    outcome = answered_outcome(desk.call, desk.attempt, usage, **ends)

    booked = book(desk.call, outcome)
    assert booked is not None
    assert booked.ticket is desk.ledger.submit.return_value
    assert book(desk.call, outcome) is None

    assert desk.steps == BOOKED
    assert desk.call.settled
    assert desk.order.charge_nano == usage.prompt_tokens * 1000 + usage.completion_tokens * 2000
    assert desk.told.uses.note.call_args == call(1, desk.order.settled_at)
    assert desk.told.rate_limits.settle.call_args == call(desk.call, usage)
    assert desk.told.queue_content.call_args == call(desk.call.content)


@pytest.mark.parametrize("wait", [True, False])
def test_what_is_to_be_done_meanwhile_is_done_before_the_wait(desk, wait: bool) -> None:
    settle(desk.call, failed_outcome(NotFound("gone")), wait=wait, meanwhile=desk.told.meanwhile)
    assert desk.steps == [*BOOKED, "meanwhile", *(["wait", "wait_until_stored"] if wait else [])]
    settle(desk.call, failed_outcome(NotFound("gone")), wait=True, meanwhile=desk.told.meanwhile)
    assert desk.told.meanwhile.call_count == 1


def test_what_a_tool_asked_of_a_model_is_booked_without_a_report_of_its_own(desk) -> None:
    desk.call.parent, desk.call.content = call_to(endpoint()), None
    desk.call.stages = [{"type": "input"}]
    # Of the guard only its stages are booked.
    desk.call.output_guard = Mock(take_stages=lambda: [{"type": "output"}])

    answer = settle(desk.call, failed_outcome(NotFound("gone")), meanwhile=lambda: "answer")

    assert answer == "answer"
    assert desk.steps == ["submit", "uses.note", "rate_limits.settle", "wait"]
    assert desk.call.stages == [{"type": "input"}, {"type": "output"}]
    assert not desk.call.is_reported
    # Nor is there any content where the workspace keeps none.
    desk.call.settled = False
    with pytest.raises(NotFound), FailureRecorder(desk.call, desk.attempts):
        raise NotFound("gone")
    assert desk.call.settled


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_stream_is_charged_for_what_came(desk, cancelled: bool) -> None:
    relay = desk.relay("Hello", " you")
    outcome = stream_outcome(desk.call, desk.attempt, relay, cancelled=cancelled)
    assert outcome.usage == measure_usage(desk.call, desk.attempt, relay.usage, len("Hello you"))
    assert outcome.charged_nano == outcome.cost.total_nano > 0
    assert outcome.cancelled is cancelled


def test_a_call_that_reached_nobody_gives_its_hold_back(desk) -> None:
    assert desk.fail(None, None) is None
    assert (desk.attempts.release.call_count, desk.call.settled) == (1, True)
    desk.call.attempts, desk.call.settled = [], False
    with pytest.raises(GatewayError), FailureRecorder(desk.call, desk.attempts):
        raise GatewayError
    assert (desk.attempts.release.call_count, desk.steps) == (2, [])


@pytest.mark.parametrize("texts", [None, (), ("Hello", " you")])
def test_a_failure_charges_nothing_and_records_what_the_provider_will_bill(desk, texts) -> None:
    outcome = desk.fail(desk.attempt, None if texts is None else desk.relay(*texts))

    assert desk.steps == [*BOOKED, "wait", "wait_until_stored"]
    assert (outcome.status, desk.order.charge_nano) == (404, 0)
    came = bool(texts)
    assert outcome.finish_reason == ("error" if texts is not None else None)
    assert (outcome.usage.completion_tokens > 0) is came
    assert (outcome.cost.completion_nano > 0) is came
    assert [type(c.args[0]) for c in desk.content.set_error.call_args_list] == [NotFound]
    assert desk.fail(desk.attempt, None) is None
    assert len(desk.ledger.submit.call_args_list) == 1


@pytest.mark.parametrize("wait", [True, False])
def test_the_failure_of_a_stream_is_told_though_the_ledger_is_silent(desk, wait: bool) -> None:
    desk.ledger.wait.side_effect = Unavailable
    assert desk.fail(desk.attempt, None, wait=wait).status == 404
    assert ("wait" in desk.steps) is wait
    report = desk.take_report()
    assert (report.status, report.error.text) == (404, "gone")


NOTHING = Usage(0, 0)
TOLD: list[tuple[BaseException, int, str]] = [
    (Unavailable(), 503, "provider_overloaded"),
    (GreenletExit(), 503, "provider_overloaded"),
    (ZeroDivisionError(), 500, "server"),
]


@pytest.mark.parametrize(("ends", "status", "error_type"), TOLD)
@pytest.mark.parametrize("place", ["meanwhile", "wait"])
def test_who_is_told_an_error_in_place_of_a_booked_answer_is_reported_with_it(
    desk, place: str, ends: BaseException, status: int, error_type: str
) -> None:
    (desk.told.meanwhile if place == "meanwhile" else desk.ledger.wait).side_effect = ends
    with pytest.raises(type(ends)):
        settle(desk.call, Outcome(200, NOTHING, FREE, 0), meanwhile=desk.told.meanwhile)

    report = desk.take_report()

    assert (desk.order.record["status"], report.status) == (200, status)
    assert report.error.error_type == error_type
    assert desk.call.is_reported


def test_who_waits_for_a_whole_answer_is_told_that_the_ledger_is_silent(desk) -> None:
    desk.ledger.wait.side_effect = Unavailable
    with pytest.raises(Unavailable), FailureRecorder(desk.call, desk.attempts):
        raise NotFound("gone")
    assert (desk.order.record["status"], desk.take_report().status) == (404, 503)


def test_a_failure_is_reported_with_the_reason_that_its_caller_read(desk) -> None:
    refusal = PaymentRequired("No more", metadata={"limit_source": "router_key_limit"})
    desk.attempt.failure = from_error_object({"message": "broke off"})
    settle(desk.call, failed_outcome(refusal))
    error = desk.take_report().error
    assert (error.error_type, error.reason) == ("payment_required", "key_limit")
    assert (error.text, error.is_unpaid) == ("No more", True)


def test_a_whole_answer_that_broke_off_is_a_failure_on_record(desk) -> None:
    failure = desk.attempt.failure = from_error_object({"message": "broke off", "code": 502})
    whole._finish_broken(desk.call, desk.attempt, an_answer(), failure)

    report, trace = desk.take_report(), json.loads(desk.order.record["trace"])

    assert (report.status, report.error.error_type) == (502, failure.error_type)
    assert (report.error.text, desk.order.charge_nano) == (failure.message, 0)
    assert desk.order.record["error_type"] == failure.error_type
    assert trace["chosen"] is not None


def test_what_tools_of_a_loop_did_is_charged_of_a_failed_stream(desk, monkeypatch) -> None:
    monkeypatch.setattr(booking, "book", Mock())
    monkeypatch.setattr(booking, "publish", Mock())
    desk.call.loop = loop = Loop(desk.call.context.chat, Toolbox(()))
    loop.tally.add_fee(Fraction(500))
    for relay in (None, desk.relay("Hi")):
        outcome = desk.fail(desk.attempt, relay)
        assert outcome is not None
        assert outcome.charged_nano == 500


ENDS: list[tuple[BaseException, type[BaseException], int, bool]] = [
    # What is raised, what comes of it, what is recorded, and whether the ledger is waited for.
    (NotFound("gone"), NotFound, 404, True),
    (GreenletExit(), Unavailable, 503, False),
    (ZeroDivisionError(), ZeroDivisionError, 500, True),
]


@pytest.mark.parametrize(("raised", "comes", "status", "waits"), ENDS)
def test_whatever_ends_a_whole_answer_is_recorded(desk, raised, comes, status, waits) -> None:
    with pytest.raises(comes), FailureRecorder(desk.call, desk.attempts):
        raise raised
    assert desk.steps == BOOKED + ["wait", "wait_until_stored"] * waits
    assert desk.take_report().status == status
    assert (desk.order.record["status"], desk.order.charge_nano) == (status, 0)
    assert desk.attempts.end_probe.call_count == 1
    assert desk.content.set_error.call_count == 1


def test_what_ends_well_or_is_interrupted_or_was_settled_is_not_recorded_as_failed(desk) -> None:
    with FailureRecorder(desk.call, desk.attempts):
        pass
    with pytest.raises(KeyboardInterrupt), FailureRecorder(desk.call, desk.attempts):
        raise KeyboardInterrupt
    desk.call.settled = True
    with pytest.raises(NotFound), FailureRecorder(desk.call, desk.attempts):
        raise NotFound("gone")
    assert (desk.steps, desk.content.set_error.call_count) == ([], 0)


# --- No end before its charge ---------------------------------------------------------------------


class ReadReply(Reply):
    """An upstream's reply of which all was read."""

    def __init__(self) -> None:
        return

    def read_some(self, wait_s: float | None = None) -> bytes:
        return b""

    def close(self) -> None:
        return


def an_answer() -> Answer:
    return Answer({"role": "assistant", "content": "Hi"}, "stop", *[None] * 6)


def loop_of(call: RequestProgress) -> Loop:
    return Loop(call.context.chat, Toolbox([{"type": "router:datetime"}]))


def end_stream(
    call: RequestProgress, attempt: Attempt, kind: type[AnswerStream] = AnswerStream
) -> None:
    stream, relay = kind(call, None), build_relay(call, attempt)
    stream._committed = True
    relay.feed_bytes(b"".join(chat_events("Hi")))
    next(stream._finish(attempt, relay, ReadReply()))


def end_stream_of_turns(call: RequestProgress, attempt: Attempt) -> None:
    call.loop = loop_of(call)
    end_stream(call, attempt, LoopStream)


def end_whole(call: RequestProgress, attempt: Attempt) -> None:
    whole._finish_answer(call, attempt, an_answer())


def end_whole_of_turns(call: RequestProgress, attempt: Attempt) -> None:
    call.loop = loop_of(call)
    call.loop.take({"role": "assistant", "content": "Hi"}, finish="stop")
    whole._finish_loop(call, LoopResult(attempt, an_answer(), "stop"))


def end_broken_off(call: RequestProgress, attempt: Attempt) -> None:
    whole._finish_broken(call, attempt, an_answer(), from_error_object({"message": "broke off"}))


@pytest.mark.parametrize(
    "end", [end_stream, end_stream_of_turns, end_whole, end_whole_of_turns, end_broken_off]
)
def test_no_end_is_told_before_its_charge_is_booked(end, monkeypatch) -> None:
    silent = create_autospec(LedgerWriter, instance=True)
    silent.wait.side_effect = Unavailable
    monkeypatch.setattr(booking, "ledger", silent)
    target = endpoint()
    with pytest.raises(Unavailable):
        end(call_to(target), attempt_at(target))
    assert silent.submit.call_count == 1
