"""Names of the features that the messages API hides behind its beta header."""

import re
from collections.abc import Iterable
from typing import Final

from gateway.http.jsonio import JsonObject

_LONG_CACHE: Final = "extended-cache-ttl-2025-04-11"
_CONTEXT: Final = "context-management-2025-06-27"
_FILES: Final = "files-api-2025-04-14"
_SYSTEM_TURNS: Final = "mid-conversation-system-2026-04-07"
_TOOL_CHANGES: Final = "mid-conversation-tool-changes-2026-07-01"
_TASK_BUDGET: Final = "task-budgets-2026-03-13"
_FAST: Final = "fast-mode-2026-02-01"
_THINKING_UPDATES: Final = "thinking-display-updates-2026-08-18"
# Some models think between calls only with it; the others ignore it.
INTERLEAVED: Final = "interleaved-thinking-2025-05-14"
_EDITS: Final = {"compact_20260112": "compact-2026-01-12"}
_TOOLS: Final = {
    "advisor_20260301": "advisor-tool-2026-03-01",
    "computer_20250124": "computer-use-2025-01-24",
    "computer_20251124": "computer-use-2025-11-24",
}
_CHANGES: Final = ("tool_addition", "tool_removal")
# What a caller's header of beta names may hold; no SDK comes near.
_BETA_CHARS_MAX: Final = 1_000
_SEPARATORS: Final = re.compile(r"[,\s]+")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def parse_betas(headers: Iterable[str]) -> str:
    """The beta names of a caller's headers as one comma list, each once. What is no token of HTTP
    is left out, for it goes into another head; so is a header of more than 1000 characters."""
    names = [
        name
        for header in headers
        if len(header) <= _BETA_CHARS_MAX
        for name in _SEPARATORS.split(header)
        if _TOKEN.fullmatch(name)
    ]
    return ",".join(dict.fromkeys(names))


def list_required_betas(body: JsonObject) -> list[str]:
    """The names of the features that a body uses and that the API hides behind `anthropic-beta`,
    each once. Features that have since become part of the API need none."""
    betas = []
    for edit in _list_objects((body.get("context_management") or {}).get("edits")):
        betas.append(_EDITS.get(str(edit.get("type")), _CONTEXT))
    if (body.get("output_config") or {}).get("task_budget") is not None:
        betas.append(_TASK_BUDGET)
    if body.get("speed") == "fast":
        betas.append(_FAST)
    if (body.get("thinking") or {}).get("display") == "updates":
        betas.append(_THINKING_UPDATES)
    if _has_long_ttl(body):
        betas.append(_LONG_CACHE)
    for tool in _list_objects(body.get("tools")):
        if (beta := _TOOLS.get(str(tool.get("type")))) is not None:
            betas.append(beta)
        if _has_long_ttl(tool):
            betas.append(_LONG_CACHE)
    for message in _list_objects(body.get("messages")):
        if message.get("role") == "system":
            betas.append(_SYSTEM_TURNS)
        if isinstance(content := message.get("content"), list):
            betas += _list_content_betas(content)
    betas += _list_content_betas(body.get("system"))
    return list(dict.fromkeys(betas))


def _list_content_betas(content: object) -> list[str]:
    """A list, for most contents have none, and a generator for each costs more than the look."""
    betas: list[str] = []
    for block in _list_objects(content):
        if "cache_control" in block and _has_long_ttl(block):
            betas.append(_LONG_CACHE)
        source = block.get("source")
        if isinstance(source, dict) and source.get("type") == "file":
            betas.append(_FILES)
        if block.get("type") in _CHANGES:
            betas.append(_TOOL_CHANGES)
        if isinstance(inner := block.get("content"), list):
            betas += _list_content_betas(inner)
    return betas


def _list_objects(value: object) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _has_long_ttl(marked: JsonObject) -> bool:
    mark = marked.get("cache_control")
    return isinstance(mark, dict) and mark.get("ttl") == "1h"
