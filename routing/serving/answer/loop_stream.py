"""Answering as a stream where server tools are run between the turns of the model."""

from functools import partial

from gateway.outbound.reply import Reply
from routing.plugins.interface import list_citations
from routing.serving.admission.endpoint_limits import end_attempt_places
from routing.serving.answer.relays import LoopRelay
from routing.serving.answer.schema_repair import check_stream
from routing.serving.answer.stream import AnswerStream
from routing.serving.answer.stream_setup import flush_guard
from routing.serving.answer.stream_waits import CallerGone, Work
from routing.serving.answer.tool_loop import (
    add_tool_stage,
    build_tool_context,
    filter_results,
    list_next_candidates,
)
from routing.serving.attempts.attempts import Attempts
from routing.serving.attempts.relay import Relay
from routing.serving.request import process
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.outcome import (
    guarded_finish,
    loop_outcome,
    measure_usage,
    note_results,
    note_turn,
    own_usage,
    report_usage,
)
from routing.serving.request.stickiness import remember
from routing.serving.settlement.booking import settle
from routing.serving.settlement.router_metadata import build_wanted_metadata
from routing.statistics.observation import record_attempt
from routing.tools.calls import RunningCalls, ServerToolCall


class LoopStream(AnswerStream):
    """See `AnswerStream`. One turn after the other goes out through one writer."""

    def __init__(self, progress: RequestProgress, client: object) -> None:
        super().__init__(progress, client)
        self._running: RunningCalls | None = None
        # The turn that ended last.
        self._last: tuple[Attempt, LoopRelay] | None = None
        self._ended = False

    def _try_all(self) -> Work[None]:
        while (yield from self._try_endpoints()):
            if self._ended:
                return
        if self._last is None or not self._attempts.is_unaffordable:
            raise self._attempts.error()
        # The next turn cannot be paid.
        self._progress.root_loop.cut_unpaid = True
        yield from self._close(*self._last, "length")

    def _finish(self, attempt: Attempt, relay: Relay, reply: Reply) -> Work[None]:
        """Count a turn, run the tools that it asks for, and make ready for the next."""
        progress = self._progress
        assert isinstance(relay, LoopRelay)
        loop = relay.loop
        self._accept(attempt, relay)
        usage = measure_usage(progress, attempt, relay.usage, relay.produced_chars)
        tokens = usage.completion_tokens
        record_attempt(attempt, streamed=True, tokens=tokens, tools_good=relay.tool_calls.good)
        note_turn(progress, attempt, usage, native_finish=relay.native_finish)
        message, rest = relay.message, b""
        loop.writer, self._last, self._relay = relay.writer, (attempt, relay), None
        self._let_upstream_go(reply)
        if message.get("tool_calls"):
            # Only the last word of a turn may tell that the answer is kept back.
            rest = yield from self._let_guard_look(relay, partial(flush_guard, relay))
        calls = [] if self._is_withheld else loop.take(message, finish=relay.finish_reason)
        if rest:
            if not self._committed:
                yield from self._commit()
            yield rest
        if calls:
            yield from self._run_tools(attempt, relay, calls)
        if functions := relay.write_functions():
            yield functions
        if not calls or not loop.goes_on or self._is_withheld:
            yield from self._close(attempt, relay, loop.finish(relay.finish_reason))
        elif turns := list_next_candidates(progress, attempt):
            self._attempts.end_probe()
            self._attempts = Attempts(progress, turns)
        else:
            yield from self._close(attempt, relay, "length")

    @property
    def _is_withheld(self) -> bool:
        """Whether nobody reads what comes now: no tool is run, nor is the model asked again."""
        guard = self._progress.output_guard
        return guard is not None and guard.withheld

    def _run_tools(
        self, attempt: Attempt, relay: LoopRelay, calls: list[ServerToolCall]
    ) -> Work[None]:
        if not self._committed:
            yield from self._commit()
        yield relay.open_stream() + b"".join(map(relay.writer.begin_tool, relay.loop.activities))
        self._wrote_at = process.now()
        if self._is_withheld:
            return
        self._running = running = RunningCalls(calls, build_tool_context(self._progress, attempt))
        try:
            yield from self._await_tools(running, relay)
        except (CallerGone, GeneratorExit):
            # The results there are, once agents have counted what their providers
            # bill.
            self._progress.root_loop.caller_left = not self._stopping
            if self._progress.root_loop.caller_left:
                # Not every caller who is given up has closed its end.
                self._watch.cut()
            note_results(
                self._progress,
                attempt,
                running.stop(to_the_end=self._progress.root_loop.caller_left),
            )
            raise
        except BaseException:  # Also a greenlet being killed must not leave tools running.
            note_results(self._progress, attempt, running.stop())
            raise
        finally:
            self._running = None
        results = running.results()
        note_results(self._progress, attempt, results)
        results = filter_results(self._progress, results)
        relay.loop.add_results(results)
        yield relay.write_results(relay.loop.activities, results)
        self._wrote_at = process.now()

    def _await_tools(self, running: RunningCalls, relay: LoopRelay) -> Work[None]:
        """Until all tools have ended; the caller's connection is kept alive meanwhile."""
        while not running.wait(max(0.0, self._keep_alive_at() - process.now())):
            if self._gone:
                raise CallerGone
            if process.now() >= self._keep_alive_at():
                yield relay.writer.keep_alive
                self._wrote_at = process.now()
        if self._gone:
            raise CallerGone

    def _close(self, attempt: Attempt, relay: LoopRelay, finish_reason: str) -> Work[None]:
        """Charge all turns; only then does the caller see the end."""
        progress = self._progress
        if self._asks_guards:
            end_attempt_places(progress)
        rest = yield from self._let_guard_look(relay, partial(flush_guard, relay))
        check_stream(progress, finish_reason)
        outcome = loop_outcome(
            progress,
            finish_reason=guarded_finish(progress, finish_reason),
            native_finish=relay.native_finish if finish_reason == relay.finish_reason else None,
            service_tier=relay.service_tier,
        )
        used = own_usage(attempt, outcome)
        keep = partial(remember, progress.context.conversation_key, attempt.endpoint, used)
        settle(progress, outcome, meanwhile=keep)
        add_tool_stage(progress)
        metadata, report = (
            build_wanted_metadata(progress, selected=attempt),
            report_usage(outcome, attempt),
        )
        if not self._committed:
            yield from self._commit()
        self._ended = True
        cited = relay.write_citations(
            [*relay.loop.annotations, *list_citations(progress.context.plugins)]
        )
        yield rest + cited + relay.write_closing(report, metadata, finish_reason=finish_reason)

    def _wind_up(self) -> None:
        assert self._progress.loop is not None
        try:
            super()._wind_up()
        finally:
            self._progress.loop.close()

    def _on_hang_up(self) -> None:
        super()._on_hang_up()
        self._progress.root_loop.caller_left = True
        if self._running is not None:
            self._running.cut()
