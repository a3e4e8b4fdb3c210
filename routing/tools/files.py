"""`router:files`: texts in the workspace of the request, which shells and patches work on too."""

from collections.abc import Mapping
from typing import Final

from gateway.http.jsonio import JsonObject
from routing.tools.interface import Definition, Result, ToolContext, ToolFailed
from routing.tools.sandbox.workspace import WorkspaceTool, required_path
from routing.tools.texts import json_text

TEXT_BYTES_MAX: Final = 1_048_576
_DEFINITION: Final = Definition(
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
    definition = _DEFINITION

    def run(self, arguments: JsonObject, context: ToolContext) -> Result:
        action = arguments.get("action")
        if not isinstance(action, str) or action not in _ACTIONS:
            raise ToolFailed(f"action must be one of {', '.join(_ACTIONS)}")
        path = "." if action == "list" and not arguments.get("path") else required_path(arguments)
        text = {"text": _content(arguments)} if action == "write" else {}
        said = self.workspace.ask({"path": path, **_ACTIONS[action], **text})
        item = {"action": action, "path": path}
        told = {"truncated": True} if said.pop("cut", False) else {}
        return Result(json_text({**said, **told} or {"status": "done"}), item=item)


def _content(arguments: JsonObject) -> str:
    content = arguments.get("content")
    if not isinstance(content, str):
        raise ToolFailed("content must be a text")
    return check_length(content)


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
