"""`router:bash` and `router:shell`: commands in the workspace of the request."""

from typing import Final

from gateway.http.jsonio import JsonObject
from routing.tools.interface import Definition, Result, ToolContext, ToolFailed
from routing.tools.sandbox.workspace import ToolWorkspace, WorkspaceTool, command_time_s
from routing.tools.texts import json_text

OUTPUT_BYTES: Final = 65_536
COMMAND_CHARS_MAX: Final = 100_000
COMMANDS_MAX: Final = 16
_PLACE: Final = (
    "in an isolated Linux workspace without network that begins empty, keeps its files between "
    "calls and is gone once you have answered. Processes end with their command. "
)
_BASH: Final = Definition(
    "bash",
    f"Runs a command with bash {_PLACE}Gives its output and exit status.",
    {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "What to run."},
            "timeout_s": {"type": "number", "description": "Seconds until it is stopped."},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
)
_SHELL: Final = Definition(
    "shell",
    f"Runs commands, one after the other, {_PLACE}Gives the output and exit status of each.",
    {
        "type": "object",
        "properties": {
            "commands": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "timeout_ms": {"type": "number", "description": "For each, until it is stopped."},
        },
        "required": ["commands"],
        "additionalProperties": False,
    },
)
_STOPPED: Final = {
    "time": "stopped: its time was up",
    "output": "stopped: it did not cease to write",
    "processes": "stopped: too many processes",
    "memory": "stopped: too much memory",
    "files": "stopped: too many files",
}


class Bash(WorkspaceTool):
    """One command a call. `environment` and `sleep_after_seconds` ask for what every request has: a
    workspace that is there for as long as the request."""

    time_s: float | None = None
    definition = _BASH

    def run(self, arguments: JsonObject, context: ToolContext) -> Result:
        command = _command(arguments.get("command"))
        ran = _run_command(
            self.workspace, command, command_time_s(arguments.get("timeout_s"), context.deadline)
        )
        report: JsonObject = {"stdout": ran["stdout"], "stderr": ran["stderr"]}
        report["return_code"] = ran["status"]
        report |= {"stopped": ran["stopped"]} if ran["stopped"] else {}
        report |= {"truncated": True} if ran["cut"] else {}
        block = {"type": "router_bash_result", **report}
        return Result(
            json_text(report),
            item={"command": command, **report},
            block_type="router_bash_tool_result",
            block=block,
        )


class Shell(WorkspaceTool):
    """Several commands a call."""

    time_s: float | None = None
    definition = _SHELL

    def run(self, arguments: JsonObject, context: ToolContext) -> Result:
        commands = arguments.get("commands")
        if not isinstance(commands, list) or not 0 < len(commands) <= COMMANDS_MAX:
            raise ToolFailed(f"commands must be a list of 1 to {COMMANDS_MAX} texts")
        asked = arguments.get("timeout_ms")
        each_s = asked / 1000 if isinstance(asked, int | float) else None
        left_s, output = command_time_s(None, context.deadline), list[JsonObject]()
        for command in map(_command, commands):
            ran = _run_command(
                self.workspace,
                command,
                max(0.1, min(left_s, command_time_s(each_s, context.deadline))),
            )
            left_s -= ran["took_s"]
            outcome: JsonObject = {"type": "exit", "exit_code": ran["status"]}
            if ran["by_time"]:
                outcome = {"type": "timeout"}
            elif ran["stopped"]:
                outcome["stopped"] = ran["stopped"]
            report = {"stdout": ran["stdout"], "stderr": ran["stderr"], "outcome": outcome}
            output.append(report | ({"truncated": True} if ran["cut"] else {}))
        action = {"commands": commands} | ({"timeout_ms": asked} if each_s else {})
        return Result(
            json_text({"output": output}),
            item={"action": action, "output": output},
            block_type="router_shell_tool_result",
            block={"type": "router_shell_result", "output": output},
        )


def _command(command: object) -> str:
    if not isinstance(command, str) or not command.strip():
        raise ToolFailed("A command must be a text")
    if len(command) > COMMAND_CHARS_MAX or "\0" in command:
        raise ToolFailed(f"A command has at most {COMMAND_CHARS_MAX} characters, none of them null")
    return command


def _run_command(workspace: ToolWorkspace, command: str, time_s: float) -> JsonObject:
    order = {"do": "run", "command": command, "time_s": time_s, "bytes": OUTPUT_BYTES}
    answer = workspace.ask(order, time_s)
    status, took_s = answer.get("status"), answer.get("took_s")
    return {
        "stdout": _text(answer.get("stdout")),
        "stderr": _text(answer.get("stderr")),
        "status": status if isinstance(status, int) else -1,
        "cut": bool(answer.get("cut")),
        "stopped": _STOPPED.get(str(answer.get("stopped"))),
        "by_time": answer.get("stopped") == "time",
        "took_s": float(took_s) if isinstance(took_s, int | float) else time_s,
    }


def _text(answer: object) -> str:
    """What the inside says is as far from being trusted as the commands are."""
    return answer[:OUTPUT_BYTES] if isinstance(answer, str) else ""
