"""`router:fusion`: several models answer side by side, and one compares what they said."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from gateway.database.db import under_gevent
from gateway.http.jsonio import JsonObject
from routing.tools.interface import Definition, Result, ToolContext, ToolFailed
from routing.tools.model_calls import build_body, require_text, user_message, with_instructions
from routing.tools.texts import json_text

OUTPUT_TOKENS_DEFAULT: Final = 16_000
STEPS_DEFAULT: Final = 4
_ABOUT: Final = (
    "Has several models answer a question independently and compares their answers: where they "
    "agree, where they contradict each other, what only one of them saw. For hard questions."
)
_PARAMETERS: Final = {
    "type": "object",
    "properties": {"question": {"type": "string", "description": "What to ask, with all context."}},
    "required": ["question"],
    "additionalProperties": False,
}
_JUDGE: Final = (
    "Several models were asked the same question. Compare their answers: state what they agree on, "
    "where they contradict each other and who is right, what only one of them saw, and what all of "
    "them missed. Do not answer at length yourself."
)


class Fusion:
    """`analysis_models` are the panel and `model` compares: the model that asked, where the caller
    names none."""

    # As long as the request may take.
    time_s: float | None = float("inf")
    definition = Definition("fusion", _ABOUT, _PARAMETERS)

    def __init__(self, parameters: JsonObject) -> None:
        self._settings = {
            "max_completion_tokens": OUTPUT_TOKENS_DEFAULT,
            "max_tool_calls": STEPS_DEFAULT,
            **parameters,
        }

    def run(self, arguments: JsonObject, context: ToolContext) -> Result:
        question = require_text(arguments, "question")
        panel: list[str] = self._settings.get("analysis_models") or [context.model]
        work: list[Callable[[], JsonObject]] = [
            partial(self._answer, context, model, question) for model in panel
        ]
        answers = side_by_side(work)
        good = [each for each in answers if "answer" in each]
        if not good:
            raise ToolFailed("None of the models answered")
        analysis = self._analysis(context, question, good)
        fields = {"answers": answers, "analysis": analysis}
        return Result(json_text(fields), item={"question": question, **fields})

    def _answer(self, context: ToolContext, model: str, question: str) -> JsonObject:
        fields: JsonObject = {"model": model}
        if tools := self._settings.get("tools"):
            fields["tools"] = tools
        body = build_body(self._settings, [user_message(question)], **fields)
        if mark := self._settings.get("cache_control"):
            body["cache_control"] = mark
        try:
            return {"model": model, "answer": context.ask(body).text}
        except ToolFailed as error:
            return {"model": model, "error": str(error)}

    def _analysis(
        self, context: ToolContext, question: str, answers: list[JsonObject]
    ) -> str | None:
        """None for an answer that there is nothing to compare with."""
        if len(answers) == 1:
            return None
        replies = "\n\n".join(
            f"Answer {place} ({each['model']}):\n{each['answer']}"
            for place, each in enumerate(answers, start=1)
        )
        messages = with_instructions(_JUDGE, user_message(f"Question:\n{question}\n\n{replies}"))
        settings = {k: v for k, v in self._settings.items() if k != "max_tool_calls"}
        try:
            return context.ask(build_body(settings, messages)).text
        except ToolFailed:
            return None


T = TypeVar("T")


def side_by_side(work: Sequence[Callable[[], T]]) -> list[T]:
    """What each returns, in their order; what the first of them raises. A greenlet that is killed
    while waiting takes them along, and ends once they have: some have a bill to count."""
    if not under_gevent():
        with ThreadPoolExecutor(max_workers=len(work)) as pool:
            return list(pool.map(lambda each: each(), work))
    from gevent import killall, spawn

    jobs = [spawn(each) for each in work]
    try:
        return [job.get() for job in jobs]
    finally:
        killall(jobs)
