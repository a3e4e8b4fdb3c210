"""`router:apply_patch`: files of the request's workspace, made, changed and deleted by diffs."""

from typing import Any, Final

from routing.tools.diffs import DiffFailed, created, patched
from routing.tools.files import TEXT_BYTES_MAX, bounded_text
from routing.tools.interface import Context, Definition, Result, ToolFailed
from routing.tools.texts import json_text
from routing.tools.workspace import InWorkspace, path_in

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


class ApplyPatch(InWorkspace):
    """One file a call."""

    time_s: float | None = None
    definition = _DEFINITION

    def run(self, arguments: dict[str, Any], context: Context) -> Result:
        # Models that know the tool from elsewhere put it all into an operation.
        asked = arguments.get("operation")
        asked = asked if isinstance(asked, dict) else arguments
        kind, path, diff = asked.get("type"), path_in(asked), asked.get("diff")
        if kind not in _KINDS:
            raise ToolFailed(f"type must be one of {', '.join(_KINDS)}")
        operation = {"type": kind, "path": path}
        if kind == "delete_file":
            self.workspace.ask({"do": "remove", "path": path})
        else:
            operation["diff"] = diff = _diff(diff)
            self._write(kind, path, diff)
        return Result(json_text({"status": "completed"}), item={"operation": operation})

    def _write(self, kind: str, path: str, diff: str) -> None:
        try:
            text = created(diff) if kind == "create_file" else patched(self._read(path), diff)
        except DiffFailed as error:
            raise ToolFailed(str(error)) from None
        order = {"do": "write", "path": path, "text": bounded_text(text)}
        self.workspace.ask(order | {"new": kind == "create_file"})

    def _read(self, path: str) -> str:
        said = self.workspace.ask({"do": "read", "path": path, "bytes": TEXT_BYTES_MAX})
        text = said.get("text")
        if said.get("cut") or not isinstance(text, str):
            raise ToolFailed("The file is too long to be changed")
        return text


def _diff(diff: Any) -> str:
    if not isinstance(diff, str):
        raise ToolFailed("diff must be a text")
    return bounded_text(diff)
