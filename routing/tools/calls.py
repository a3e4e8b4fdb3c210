"""Running the calls of one turn side by side, each within its time limit.

If a tool raises, hangs or returns too much, its result tells the model, which continues.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from gevent import GreenletExit

from gateway.database.db import under_gevent
from gateway.live_settings import settings
from routing.tools.interface import Result, ToolContext, ToolFailed
from routing.tools.texts import cut_text, failure_text, json_text, parse_arguments
from routing.tools.toolbox import RequestTool

log = logging.getLogger("gateway.tools")
# What a tool shows the caller beside its text.
_SHOWN_BYTES_MAX: Final = 4 * 1_048_576
# Time for a stopped call to clean up.
_NOTICE_S: Final = 0.2


class ServerToolCall(NamedTuple):
    """A model's call of a server tool; `refused` is why it is not to be run."""

    fitted: RequestTool
    id: str
    arguments: str
    refused: str | None = None


class RunningCalls:
    """Calls under way: `wait` until all have ended, then `results` in their order; or `stop`."""

    def __init__(self, calls: Sequence[ServerToolCall], context: ToolContext) -> None:
        self._jobs = [_Job(call, context) for call in calls]

    def wait(self, timeout_s: float | None) -> bool:
        """Whether all have ended within that time; None waits for as long as they may take."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        # Nearest limit first: nobody's passes while another is waited for.
        return all(job.wait(until) for job in sorted(self._jobs, key=lambda job: job.until))

    def results(self) -> list[Result]:
        return [job.result() for job in self._jobs]

    def cut(self) -> None:
        """Stop all calls without waiting for them."""
        for job in self._jobs:
            job.stop()

    def stop(self, *, to_the_end: bool = False) -> list[Result]:
        """Stop all calls, wait briefly, and return the results of those that ended. `to_the_end`
        waits for the calls that continue because they cost money."""
        self.cut()
        if to_the_end:
            try:
                for job in self._jobs:
                    job.leave(job.until + _NOTICE_S)
            except GreenletExit:
                # The worker is stopping: there is no time left.
                for job in self._jobs:
                    job.stop(again=True)
        until = time.monotonic() + _NOTICE_S
        for job in self._jobs:
            job.leave(until)
        return [job.result() for job in self._jobs if job.has_ended]


class _Job:
    def __init__(self, call: ServerToolCall, context: ToolContext) -> None:
        self._result: Result | None = None
        own_s, self._started = call.fitted.tool.time_s, time.monotonic()
        limit_s = float(settings.ROUTER_TOOL_TIMEOUT) if own_s is None else own_s
        self.until = min(self._started + limit_s, context.deadline)
        self._was_stopped = False
        self._tool = call.fitted.type
        self._task: _Greenlet | _Thread | None = None
        if call.refused:
            self._result = build_failed_result(call.refused)
        else:
            work = partial(self._carry_out, call, context)
            self._task = _Greenlet(work) if under_gevent() else _Thread(work)

    def wait(self, until: float | None) -> bool:
        if self._result is None and self._task is not None:
            limit = self.until if until is None else min(until, self.until)
            self._task.join(max(0.0, limit - time.monotonic()))
            if self._result is None and time.monotonic() >= self.until:
                self.stop()
                self.leave(time.monotonic() + _NOTICE_S)
                if self._result is None:
                    self._end(build_failed_result("The tool took too long and was stopped"))
        return self._result is not None

    def leave(self, until: float) -> None:
        """Wait for a stopped call to clean up."""
        if self._task is not None and self._result is None:
            self._task.join(max(0.0, until - time.monotonic()))

    @property
    def has_ended(self) -> bool:
        return self._result is not None

    def result(self) -> Result:
        assert self._result is not None
        return self._result

    def stop(self, *, again: bool = False) -> None:
        """Stop the call once; a second stop (`again`) would interrupt its cleaning up."""
        if self._task is not None and (again or not self._was_stopped):
            self._was_stopped = True
            self._task.stop()

    def _carry_out(self, call: ServerToolCall, context: ToolContext) -> None:
        result = _run_call(call, context)
        if self._result is None:
            self._end(result)

    def _end(self, result: Result) -> None:
        result.tool, result.started, result.ended = self._tool, self._started, time.monotonic()
        self._result = result


class _Greenlet:
    def __init__(self, work: Callable[[], None]) -> None:
        from gevent import spawn

        self._task = spawn(work)

    def join(self, timeout_s: float) -> None:
        self._task.join(timeout_s)

    def stop(self) -> None:
        self._task.kill(block=False)


class _Thread:
    """Where there is no gevent. A thread that hangs is left behind."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._task = threading.Thread(target=work, daemon=True)
        self._task.start()

    def join(self, timeout_s: float) -> None:
        self._task.join(timeout_s)

    def stop(self) -> None:
        """A thread cannot be stopped."""


def build_failed_result(problem: str) -> Result:
    return Result(failure_text(problem), failed=True)


def _run_call(call: ServerToolCall, context: ToolContext) -> Result:
    """The result, cut to its bounds; a failed one where there is none, or it is too large."""
    arguments = parse_arguments(call.arguments)
    if arguments is None:
        return build_failed_result("The arguments are no JSON object")
    try:
        result: object = call.fitted.tool.run(arguments, context)
        if not isinstance(result, Result) or not isinstance(result.text, str):
            raise ToolFailed("The tool gave no result")
        result.text = cut_text(result.text, settings.ROUTER_TOOL_RESULT_CHARS)
        has_more = result.item or result.block is not None
        if has_more and len(json_text([result.item, result.block])) > _SHOWN_BYTES_MAX:
            raise ToolFailed("The tool's result is too large")
        return result
    except ToolFailed as error:
        return build_failed_result(str(error))
    except Exception as error:  # A tool's bug ends this call of it, not the request.
        log.exception("Server tool %s failed", call.fitted.type, exc_info=error)
        return build_failed_result("The tool failed")
