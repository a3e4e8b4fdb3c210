"""Decisions: typed questions about a state, answered with probabilities and never streamed."""

from collections.abc import Mapping
from typing import Any

from routing.simulator.answer import SimulatedAnswer
from routing.simulator.encoding import JsonObject, write_event
from routing.simulator.formats import chat
from routing.simulator.formats.base import Complaint, RuleBroken, SimulatedStream
from routing.simulator.formats.chat import ChatSpeaker
from routing.simulator.judging import Choices, ScriptedVerdict, as_text, find_weights
from routing.simulator.prompt import NO_CACHE, CacheUse, PromptCache

KNOWN = frozenset({"model", "state", "questions"})
TYPES = ("noul", "choice", "score")
LEVELS_MIN, LEVELS_MAX, LABELS_MAX = 2, 10, 255


def check_body(body: JsonObject) -> None:
    """Raises `RuleBroken` for what breaks the form; `param` is the place."""
    for name in sorted(body.keys() - KNOWN):
        raise RuleBroken("Extra inputs are not permitted", param=name)
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise RuleBroken("A model must be named", param="model")
    if not isinstance(body.get("state"), (str, dict, list)):
        raise RuleBroken("A string, an object or an array is expected", param="state")
    questions = body.get("questions")
    if not isinstance(questions, dict) or not questions:
        raise RuleBroken("At least one question is expected", param="questions")
    for name, question in questions.items():
        place = f"questions.{name}"
        if not isinstance(question, dict) or question.get("type") not in TYPES:
            raise RuleBroken("The type is one of noul, choice, score", param=f"{place}.type")
        if not _has_content(question.get("instructions")):
            raise RuleBroken("Instructions are required", param=f"{place}.instructions")
        if not _criteria_fit(question["type"], question.get("criteria")):
            raise RuleBroken("The criteria do not fit the type", param=f"{place}.criteria")


def _criteria_fit(kind: str, criteria: object) -> bool:
    if kind == "noul":
        return criteria is None or (
            isinstance(criteria, dict)
            and criteria.keys() == {"true", "false"}
            and all(map(_has_content, criteria.values()))
        )
    if kind == "choice":
        return isinstance(criteria, dict) and 1 <= len(criteria) <= LABELS_MAX
    return (
        isinstance(criteria, list)
        and LEVELS_MIN <= len(criteria) <= LEVELS_MAX
        and all(map(_has_content, criteria))
    )


def _has_content(value: object) -> bool:
    return isinstance(value, (dict, list)) or (isinstance(value, str) and value != "")


def find_excess(
    questions: JsonObject,
    *,
    questions_max: int | None,
    options_max: int | None,
    levels_max: int | None,
) -> Complaint | None:
    """What a provider with such limits says of well-formed questions."""
    if questions_max is not None and len(questions) > questions_max:
        return Complaint(422, f"At most {questions_max} questions", param="questions")
    limits = {"choice": options_max, "score": levels_max}
    for name, question in questions.items():
        limit = limits.get(question["type"])
        if limit is not None and len(question["criteria"]) > limit:
            place = f"questions.{name}.criteria"
            return Complaint(422, f"At most {limit} of them", param=place)
    return None


PROVIDER = "Simulated"


def build_document(body: JsonObject, answer: SimulatedAnswer) -> JsonObject:
    """The whole answer. A usage of None is left out, and so is an answer of None."""
    given = answer.answers or {}
    verdicts = answer.verdicts or {}
    answers = {
        name: given[name] if name in given else build_answer(question, verdicts.get(name))
        for name, question in (body.get("questions") or {}).items()
    }
    written: JsonObject = {
        "id": f"dec-{answer.id.rpartition('-')[2]}",
        "model": answer.model,
        "provider": PROVIDER,
        "answers": {name: each for name, each in answers.items() if each is not None},
    }
    usage = answer.usage
    if isinstance(usage, dict) and "prompt_tokens" in usage:
        # What is no such usage stays as it is.
        counts = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
        usage = {ours: usage[name] for ours, name in counts.items()}
    return written if usage is None else {**written, "usage": usage}


def build_answer(question: JsonObject, verdict: ScriptedVerdict | None) -> Any:
    """One answer, typed like its question, as the verdict wants it."""
    if verdict is not None and verdict.answer is not None:
        return verdict.answer
    instructions = as_text(question["instructions"])
    shares = find_weights(verdict, instructions, read_question_choices(question))
    if total := sum(shares.values()):
        shares = {label: weight / total for label, weight in shares.items()}
    else:
        shares = dict.fromkeys(shares, 1 / len(shares))
    if question["type"] == "noul":
        return {"type": "noul", "noul": shares["yes"]}
    if question["type"] == "choice":
        choice = max(shares, key=lambda label: shares[label])
        return {"type": "choice", "choice": choice, "probabilities": shares}
    return {
        "type": "score",
        "score": sum(int(level) * share for level, share in shares.items()),
        "probabilities": shares,
        "legend": {str(n): level for n, level in enumerate(question["criteria"])},
    }


def read_question_choices(question: JsonObject) -> Choices:
    """The question's options as a prompt would list them."""
    kind, criteria = question["type"], question.get("criteria") or {}
    if kind == "noul":
        texts: dict[str, list[str]] = {"yes": [], "no": []}
    elif kind == "choice":
        texts = {}
        for label, each in criteria.items():
            # A number with an object is a group of options.
            is_group = label.isdigit() and isinstance(each, dict)
            texts[label] = list(each) if is_group else [label]
    else:
        levels = (level if isinstance(level, list) else [level] for level in criteria)
        texts = {str(n): list(map(as_text, level)) for n, level in enumerate(levels)}
    return Choices(as_text(question["instructions"]), texts)


class SimulatedDecisions:
    name = "decisions"
    document = staticmethod(build_document)
    speaker = ChatSpeaker

    def read_request(self, body: JsonObject) -> JsonObject:
        """The state and the questions are what the model reads."""
        texts = map(as_text, [body.get("state"), *(body.get("questions") or {}).values()])
        return {
            "model": body.get("model"),
            "messages": [{"role": "user", "content": "\n".join(texts)}],
        }

    def complaint(self, headers: Mapping[str, str], body: JsonObject) -> Complaint | None:
        """422 for what breaks the form. Like the others it needs no key."""
        try:
            check_body(body)
        except RuleBroken as error:
            return Complaint(422, str(error), param=error.param)
        return None

    def use_cache(self, cache: PromptCache, persona: str, body: JsonObject) -> CacheUse:
        return NO_CACHE

    def stream(self, body: JsonObject, answer: SimulatedAnswer) -> SimulatedStream:
        """There are no streams; who asks for one gets the document as its only event."""
        return SimulatedStream(opening=self.event(self.document(body, answer)))

    def build_hollow(
        self, body: JsonObject, answer: SimulatedAnswer
    ) -> tuple[JsonObject, list[bytes]]:
        document = {**self.document(body, answer), "answers": {}}
        return document, [self.event(document)]

    def event(self, value: object) -> bytes:
        return write_event("", value)

    def error(self, complaint: Complaint) -> JsonObject:
        """A question is blamed by its path, as validators of request bodies do it."""
        if complaint.status != 422:
            return chat.build_error(complaint)
        place = (complaint.param or "").split(".") if complaint.param else []
        return {"detail": [{"loc": ["body", *place], "msg": complaint.message, "type": "value"}]}

    def build_broken(self, body: JsonObject, answer: SimulatedAnswer) -> JsonObject:
        return chat.FAILURE
