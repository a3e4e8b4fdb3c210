"""The desk: one run at a time, its stream, its questions, what is said to it meanwhile."""

import asyncio
import logging
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Final

from pydantic_ai import DeferredToolResults, ToolApproved, ToolDenied
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart

from interns.agent import events
from interns.agent.config import AgentConfig
from interns.agent.events import LAST, Event, JsonObject
from interns.agent.gateway import TRACEPARENT, GatewayClient
from interns.agent.loop import PAYMENT_REQUIRED, AgentLoop, RunLeg, TurnFailed, serialize_usage
from interns.agent.questions import (
    AnswerNotOffered,
    AskForm,
    AskPermission,
    FormField,
    GivenAnswer,
)
from interns.agent.sessions import AgentSession, AgentSessions, drop_unanswered, list_turns
from interns.agent.tools import RunTools
from interns.agent.workspace import AgentDisk, AgentWorkspace

log = logging.getLogger(__name__)

# Over runs that are remembered, so that a late answer hears what became of its question.
REMEMBERED: Final = 256
ENDED, EXPIRED = "ended", "expired"


class RequestRefused(Exception):
    """A request that cannot be met in the state it meets; nothing was changed."""

    def __init__(self, status: int, reason: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retryable = retryable


@dataclass(frozen=True, kw_only=True)
class RunPrompt:
    """What begins a run. `question_s` is how long one of its questions waits, `traceparent` what
    its model calls say of their trace."""

    run_id: str
    session_id: str
    text: str
    manual: bool
    question_s: float
    traceparent: str = ""


@dataclass
class PendingQuestion:
    """A question, the tool call that it belongs to, and whether an answer to it was taken."""

    id: str
    call: ToolCallPart
    question: AskPermission | AskForm


@dataclass(eq=False)
class InternRun:
    """One run. `stream` is what its reader has yet to read."""

    prompt: RunPrompt
    session: AgentSession
    leg: RunLeg
    first_message: int
    stream: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)
    pending: list[PendingQuestion] = field(default_factory=list)
    asked_ids: set[str] = field(default_factory=set)
    results: DeferredToolResults = field(default_factory=DeferredToolResults)
    task: "asyncio.Task[None] | None" = None
    deadline: asyncio.TimerHandle | None = None
    why_cancelled: str = "run_ended"

    @property
    def waits(self) -> bool:
        return self.task is None and bool(self.pending)

    def emit(self, event: Event) -> None:
        self.stream.put_nowait(event)

    def usage(self) -> JsonObject | None:
        return serialize_usage(self.leg.usage, self.leg.messages[self.first_message :])


class RunDesk:
    """Whatever is asked of the agent passes here; it is used by one event loop only."""

    def __init__(
        self, config: AgentConfig, loop: AgentLoop, sessions: AgentSessions, door: GatewayClient
    ) -> None:
        self._config = config
        self._loop = loop
        self._sessions = sessions
        self._door = door
        # The run that is open.
        self.run: InternRun | None = None
        self._ended: OrderedDict[str, str] = OrderedDict()
        self.model = config.model
        self.budget_ended = False

    def list_turns(self, session_id: str) -> list[JsonObject]:
        """What was said in a session, with the run that is open."""
        run = self.run
        if run is None or run.prompt.session_id != session_id:
            return list_turns(self._sessions.load(session_id).messages)
        turns = list_turns(run.leg.messages)
        if run.task is not None and run.leg.prompt:
            turns.append({"role": "user", "text": run.leg.prompt, "tools": []})
        return turns

    def begin(self, prompt: RunPrompt) -> InternRun | None:
        """Begin a run; None when the text went into the open run of the same session. Raises
        `RequestRefused` while another session's is open."""
        if self.run is not None:
            if self.run.prompt.session_id == prompt.session_id:
                self._steer(self.run, prompt.text)
                return None
            raise RequestRefused(409, "busy", "Another turn is running.", retryable=True)
        session = self._sessions.load(prompt.session_id)
        session.messages = drop_unanswered(session.messages)
        leg = RunLeg(messages=session.messages, prompt=prompt.text)
        self.run = InternRun(prompt, session, leg, len(session.messages))
        self._start_leg(self.run)
        return self.run

    def answer(self, run_id: str, question_id: str, answer: str) -> InternRun:
        """Take an answer and go on. Raises `RequestRefused`."""
        run = self._get_open(run_id)
        if run.task is not None or not run.pending or run.pending[0].id != question_id:
            if question_id in run.asked_ids:
                raise _NOT_PENDING
            text = "No pending question has this tool_call_id."
            raise RequestRefused(404, "interaction_unknown", text)
        pending = run.pending[0]
        try:
            given = pending.question.read(answer)
        except AnswerNotOffered as error:
            raise RequestRefused(400, "bad_request", str(error)) from error
        run.pending.pop(0)
        if run.deadline is not None:
            run.deadline.cancel()
        self._store_answer(run, pending, given)
        run.stream = asyncio.Queue()
        if run.pending:
            self._ask(run)
        else:
            run.leg.prompt, run.leg.results = None, run.results
            run.results = DeferredToolResults()
            self._start_leg(run)
        return run

    def steer(self, run_id: str, text: str) -> None:
        """Say something to an open run. Raises `RequestRefused`."""
        self._steer(self._get_open(run_id), text)

    async def cancel(self, run_id: str | None, *, because: str = "run_ended") -> bool:
        """End a run, or whichever is open, and wait until it is over. Whether there was one."""
        run = self.run
        if run is None or (run_id is not None and run.prompt.run_id != run_id):
            return False
        run.why_cancelled = because
        if run.task is None:
            self._close(run, self._build_cancelled(run))
            return True
        run.task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait({run.task})
        return True

    def abandon(self, run: InternRun) -> None:
        """The reader of a run's stream went away: what is still at work is cancelled."""
        if self.run is run and run.task is not None:
            run.why_cancelled = "client_closed_request"
            run.task.cancel()

    # --- Legs -------------------------------------------------------------------------------------

    def _start_leg(self, run: InternRun) -> None:
        run.task = asyncio.get_running_loop().create_task(self._carry_out(run))
        run.task.add_done_callback(lambda task: self._close_unstarted(run, task))

    def _close_unstarted(self, run: InternRun, task: "asyncio.Task[None]") -> None:
        """Close a run whose leg was cancelled before it took its first step."""
        if self.run is run and run.task is task:
            self._close(run, self._build_cancelled(run))

    def _build_cancelled(self, run: InternRun) -> Event:
        because = run.why_cancelled
        return events.failure(because, _WHY.get(because, because), usage=run.usage())

    async def _carry_out(self, run: InternRun) -> None:
        always = run.session.always
        limits = self._config.limits
        # The task is the leg's own, and so is its context.
        TRACEPARENT.set(run.prompt.traceparent)
        workspace = AgentWorkspace(self._config.workspace, file_bytes=limits.file_bytes)
        disk = AgentDisk(self._config.home, limits.disk_bytes)
        hands = RunTools(self._config, workspace, disk, self._door, run.prompt.manual, always)
        try:
            await self._loop.run(run.leg, hands, lambda event: self._emit(run, event))
        except TurnFailed as error:
            self.budget_ended = error.code == PAYMENT_REQUIRED
            self._close(run, _build_failed(error, run))
        except asyncio.CancelledError:
            self._close(run, self._build_cancelled(run))
        except Exception:
            # Whatever it is, the caller hears that it failed.
            log.exception("A run failed")
            failure = TurnFailed("The turn failed.", retryable=True)
            self._close(run, _build_failed(failure, run))
        else:
            self.budget_ended = False
            self._pause_or_end(run)

    def _emit(self, run: InternRun, event: Event) -> None:
        if event["type"] == "model":
            self.model = event["model"]
        run.emit(event)

    def _pause_or_end(self, run: InternRun) -> None:
        requests = run.leg.requests
        if requests is None and run.leg.steering:
            # It came when the agent had just had its last word.
            run.leg.prompt, run.leg.results = "\n\n".join(run.leg.steering), None
            run.leg.steering.clear()
            self._start_leg(run)
            return
        if requests is None:
            self._close(run, events.end(run.usage()))
            return
        calls = {call.tool_call_id: call for call in [*requests.calls, *requests.approvals]}
        for call_id in _sort_calls(run.leg.messages, calls):
            metadata = requests.metadata.get(call_id, {})
            asked: AskPermission | AskForm
            if "operation" in metadata:
                asked = AskPermission(metadata["operation"])
            else:
                fields = tuple(FormField(**one) for one in metadata.get("fields", []))
                asked = AskForm(metadata.get("message", ""), fields)
            run.pending.append(PendingQuestion(f"int_{token_hex(12)}", calls[call_id], asked))
        run.task = None
        self._save(run)
        self._ask(run)

    def _ask(self, run: InternRun) -> None:
        pending = run.pending[0]
        run.asked_ids.add(pending.id)
        loop = asyncio.get_running_loop()
        run.deadline = loop.call_later(run.prompt.question_s, self._expire, run, pending)
        run.emit(events.question(pending.id, pending.question.serialize()))

    def _expire(self, run: InternRun, pending: PendingQuestion) -> None:
        if self.run is run and run.pending[:1] == [pending]:
            message = "Nobody answered the question in time."
            self._close(run, events.failure("timeout", message, usage=run.usage()), was=EXPIRED)

    def _store_answer(self, run: InternRun, pending: PendingQuestion, given: GivenAnswer) -> None:
        """Put an answer where the next leg finds it."""
        call_id = pending.call.tool_call_id
        if isinstance(pending.question, AskForm):
            declined = "dismissed the question" if given.dismissed else "declined"
            text = f"Your person {declined}."
            run.results.calls[call_id] = given.content if given.accepted else text
            return
        if given.always:
            run.session.always[pending.call.tool_name] = given.accepted
        denied = ToolDenied("Your person does not allow this.")
        run.results.approvals[call_id] = ToolApproved() if given.accepted else denied

    def _close(self, run: InternRun, last: Event, *, was: str = ENDED) -> None:
        run.task = None
        if run.deadline is not None:
            run.deadline.cancel()
        self._save(run)
        self.run = None
        self._ended[run.prompt.run_id] = was
        while len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)
        run.emit(last)

    def _save(self, run: InternRun) -> None:
        messages = list(run.leg.messages)
        run.session.messages = messages if run.pending else drop_unanswered(messages)
        try:
            self._sessions.save(run.session)
        except OSError as error:
            log.error("A session could not be kept: %s", error.strerror)

    def _steer(self, run: InternRun, text: str) -> None:
        if not self._loop.steer(text):
            run.leg.steering.append(text)

    # --- Refusals ---------------------------------------------------------------------------------

    def _get_open(self, run_id: str) -> InternRun:
        if self.run is not None and self.run.prompt.run_id == run_id:
            return self.run
        if self._ended.get(run_id) == EXPIRED:
            raise _NOT_PENDING
        raise RequestRefused(410, "run_ended", "This run is over.")


_NOT_PENDING = RequestRefused(
    409, "interaction_not_pending", "That question is no longer waiting for an answer."
)
_WHY = {
    "run_ended": "The run was ended.",
    "client_closed_request": "The caller went away.",
    "timeout": "The run took too long.",
}


def _build_failed(error: TurnFailed, run: InternRun) -> Event:
    return events.failure(
        "turn_failed",
        str(error),
        retryable=error.retryable,
        code=error.code,
        usage=run.usage(),
    )


def _sort_calls(messages: list[ModelMessage], calls: dict[str, ToolCallPart]) -> list[str]:
    """The calls' ids in the order in which the model made them."""
    last = next((m for m in reversed(messages) if isinstance(m, ModelResponse)), None)
    made = [p.tool_call_id for p in (last.parts if last else ()) if isinstance(p, ToolCallPart)]
    return sorted(calls, key=lambda id: made.index(id) if id in made else len(made))


def is_last(event: Event) -> bool:
    return event["type"] in LAST
