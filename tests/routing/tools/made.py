"""Tools, contexts and toolboxes for tests."""

import time
from datetime import UTC, datetime
from typing import Any, cast

from accounts.caller import Caller
from routing.tools.interface import Definition, ModelAnswer, Result, ToolContext, ToolFailed

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def no_model(body: dict[str, Any]) -> ModelAnswer:
    raise ToolFailed("no model here")


def context(**given: Any) -> ToolContext:
    fields: dict[str, Any] = {
        "caller": cast(Caller, None),
        "messages": [{"role": "user", "content": "Hi"}],
        "model": "acme/asker",
        "deadline": time.monotonic() + 30,
        "now": lambda: NOON,
        "ask": no_model,
    }
    return ToolContext(**(fields | given))


class Echo:
    """Says its arguments."""

    time_s: float | None = None
    definition = Definition("echo", "Says it again.", {"type": "object"})

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.parameters = parameters

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        return Result(repr(arguments))
