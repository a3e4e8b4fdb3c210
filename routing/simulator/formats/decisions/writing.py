"""Writing the answers to a request's questions."""

from typing import Any

from routing.simulator.judging import Verdict, as_text, weights_for
from routing.simulator.options import Choices
from routing.simulator.wire import Answer

PROVIDER = "Simulated"


def told(body: dict[str, Any]) -> str:
    """Everything the model is given to read."""
    questions = body.get("questions") or {}
    return "\n".join(map(as_text, [body.get("state"), *questions.values()]))


def document(body: dict[str, Any], answer: Answer) -> dict[str, Any]:
    """The whole answer. A usage of None is left out, and so is an answer of None."""
    given = answer.answers or {}
    verdicts = answer.verdicts or {}
    answers = {
        name: given[name] if name in given else answered(question, verdicts.get(name))
        for name, question in (body.get("questions") or {}).items()
    }
    written: dict[str, Any] = {
        "id": f"dec-{answer.id.rpartition('-')[2]}",
        "model": answer.model,
        "provider": PROVIDER,
        "answers": {name: each for name, each in answers.items() if each is not None},
    }
    said = usage(answer.usage)
    return written if said is None else {**written, "usage": said}


def answered(question: dict[str, Any], verdict: Verdict | None) -> Any:
    """One answer, typed like its question, as the verdict wants it."""
    if verdict is not None and verdict.answer is not None:
        return verdict.answer
    instructions = as_text(question["instructions"])
    shares = _normalised(weights_for(verdict, instructions, choices_of(question)))
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


def choices_of(question: dict[str, Any]) -> Choices:
    """The question's options as a prompt would list them."""
    kind, criteria = question["type"], question.get("criteria") or {}
    if kind == "noul":
        texts: dict[str, list[str]] = {"yes": [], "no": []}
    elif kind == "choice":
        texts = {label: _members(label, each) for label, each in criteria.items()}
    else:
        texts = {str(n): _levels(level) for n, level in enumerate(criteria)}
    return Choices(as_text(question["instructions"]), texts)


def _members(label: str, description: Any) -> list[str]:
    """A number with an object is a group of options."""
    return list(description) if label.isdigit() and isinstance(description, dict) else [label]


def _levels(level: Any) -> list[str]:
    return list(map(as_text, level)) if isinstance(level, list) else [as_text(level)]


def usage(said: Any) -> Any:
    """The chat format's usage in this format's words. What is no such usage stays as it is."""
    if not isinstance(said, dict) or "prompt_tokens" not in said:
        return said
    return {"input_tokens": said["prompt_tokens"], "output_tokens": said["completion_tokens"]}


def _normalised(weights: dict[str, float]) -> dict[str, float]:
    total = sum(weights.values())
    if not total:
        return dict.fromkeys(weights, 1 / len(weights))
    return {label: weight / total for label, weight in weights.items()}
