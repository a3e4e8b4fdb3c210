"""An answer of several turns as one chat message: server tools are shown among its reasoning."""

from typing import Any, Final

from routing.formats.caller import Activity, Pieces

_LISTS: Final = ("reasoning_details", "images", "annotations")


def merged(pieces: Pieces, *, hides_reasoning: bool) -> dict[str, Any]:
    """Texts are joined and lists put together, in order; calls are those of the last turn."""
    texts: dict[str, list[str]] = {"content": [], "refusal": [], "reasoning": []}
    lists: dict[str, list[Any]] = {name: [] for name in _LISTS}
    beside: dict[str, Any] = {}
    for piece in pieces:
        if isinstance(piece, Activity):
            if not hides_reasoning:
                lists["reasoning_details"].append(detail_of(piece))
            continue
        for name, said in texts.items():
            if isinstance(text := piece.get(name), str):
                said.append(text)
        for name, kept in lists.items():
            kept += piece.get(name) or ()
        beside |= {name: piece[name] for name in ("audio", "tool_calls") if piece.get(name)}
    whole: dict[str, Any] = {"role": "assistant"}
    whole |= {name: "".join(said) if said else None for name, said in texts.items()}
    whole |= {name: kept for name, kept in lists.items() if kept}
    if not whole["content"] and "tool_calls" in beside:
        whole["content"] = None
    return whole | beside


def joined_logprobs(pieces: Pieces) -> Any:
    """Those of all turns; None where none had any."""
    joined: dict[str, Any] | None = None
    for piece in pieces:
        said = None if isinstance(piece, Activity) else piece.get("logprobs")
        if isinstance(said, dict):
            joined = {
                name: [*((joined or {}).get(name) or ()), *(said.get(name) or ())] or None
                for name in dict.fromkeys([*(joined or {}), *said])
            }
    return joined


def detail_of(activity: Activity) -> dict[str, Any]:
    """A call of a server tool as an item of `reasoning_details` (inference reference 1.5)."""
    return {
        "type": "reasoning.server_tool_call",
        "id": None,
        "format": None,
        "index": activity.index,
        "tool_name": activity.tool,
        "tool_call_id": activity.call_id,
        "arguments": activity.arguments,
        "result": activity.result,
    }
