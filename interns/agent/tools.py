"""What the agent can do: its workspace, commands in the sandbox, the guarded door, its person."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel
from pydantic import Field as Bound
from pydantic_ai import RunContext, Tool
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed

from interns.agent.config import AgentConfig
from interns.agent.events import JsonObject
from interns.agent.gateway import GatewayClient, GatewayRefused
from interns.agent.questions import FIELDS_MAX, MESSAGE_CHARS_MAX
from interns.agent.shell import run_command
from interns.agent.workspace import AgentDisk, AgentWorkspace, WorkspaceError

OPERATION_CHARS_MAX = 500


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


class AskField(BaseModel):
    """One thing to ask for."""

    name: str = Bound(min_length=1, max_length=64)
    type: Literal["string", "number", "integer", "boolean"] = "string"
    required: bool = True
    options: list[str] | None = Bound(default=None, max_length=50)


Context = RunContext[RunTools]


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
