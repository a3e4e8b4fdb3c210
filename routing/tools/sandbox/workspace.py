"""The workspace of one request: a sandbox with files of its own, which its tools share.

It begins empty with the first order and ends with the request, or with whoever gives up waiting for
it. Then all its processes and files are gone.
"""

import threading
import time
from typing import Any, Final

import pydantic_core

from gateway.http.jsonio import JsonObject, dumps
from gateway.live_settings import settings
from gateway.sandbox import host_users
from gateway.sandbox.subprocess_worker import SubprocessWorker, WorkerEnded, WorkerTimeout
from routing.tools.interface import ToolFailed
from routing.tools.sandbox import bubblewrap

# What commands may take less than the tool itself, so that the model hears of the limit.
GRACE_S: Final = 2.0
# More for the first one, for which the sandbox begins.
_START_S: Final = 10.0
_FILE_S: Final = 10.0
_COMMAND_S_MIN: Final = 0.1
_ANSWER_BYTES_MAX: Final = 8 * 1_048_576
PATH_CHARS_MAX: Final = 1000
_GONE: Final = "The workspace was lost with all its files; it begins anew with the next call"


class ToolWorkspace:
    """`ask` may come from several calls at once; one is carried out after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: SubprocessWorker | None = None
        self._place = _WorkspaceSlot()
        self._closed = False

    def ask(self, order: JsonObject, time_s: float = _FILE_S) -> JsonObject:
        """The result of an order of `inside`, which nobody may rely on. A command gets the time
        that waiting for others leaves. Raises `ToolFailed`."""
        until = time.monotonic() + time_s
        if not self._lock.acquire(timeout=time_s):
            raise ToolFailed("Not run: another call took all the time")
        try:
            left_s = max(_COMMAND_S_MIN, until - time.monotonic())
            answer = self._send_order(
                order | ({"time_s": left_s} if "time_s" in order else {}), left_s
            )
        finally:
            self._lock.release()
        if "error" in answer:
            raise ToolFailed(str(answer["error"]))
        return answer

    def _send_order(self, order: JsonObject, time_s: float) -> JsonObject:
        until = time.monotonic() + time_s + (GRACE_S if self._inside else _START_S)
        try:
            frame = dumps(order)
        except TypeError:
            # Half a character, as models make of those that are written in two.
            raise ToolFailed("What was given is no valid Unicode text") from None
        try:
            inside = self._ensure_worker()
            inside.send(frame, until)
            answer = pydantic_core.from_json(
                inside.receive(_ANSWER_BYTES_MAX, until), allow_inf_nan=False
            )
            if not isinstance(answer, dict):
                raise ValueError("no object")
            return answer
        except (WorkerEnded, WorkerTimeout, ValueError):
            self._end()
            raise ToolFailed(_GONE) from None
        except BaseException:  # Also who is killed while waiting takes it along.
            self._end()
            raise

    def close(self) -> None:
        """End its processes and delete its files."""
        self._closed = True
        self._end()

    def _ensure_worker(self) -> SubprocessWorker:
        if self._closed:
            raise ToolFailed("The request has ended")
        if self._inside is None:
            self._place.take()
            try:
                user = host_users.lease()
                self._inside = SubprocessWorker(
                    bubblewrap.workspace_command(user.uid if user else None), {}, user
                )
            except OSError as error:
                self._place.give_back()
                raise ToolFailed(f"No workspace can be had: {error.strerror}") from None
        return self._inside

    def _end(self) -> None:
        inside, self._inside = self._inside, None
        if inside is not None:
            try:
                inside.close()
            finally:
                self._place.give_back()


class _WorkspaceSlot:
    """One of the workspaces that a process may have at once."""

    _count = 0
    # Garbage may be collected by whoever has it.
    _lock = threading.RLock()

    def __init__(self) -> None:
        self._taken = False

    def take(self) -> None:
        with _WorkspaceSlot._lock:
            if _WorkspaceSlot._count >= settings.ROUTER_SHELLS_MAX:
                raise ToolFailed("Too many workspaces are in use; try again later")
            _WorkspaceSlot._count += 1
            self._taken = True

    def give_back(self) -> None:
        with _WorkspaceSlot._lock:
            if self._taken:
                _WorkspaceSlot._count -= 1
                self._taken = False

    def __del__(self) -> None:
        self.give_back()


def command_time_s(asked: Any, deadline: float) -> float:
    """The seconds that a command may take: what a model asks for, but no more than the tool and the
    request have (until `deadline`, monotonic)."""
    most = min(float(settings.ROUTER_TOOL_TIMEOUT), deadline - time.monotonic()) - 1.5 * GRACE_S
    most = max(_COMMAND_S_MIN, most)
    is_number = isinstance(asked, int | float) and not isinstance(asked, bool)
    return min(most, float(asked)) if is_number and asked > 0 else most


class WorkspaceTool:
    """A tool that works in the `workspace` of its request, which the toolbox gives it."""

    def __init__(self, parameters: JsonObject) -> None:
        self.workspace = ToolWorkspace()

    @staticmethod
    def is_available(parameters: JsonObject) -> bool:
        """Whether there is a sandbox here. A provider's own shell (`engine: native`) and one kept
        from another request are not available."""
        environment = parameters.get("environment") or {}
        kind = environment.get("type") if isinstance(environment, dict) else None
        return (
            parameters.get("engine") != "native"
            and kind != "container_reference"
            and bubblewrap.is_available()
        )


def require_path(arguments: JsonObject) -> str:
    """The `path` of a call. Raises `ToolFailed`."""
    path = arguments.get("path")
    if not isinstance(path, str) or not path.strip() or len(path) > PATH_CHARS_MAX:
        raise ToolFailed(f"path must be a text of 1 to {PATH_CHARS_MAX} characters")
    return path
