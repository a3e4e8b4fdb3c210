"""What takes how long, by a clock that the test turns: nothing here waits."""

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounts.models import Event
from gateway.http.jsonio import loads
from interns.chat import runs
from interns.chat.body import ChatPrompt, ChatReply
from interns.chat.clock import Clock
from interns.chat.errors import ChatError
from interns.chat.runs import StartedRun
from interns.chat.stream import TurnStream
from interns.chat.turns import TurnRequest
from interns.models import ChatInteraction, ChatRun, Intern
from interns.runtime.driver import EndEvent, QuestionEvent, RunEvent, TextEvent
from tests.interns.chat.scripted_agent import PERMISSION
from tests.interns.farm import Farm

pytestmark = pytest.mark.django_db
START = datetime(2026, 1, 1, tzinfo=UTC)
ASKED = QuestionEvent("call-1", "permission", PERMISSION)


@dataclass
class Hands:
    """A clock's."""

    passed_s: float = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.passed_s)

    def clock(self) -> Clock:
        return Clock(now=self.now, moment=lambda: self.passed_s)


Step = RunEvent | float


@dataclass
class Script:
    """A run's stream: events, and seconds that pass in silence."""

    hands: Hands
    steps: list[Step]
    closed: bool = False

    def read(self, wait_s: float) -> list[RunEvent]:
        if not self.steps:
            self.hands.passed_s += wait_s
            return []
        step = self.steps.pop(0)
        if not isinstance(step, float):
            return [step]
        self.hands.passed_s += min(step, wait_s)
        if step > wait_s:
            self.steps.insert(0, step - wait_s)
        return []

    def close(self) -> None:
        self.closed = True


@dataclass
class Driver:
    """Only what a chat asks of one."""

    hands: Hands
    steps: list[Step] = field(default_factory=list)
    cancelled: list[uuid.UUID] = field(default_factory=list)
    streams: list[Script] = field(default_factory=list)
    deadlines: list[float] = field(default_factory=list)
    turns: list[Any] = field(default_factory=list)

    def turn(self, intern_id: uuid.UUID, turn: Any, *, deadline: float, abort: Any) -> Script:
        self.turns.append(turn)
        self.deadlines.append(deadline)
        self.streams.append(Script(self.hands, list(self.steps)))
        return self.streams[-1]

    answer = turn

    def cancel(self, intern_id: uuid.UUID, run_id: uuid.UUID, *, wait_s: float = 2.0) -> bool:
        self.cancelled.append(run_id)
        return True


@dataclass
class Bench:
    intern_id: uuid.UUID
    hands: Hands
    driver: Driver
    asking: TurnRequest

    def prompt(self, *steps: Step, session_id: str = "s") -> TurnStream:
        self.driver.steps = list(steps)
        stream = self.asking.prompt(ChatPrompt("Hi", session_id, "self-drive"))
        assert isinstance(stream, TurnStream)
        return stream

    def reply(self, answer: str = "allow_once", *steps: Step) -> TurnStream:
        self.driver.steps = list(steps)
        return self.asking.reply(ChatReply("s", "call-1", answer))

    @property
    def run(self) -> ChatRun:
        return ChatRun.objects.latest("started_at")


@pytest.fixture
def bench(farm: Farm) -> Bench:
    intern = Intern.objects.get(pk=farm.create_running()["id"])
    hands = Hands()
    driver: Any = Driver(hands)
    clock = hands.clock()
    asking = TurnRequest(intern.pk, acting="1", by=None, client=None, driver=driver, clock=clock)
    return Bench(intern.pk, hands, driver, asking)


def read_all(stream: TurnStream) -> list[Any]:
    """All that it says."""
    lines = [line for line in b"".join(stream).split(b"\n\n") if line]
    return [loads(line[6:]) if line.startswith(b"data: {") else line.decode() for line in lines]


def test_silence_is_filled_every_thirty_seconds(bench: Bench) -> None:
    stream = bench.prompt(29.9, TextEvent("a"), 65.0, EndEvent())
    at = {}
    for out in stream:
        at[round(bench.hands.passed_s, 1)] = out
    assert [second for second, out in at.items() if out == b": keepalive\n\n"] == [59.9, 89.9]
    assert b'"stop"' in at[94.9]


def test_a_request_has_five_minutes(bench: Bench) -> None:
    *_, error, last, done = read_all(bench.prompt(299.0, TextEvent("a")))
    assert bench.hands.passed_s == 300.0
    assert bench.driver.deadlines == [300.0]
    assert error["error"]["code"] == 504
    assert error["error"]["metadata"] == {"reason": "timeout", "retryable": True}
    assert (last["session_id"], done) == ("s", "data: [DONE]")
    assert bench.driver.cancelled == [bench.run.pk]
    assert bench.run.ended_because == "timeout"
    assert bench.driver.streams[0].closed


def test_each_request_of_a_run_has_its_own_five_minutes(bench: Bench) -> None:
    read_all(bench.prompt(290.0, ASKED))
    # An answer comes at the last moment.
    bench.hands.passed_s += 299.9
    *_, finish, last, done = read_all(bench.reply("cancel", 290.0, EndEvent()))
    assert bench.driver.deadlines == [300.0, 889.9]
    # The gateway judges when a question has waited too long, not the runtime.
    assert bench.driver.turns[0].question_s > 300
    assert bench.run.state == "completed"
    assert finish["choices"][0]["finish_reason"] == "stop"
    assert (last["usage"], done) == (None, "data: [DONE]")


def test_a_run_that_is_streamed_keeps_its_lease_and_without_it_ends(bench: Bench) -> None:
    stream = iter(bench.prompt(TextEvent("a"), 200.0, TextEvent("b"), 200.0, EndEvent()))
    while b'"b"' not in next(stream):
        pass
    expires = bench.run.lease_expires_at
    assert expires is not None
    assert expires > bench.hands.now() + timedelta(seconds=40)
    ChatRun.objects.update(lease_id=uuid.uuid4())
    out = b"".join(stream)
    assert b'"run_ended"' in out
    assert out.endswith(b"data: [DONE]\n\n")
    assert bench.hands.passed_s < 300
    assert bench.driver.streams[0].closed


def test_a_run_whose_process_is_gone_blocks_for_a_lease(bench: Bench) -> None:
    # Kept until the end: one that is collected cleans up wherever the process is just then.
    stream = bench.prompt(TextEvent("a"))
    next(iter(stream))
    left = bench.run
    bench.hands.passed_s = 59.0
    with pytest.raises(ChatError) as busy:
        bench.prompt(session_id="other")
    bench.hands.passed_s = 60.0
    read_all(bench.prompt(EndEvent(), session_id="other"))
    assert busy.value.reason == "busy"
    assert bench.driver.cancelled == [left.pk]
    stream.close()
    left.refresh_from_db()
    assert (left.state, left.ended_because) == ("failed", "stream_severed")


def test_who_lost_the_lease_changes_nothing(bench: Bench) -> None:
    def begin(second: float) -> StartedRun:
        begun = runs.begin(
            intern_id=bench.intern_id,
            session_id=f"s{second}",
            approval_mode="self-drive",
            by=None,
            lease_s=60,
            now=START + timedelta(seconds=second),
        )
        assert isinstance(begun, StartedRun)
        return begun

    lost = begin(0).lease
    kept = begin(61)

    now = START + timedelta(seconds=62)
    assert kept.left_over == (lost.run_id,)
    assert not runs.renew(lost, now=now, lease_s=60)
    assert not runs.finish(lost, EndEvent(), now=now)
    assert not runs.pause(lost, ASKED, now=now, question_s=300)
    assert not runs.undo_reopen(lost, 1)
    assert not runs.cancel(lost, "x", now=now)
    assert runs.read_end_reason(lost) == "stream_severed"
    assert runs.read_end_reason(kept.lease) is None
    assert runs.renew(kept.lease, now=now, lease_s=60)


def test_a_caller_who_is_gone_before_the_question_is_not_asked(bench: Bench) -> None:
    stream = bench.prompt(TextEvent("a"), ASKED)
    for out in stream:
        if b"tool_calls" in out:
            break
    stream.close()
    assert bench.driver.cancelled == [bench.run.pk]
    assert bench.run.ended_because == "client_closed_request"
    assert ChatInteraction.objects.get().state == "cancelled"


def test_the_same_question_twice_fails_the_turn(bench: Bench) -> None:
    read_all(bench.prompt(ASKED))
    chunks = read_all(bench.reply("allow_once", ASKED))
    assert chunks[-3]["error"]["metadata"]["reason"] == "turn_failed"
    assert bench.run.state == "cancelled"


def test_a_question_is_an_event_without_its_words(bench: Bench) -> None:
    read_all(bench.prompt(1.0, ASKED))

    event = Event.objects.get(kind="intern.waiting")
    intern = Intern.objects.get(pk=bench.intern_id)
    assert (event.account_id, event.data["kind"]) == (intern.workspace.account_id, "permission")
    assert intern.name in event.title
    assert str(PERMISSION) not in f"{event.text} {event.data}"
