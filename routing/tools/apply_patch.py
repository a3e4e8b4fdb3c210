"""`router:apply_patch`: files of the request's workspace, made, changed and deleted by diffs."""

from typing import Final

from gateway.http.jsonio import JsonObject
from routing.tools.files import TEXT_BYTES_MAX, check_length
from routing.tools.interface import Definition, Result, ToolContext, ToolFailed
from routing.tools.sandbox.diffs import DiffFailed, create_text
from routing.tools.sandbox.workspace import WorkspaceTool, required_path
from routing.tools.texts import json_text

_KINDS: Final = ("create_file", "update_file", "delete_file")
_DEFINITION: Final = Definition(
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
    definition = _DEFINITION

    def run(self, arguments: JsonObject, context: ToolContext) -> Result:
        # Models that know the tool from elsewhere put it all into an operation.
        asked = arguments.get("operation")
        asked = asked if isinstance(asked, dict) else arguments
        kind, path, diff = asked.get("type"), required_path(asked), asked.get("diff")
        if kind not in _KINDS:
            raise ToolFailed(f"type must be one of {', '.join(_KINDS)}")
        operation = {"type": kind, "path": path}
        if kind == "delete_file":
            self.workspace.ask({"do": "remove", "path": path})
        else:
            if not isinstance(diff, str):
                raise ToolFailed("diff must be a text")
            operation["diff"] = diff = check_length(diff)
            (self._create if kind == "create_file" else self._update)(path, diff)
        return Result(json_text({"status": "completed"}), item={"operation": operation})

    def _create(self, path: str, diff: str) -> None:
        try:
            text = check_length(create_text(diff))
        except DiffFailed as error:
            raise ToolFailed(str(error)) from None
        self.workspace.ask({"do": "write", "path": path, "text": text, "new": True})

    def _update(self, path: str, diff: str) -> None:
        order = {"do": "patch", "path": path, "diff": diff, "bytes": TEXT_BYTES_MAX}
        self.workspace.ask(order)
