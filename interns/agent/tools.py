"""What the agent can do: its workspace, commands in the sandbox, the guarded door, its person. Each
command is a process group, killed whole when the time is up or the disk is full."""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel
from pydantic import Field as Bound
from pydantic_ai import RunContext, Tool
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed

from interns.agent.config import AgentConfig
from interns.agent.events import JsonObject
from interns.agent.gateway import GatewayClient, GatewayRefused
from interns.agent.questions import FIELDS_MAX, MESSAGE_CHARS_MAX
from interns.agent.workspace import AgentDisk, AgentWorkspace, WorkspaceError

OPERATION_CHARS_MAX = 500
DRAIN_S = 0.5
LOOK_S = 1.0
_ENVIRONMENT = ("PATH", "LANG", "HOME", "TMPDIR")


@dataclass
class RunTools:
    """What tools work with during one run. `asks_first` is the approval mode `manual`; `always`
    says which tools the person has allowed (True) or refused (False) for good."""

    config: AgentConfig
    workspace: AgentWorkspace
    disk: AgentDisk
    door: GatewayClient
    asks_first: bool
    always: dict[str, bool]


Context = RunContext[RunTools]


class AskField(BaseModel):
    """One thing to ask for."""

    name: str = Bound(min_length=1, max_length=64)
    type: Literal["string", "number", "integer", "boolean"] = "string"
    required: bool = True
    options: list[str] | None = Bound(default=None, max_length=50)


def _need_consent(ctx: Context, operation: str) -> None:
    """Stop here until the person said yes, where it is asked first. Raises `ApprovalRequired`."""
    tool = ctx.tool_name or ""
    run_tools = ctx.deps
    if not run_tools.asks_first or ctx.tool_call_approved or run_tools.always.get(tool):
        return
    if run_tools.always.get(tool) is False:
        raise ToolFailed("Your person does not allow this.")
    raise ApprovalRequired(metadata={"operation": operation[:OPERATION_CHARS_MAX]})


def list_files(ctx: Context, path: str = ".") -> list[str]:
    """List a folder of your workspace. Folders end with a slash."""
    try:
        return ctx.deps.workspace.names(path)
    except WorkspaceError as error:
        raise ToolFailed(str(error)) from error


def read_file(ctx: Context, path: str) -> str:
    """Read a text file of your workspace."""
    try:
        return ctx.deps.workspace.read(path)
    except WorkspaceError as error:
        raise ToolFailed(str(error)) from error


def write_file(ctx: Context, path: str, content: str) -> str:
    """Write a text file into your workspace. It replaces what was there; folders are made."""
    _need_consent(ctx, f"write_file: {path}")
    if not ctx.deps.disk.has_room(len(content)):
        raise ToolFailed(ctx.deps.disk.full_text())
    try:
        return f"{ctx.deps.workspace.write(path, content)} bytes written to {path}"
    except WorkspaceError as error:
        raise ToolFailed(str(error)) from error


async def run_shell(ctx: Context, command: str) -> str:
    """Run a shell command in your workspace, inside your sandbox. It has no network."""
    _need_consent(ctx, f"run_shell: {command}")
    limits, folder = ctx.deps.config.limits, ctx.deps.config.workspace
    disk = ctx.deps.disk
    ran = await run_command(
        command, folder, disk, time_s=limits.shell_s, output_bytes=limits.output_bytes
    )
    return (
        f"{ran.full_text()}\n{disk.full_text()}" if ran.was_full or ran.filled else ran.full_text()
    )


async def fetch_url(
    ctx: Context,
    url: str,
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] = "GET",
    headers: dict[str, str] | None = None,
    body: str | None = None,
) -> JsonObject:
    """Ask a web server. Write {{secret:name}} in a header, the path or the body where a secret of
    yours belongs: you never see its value, and it only goes to the hosts it is meant for."""
    _need_consent(ctx, f"fetch_url: {method} {url}")
    request = {"url": url, "method": method, "headers": headers or {}, "body": body}
    try:
        return await ctx.deps.door.fetch(request)
    except GatewayRefused as error:
        raise ToolFailed(str(error)) from error


async def list_secrets(ctx: Context) -> list[JsonObject]:
    """The names of your secrets and the hosts they are for."""
    try:
        return await ctx.deps.door.secrets()
    except GatewayRefused as error:
        raise ToolFailed(str(error)) from error


def ask_person(ctx: Context, message: str, fields: list[AskField]) -> str:
    """Ask the person you work for something that only they know, and wait for the answer."""
    shown = [one.model_dump(exclude_none=True) for one in fields[:FIELDS_MAX]]
    question = {"message": message[:MESSAGE_CHARS_MAX], "fields": json.loads(json.dumps(shown))}
    raise CallDeferred(metadata=question, kind="question")


def build_tools(config: AgentConfig) -> list[Tool[RunTools]]:
    """The tools of this runtime; the shell only where something keeps it from the host."""
    functions: list[Callable[..., Any]] = [
        *(list_files, read_file, write_file, fetch_url, list_secrets, ask_person),
        *([run_shell] if config.has_shell else []),
    ]
    return [Tool(function, takes_ctx=True) for function in functions]


@dataclass(frozen=True)
class CommandResult:
    """How a command ended. `status` is None when it was killed: its time was up, or it `filled` the
    disk. `was_full`: it could write nothing."""

    status: int | None
    output: str
    was_cut: bool
    was_full: bool = False
    filled: bool = False

    def full_text(self) -> str:
        """What the model reads."""
        why = "it filled the disk" if self.filled else "its time was up"
        ended = f"killed: {why}" if self.status is None else f"exit status {self.status}"
        cut = "\n[output cut]" if self.was_cut else ""
        return f"{self.output}{cut}\n[{ended}]"


async def run_command(
    command: str, folder: Path, disk: AgentDisk, *, time_s: float, output_bytes: int
) -> CommandResult:
    """Run `command` by /bin/sh in `folder`; output and errors together, as much as is kept.

    On a full disk it can remove files and writes none. Whatever the command leaves behind in its
    group is killed, also when this call is cancelled.
    """
    was_full = await disk.is_full()
    # A pipe of our own: the library's would have `wait` wait for all who inherited it.
    reading, writing = os.pipe()
    buffer = _OutputBuffer(output_bytes)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: buffer, os.fdopen(reading, "rb", 0)
    )
    try:
        try:
            process = await _start(command, folder, writing, may_write=not was_full)
        finally:
            os.close(writing)
        status, filled = await _wait_for_end(process, time_s, None if was_full else disk)
        # What the group wrote is in the pipe; whoever left the group may hold it for good.
        with suppress(TimeoutError):
            await asyncio.wait_for(buffer.is_over.wait(), DRAIN_S)
    finally:
        transport.close()
    output = buffer.content.decode("utf-8", "replace")
    return CommandResult(status, output, buffer.was_cut, was_full, filled)


async def _start(
    command: str, folder: Path, output: int, *, may_write: bool
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        command if may_write else f"ulimit -f 0\n{command}",
        cwd=folder,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


async def _wait_for_end(
    process: asyncio.subprocess.Process, time_s: float, disk: AgentDisk | None
) -> tuple[int | None, bool]:
    """The command's status, None when it was killed, and whether that was because it filled the
    disk. Its group is gone afterwards."""
    deadline = asyncio.get_running_loop().time() + time_s
    try:
        while (left_s := deadline - asyncio.get_running_loop().time()) > 0:
            with suppress(TimeoutError):
                return await asyncio.wait_for(process.wait(), min(LOOK_S, left_s)), False
            if disk is not None and await disk.is_full():
                return None, True
        return None, False
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.shield(process.wait())


class _OutputBuffer(asyncio.Protocol):
    """The first bytes of what is written to a pipe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.content = bytearray()
        self.was_cut = False
        self.is_over = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        room = self._most - len(self.content)
        self.was_cut = self.was_cut or len(data) > room
        self.content += data[: max(0, room)]

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over.set()
