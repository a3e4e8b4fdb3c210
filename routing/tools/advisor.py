"""`router:advisor`: another model's advice."""

from typing import Final

from gateway.http.jsonio import JsonObject
from routing.tools.interface import Definition, Result, ToolContext
from routing.tools.model_calls import (
    agent_name,
    build_body,
    format_transcript,
    required_text,
    user_message,
    with_instructions,
)
from routing.tools.texts import json_text

_TOLD: Final = (
    "You advise another assistant that is working on a task. Answer its question briefly and "
    "concretely; say where it is about to go wrong."
)
_ABOUT: Final = (
    "Asks an experienced advisor for a second opinion: before a hard decision, when stuck, or to "
    "have work reviewed."
)
_PARAMETERS: Final = {
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
        told = f"{_ABOUT} {about[:200]}".strip()
        self.definition = Definition(agent_name("advisor", parameters), told, _PARAMETERS)

    def run(self, arguments: JsonObject, context: ToolContext) -> Result:
        question = required_text(arguments, "question")
        said = [user_message(question)]
        if self._settings.get("forward_transcript"):
            told = format_transcript(context.messages)
            said = [
                user_message(f"The conversation so far:\n\n{told}\n\nThe question:\n\n{question}")
            ]
        messages = with_instructions(self._settings.get("instructions") or _TOLD, *said)
        settings = {k: v for k, v in self._settings.items() if k != "max_tool_calls"}
        answer = context.ask(build_body(settings, messages))
        return Result(
            json_text({"advice": answer.text}),
            item={"model": answer.model, "question": question, "advice": answer.text},
            block_type="advisor_tool_result",
            block={"type": "advisor_result", "text": answer.text},
        )
