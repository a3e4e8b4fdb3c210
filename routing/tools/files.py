"""`router:files` and `router:apply_patch`: texts in the workspace of the request, which shells work
on too; what is patched is made, changed and deleted by diffs."""

from collections.abc import Mapping
from typing import Final

from gateway.http.jsonio import JsonObject
from routing.tools.interface import Definition, Result, ToolContext, ToolFailed
from routing.tools.sandbox.diffs import DiffFailed, create_text
from routing.tools.sandbox.workspace import WorkspaceTool, require_path
from routing.tools.texts import json_text

TEXT_BYTES_MAX: Final = 1_048_576
_FILES: Final = Definition(
    "files",
    "Lists, reads, writes and deletes text files in a workspace that begins empty and is gone once "
    "you have answered.",
    {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["list", "read", "write", "delete"]},
            "path": {"type": "string", "description": "Of a file, or of the folder to list."},
            "content": {"type": "string", "description": "What to write."},
        },
        "required": ["action"],
        "additionalProperties": False,
    },
)


class Files(WorkspaceTool):
    """It has no settings."""

    time_s: float | None = None
    definition = _FILES

    def run(self, arguments: JsonObject, context: ToolContext) -> Result:
        action = arguments.get("action")
        if not isinstance(action, str) or action not in _ACTIONS:
            raise ToolFailed(f"action must be one of {', '.join(_ACTIONS)}")
        path = "." if action == "list" and not arguments.get("path") else require_path(arguments)
        text = {}
        if action == "write":
            content = arguments.get("content")
            if not isinstance(content, str):
                raise ToolFailed("content must be a text")
            text = {"text": check_length(content)}
        answer = self.workspace.ask({"path": path, **_ACTIONS[action], **text})
        item = {"action": action, "path": path}
        marks = {"truncated": True} if answer.pop("cut", False) else {}
        return Result(json_text({**answer, **marks} or {"status": "done"}), item=item)


def check_length(text: str) -> str:
    """Raises `ToolFailed` for one that is too long for a file."""
    if len(text) > TEXT_BYTES_MAX:
        raise ToolFailed(f"A file has at most {TEXT_BYTES_MAX} characters")
    return text


_ACTIONS: Final[Mapping[str, JsonObject]] = {
    "list": {"do": "list"},
    "read": {"do": "read", "bytes": TEXT_BYTES_MAX},
    "write": {"do": "write"},
    "delete": {"do": "remove"},
}


_KINDS: Final = ("create_file", "update_file", "delete_file")
_APPLY_PATCH: Final = Definition(
    "apply_patch",
    "Creates, updates or deletes a text file in a workspace that begins empty and is gone once you "
    "have answered. In the diff each line begins with a space (stays), - (goes) or + (comes); a "
    "line of @@ and a line of the file begins a further place, behind that line. A new file has "
    "lines with + alone.",
    {
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": list(_KINDS)},
            "path": {"type": "string"},
            "diff": {"type": "string", "description": "Not for delete_file."},
        },
        "required": ["type", "path"],
        "additionalProperties": False,
    },
)


class ApplyPatch(WorkspaceTool):
    """One file a call."""

    time_s: float | None = None
    definition = _APPLY_PATCH

    def run(self, arguments: JsonObject, context: ToolContext) -> Result:
        # Models that know the tool from elsewhere put it all into an operation.
        asked = arguments.get("operation")
        asked = asked if isinstance(asked, dict) else arguments
        kind, path, diff = asked.get("type"), require_path(asked), asked.get("diff")
        if kind not in _KINDS:
            raise ToolFailed(f"type must be one of {', '.join(_KINDS)}")
        operation = {"type": kind, "path": path}
        if kind == "delete_file":
            self.workspace.ask({"do": "remove", "path": path})
        else:
            if not isinstance(diff, str):
                raise ToolFailed("diff must be a text")
            operation["diff"] = diff = check_length(diff)
            order: JsonObject = {"do": "patch", "path": path, "diff": diff, "bytes": TEXT_BYTES_MAX}
            if kind == "create_file":
                try:
                    text = check_length(create_text(diff))
                except DiffFailed as error:
                    raise ToolFailed(str(error)) from None
                order = {"do": "write", "path": path, "text": text, "new": True}
            self.workspace.ask(order)
        return Result(json_text({"status": "completed"}), item={"operation": operation})
