"""`router:advisor` and `router:subagent`: another model's advice, or a task for one, which may use
server tools of its own."""

from collections.abc import Mapping
from typing import Any, Final

from gateway.http.jsonio import JsonObject
from routing.entities.ids import tool_call_id
from routing.formats.server_tools import FUNCTIONS, WAITING
from routing.tools.interface import Definition, ModelAnswer, Result, ToolContext
from routing.tools.model_calls import (
    build_body,
    format_transcript,
    require_text,
    user_message,
    with_instructions,
)
from routing.tools.texts import json_text


def _name_agent(kind: str, settings: Mapping[str, Any]) -> str:
    """The function name of one of several tools of a type."""
    name = str(settings.get("name") or "").strip()
    return f"{kind}_{name}" if name else kind


_ADVISOR: Final = (
    "You advise another assistant that is working on a task. Answer its question briefly and "
    "concretely; say where it is about to go wrong."
)
_ABOUT_ADVICE: Final = (
    "Asks an experienced advisor for a second opinion: before a hard decision, when stuck, or to "
    "have work reviewed."
)
_QUESTION: Final = {
    "type": "object",
    "properties": {"question": {"type": "string", "description": "What to ask, with all context."}},
    "required": ["question"],
    "additionalProperties": False,
}


class Advisor:
    """Asks one model, with the conversation where the caller wants it forwarded."""

    # As long as the request may take.
    time_s: float | None = float("inf")

    def __init__(self, parameters: JsonObject) -> None:
        self._settings = parameters
        about = parameters.get("instructions") or ""
        description = f"{_ABOUT_ADVICE} {about[:200]}".strip()
        self.definition = Definition(_name_agent("advisor", parameters), description, _QUESTION)

    def run(self, arguments: JsonObject, context: ToolContext) -> Result:
        question = require_text(arguments, "question")
        opening = [user_message(question)]
        if self._settings.get("forward_transcript"):
            transcript = format_transcript(context.messages)
            opening = [
                user_message(
                    f"The conversation so far:\n\n{transcript}\n\nThe question:\n\n{question}"
                )
            ]
        messages = with_instructions(self._settings.get("instructions") or _ADVISOR, *opening)
        settings = {k: v for k, v in self._settings.items() if k != "max_tool_calls"}
        answer = context.ask(build_body(settings, messages))
        return Result(
            json_text({"advice": answer.text}),
            item={"model": answer.model, "question": question, "advice": answer.text},
            block_type="advisor_tool_result",
            block={"type": "advisor_result", "text": answer.text},
        )


_ABOUT: Final = (
    "Gives a self-contained task to another agent and returns what it found. It knows nothing of "
    "this conversation: the task must say all that it needs."
)
_PARAMETERS: Final[JsonObject] = {
    "type": "object",
    "properties": {"task": {"type": "string", "description": "The task, with all context."}},
    "required": ["task"],
    "additionalProperties": False,
}


_RESUME: Final = "The id of an agent that waits, to let it go on; any task will do then."
# Of what an agent has said, as the caller sends it back.
_STATE: Final = "router:subagent_state"


class Subagent:
    """Gives one model a task and the tools that the caller chose. If it calls one of the caller's
    functions, it waits for the caller."""

    # As long as the request may take.
    time_s: float | None = float("inf")

    def __init__(self, parameters: JsonObject) -> None:
        self._settings = parameters
        self._functions: list[JsonObject] = parameters.get(FUNCTIONS) or []
        waiting = parameters.get(WAITING) or ()
        self._waiting: dict[str, list[JsonObject]] = {
            each["id"]: each["messages"] for each in waiting
        }
        about = parameters.get("instructions") or ""
        description = f"{_ABOUT} {about[:200]}".strip()
        shown = _PARAMETERS
        if self._waiting:
            resume = {"type": "string", "enum": list(self._waiting), "description": _RESUME}
            shown = {**shown, "properties": {**shown["properties"], "resume": resume}}
        self.definition = Definition(_name_agent("subagent", parameters), description, shown)

    def run(self, arguments: JsonObject, context: ToolContext) -> Result:
        past = self._take_waiting(arguments, context)
        task = str(arguments.get("task") or "") if past else require_text(arguments, "task")
        messages = past or with_instructions(self._settings.get("instructions"), user_message(task))
        tools = [*(self._settings.get("tools") or ()), *self._functions]
        answer = context.ask(
            build_body(self._settings, messages, **({"tools": tools} if tools else {}))
        )
        item = {"model": answer.model, "task": task}
        if calls := self._list_calls(answer):
            return Result(json_text({"status": "waiting"}), item=item, calls=calls)
        return Result(json_text({"output": answer.text}), item=item | {"output": answer.text})

    def _take_waiting(self, arguments: JsonObject, context: ToolContext) -> list[JsonObject] | None:
        """The conversation of the waiting agent to resume; None for a new agent. It is the named
        one, else the next one if the model had to call the tool or gives no new task."""
        asked = arguments.get("resume")
        if isinstance(asked, str) and asked in self._waiting:
            return self._waiting.pop(asked)
        task = arguments.get("task")
        is_new = isinstance(task, str) and bool(task.strip()) and not context.had_to_call
        agent = None if is_new else next(iter(self._waiting), None)
        return None if agent is None else self._waiting.pop(agent)

    def _list_calls(self, answer: ModelAnswer) -> list[JsonObject]:
        """The calls of the caller's functions; the first carries the agent's state."""
        calls: list[JsonObject] = answer.message.get("tool_calls") or []
        names = {each["function"]["name"] for each in self._functions}
        are_ours = all(call["function"]["name"] in names for call in calls)
        if not calls or not are_ours or answer.messages is None:
            return []
        # Agents know nothing of each other's ids.
        made = [{**call, "id": tool_call_id()} for call in calls]
        messages = list(answer.messages)
        last = max(place for place, each in enumerate(messages) if each["role"] == "assistant")
        earlier = messages[last]["tool_calls"][: -len(made)]
        messages[last] = {**messages[last], "tool_calls": earlier + made}
        name = str(self._settings.get("name") or "").strip() or None
        state = {"type": _STATE, "name": name, "messages": messages}
        return [made[0] | {"subagent_items": [state]}, *made[1:]]
