"""What the bench of server tools asks, and what it must hear."""

import json
from typing import Any, Final

from tests.load.generators import LoadFailed

STEPS: Final = 5
# The upstream says it every time, also in the last turn, where nobody listens.
TOOL_CALL: Final[dict[str, Any]] = {"tool_calls": [{"name": "datetime", "arguments": {}}]}
_ASKED: Final = {"model": "bench/tools", "messages": [{"role": "user", "content": "What time?"}]}


def loop_body() -> str:
    """Five steps, one by one, and the last turn."""
    tools = [{"type": "router:datetime"}]
    return json.dumps(_ASKED | {"tools": tools, "max_tool_calls": STEPS})


def call_body() -> str:
    """One call of the same model, with a function of the caller's."""
    function = {"name": "datetime", "description": "Tells the time.", "parameters": {}}
    return json.dumps(_ASKED | {"tools": [{"type": "function", "function": function}]})


def check_loop(answer: dict[str, Any]) -> None:
    """Raises `LoadFailed` where it is no loop of so many steps."""
    used = answer["usage"].get("server_tool_use_details") or {}
    if used.get("tool_calls_executed") != STEPS:
        raise LoadFailed(f"a loop of {used} steps, not of {STEPS}")
