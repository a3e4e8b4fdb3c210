"""`router:subagent`: a task for another model, which may use server tools of its own."""

from typing import Any, Final

from routing.tools.asking import agent_name, body_of, instructed, text_in, user
from routing.tools.interface import Context, Definition, Result
from routing.tools.texts import json_text

_ABOUT: Final = (
    "Gives a self-contained task to another agent and returns what it found. It knows nothing of "
    "this conversation: the task must say all that it needs."
)
_PARAMETERS: Final = {
    "type": "object",
    "properties": {"task": {"type": "string", "description": "The task, with all context."}},
    "required": ["task"],
    "additionalProperties": False,
}


class Subagent:
    """Asks one model, and lets it work with the tools that the caller gave it."""

    # As long as the request may take.
    time_s: float | None = float("inf")

    def __init__(self, parameters: dict[str, Any]) -> None:
        self._settings = parameters
        about = parameters.get("instructions") or ""
        told = f"{_ABOUT} {about[:200]}".strip()
        self.definition = Definition(agent_name("subagent", parameters), told, _PARAMETERS)

    def run(self, arguments: dict[str, Any], context: Context) -> Result:
        task = text_in(arguments, "task")
        messages = instructed(self._settings.get("instructions"), user(task))
        tools = self._settings.get("tools")
        answer = context.ask(
            body_of(self._settings, messages, **({"tools": tools} if tools else {}))
        )
        item = {"model": answer.model, "task": task, "output": answer.text}
        return Result(json_text({"output": answer.text}), item=item)
