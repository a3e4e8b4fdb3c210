"""Which features a body uses that the API hides behind `anthropic-beta`.

The names are the API reference's (release notes and the pages of the features); features that have
since become part of the API itself need none.
"""

from collections.abc import Iterator
from typing import Any, Final

_LONG_CACHE: Final = "extended-cache-ttl-2025-04-11"
_CONTEXT: Final = "context-management-2025-06-27"
_FILES: Final = "files-api-2025-04-14"
_SYSTEM_TURNS: Final = "mid-conversation-system-2026-04-07"
_TOOL_CHANGES: Final = "mid-conversation-tool-changes-2026-07-01"
_TASK_BUDGET: Final = "task-budgets-2026-03-13"
_FAST: Final = "fast-mode-2026-02-01"
_THINKING_UPDATES: Final = "thinking-display-updates-2026-08-18"
# For models that think between calls only where they are told to; the others ignore it.
INTERLEAVED: Final = "interleaved-thinking-2025-05-14"
_EDITS: Final = {"compact_20260112": "compact-2026-01-12"}
_TOOLS: Final = {
    "advisor_20260301": "advisor-tool-2026-03-01",
    "computer_20250124": "computer-use-2025-01-24",
    "computer_20251124": "computer-use-2025-11-24",
}
_CHANGES: Final = ("tool_addition", "tool_removal")


def betas_of(body: dict[str, Any]) -> list[str]:
    """The names for what a body to be sent uses, each once."""
    return list(dict.fromkeys([*_of_settings(body), *_of_blocks(body)]))


def _of_settings(body: dict[str, Any]) -> Iterator[str]:
    edits = (body.get("context_management") or {}).get("edits")
    for edit in _objects(edits):
        yield _EDITS.get(str(edit.get("type")), _CONTEXT)
    if (body.get("output_config") or {}).get("task_budget") is not None:
        yield _TASK_BUDGET
    if body.get("speed") == "fast":
        yield _FAST
    if (body.get("thinking") or {}).get("display") == "updates":
        yield _THINKING_UPDATES
    if _is_long(body):
        yield _LONG_CACHE


def _of_blocks(body: dict[str, Any]) -> Iterator[str]:
    for tool in _objects(body.get("tools")):
        if (beta := _TOOLS.get(str(tool.get("type")))) is not None:
            yield beta
        if _is_long(tool):
            yield _LONG_CACHE
    for message in _objects(body.get("messages")):
        if message.get("role") == "system":
            yield _SYSTEM_TURNS
        if isinstance(content := message.get("content"), list):
            yield from _of_content(content)
    yield from _of_content(body.get("system"))


def _of_content(content: Any) -> list[str]:
    """A list, for most contents have none, and a generator for each costs more than the look."""
    found: list[str] = []
    for block in _objects(content):
        if "cache_control" in block and _is_long(block):
            found.append(_LONG_CACHE)
        if "source" in block and _is_file(block["source"]):
            found.append(_FILES)
        if block.get("type") in _CHANGES:
            found.append(_TOOL_CHANGES)
        if isinstance(inner := block.get("content"), list):
            found += _of_content(inner)
    return found


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _is_file(source: Any) -> bool:
    return isinstance(source, dict) and source.get("type") == "file"


def _is_long(marked: dict[str, Any]) -> bool:
    mark = marked.get("cache_control")
    return isinstance(mark, dict) and mark.get("ttl") == "1h"
