"""What a provider of decisions refuses."""

from typing import Any

from routing.simulator.formats.base import Complaint
from routing.simulator.formats.rules import Broken

KNOWN = frozenset({"model", "state", "questions"})
TYPES = ("noul", "choice", "score")
LEVELS_MIN, LEVELS_MAX, LABELS_MAX = 2, 10, 255


def complaint(body: dict[str, Any]) -> Complaint | None:
    """422 for what breaks the form; `param` is the place. Like the others it needs no key."""
    try:
        _check(body)
    except Broken as error:
        return Complaint(422, str(error), param=error.param)
    return None


def _check(body: dict[str, Any]) -> None:
    for name in sorted(body.keys() - KNOWN):
        raise Broken("Extra inputs are not permitted", param=name)
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise Broken("A model must be named", param="model")
    if not isinstance(body.get("state"), (str, dict, list)):
        raise Broken("A string, an object or an array is expected", param="state")
    questions = body.get("questions")
    if not isinstance(questions, dict) or not questions:
        raise Broken("At least one question is expected", param="questions")
    for name, question in questions.items():
        _check_question(question, f"questions.{name}")


def _check_question(question: Any, place: str) -> None:
    if not isinstance(question, dict) or question.get("type") not in TYPES:
        raise Broken("The type is one of noul, choice, score", param=f"{place}.type")
    if not _is_told(question.get("instructions")):
        raise Broken("Instructions are required", param=f"{place}.instructions")
    if not _criteria_fit(question["type"], question.get("criteria")):
        raise Broken("The criteria do not fit the type", param=f"{place}.criteria")


def _criteria_fit(kind: str, criteria: Any) -> bool:
    if kind == "noul":
        return criteria is None or (
            isinstance(criteria, dict)
            and criteria.keys() == {"true", "false"}
            and all(map(_is_told, criteria.values()))
        )
    if kind == "choice":
        return isinstance(criteria, dict) and 1 <= len(criteria) <= LABELS_MAX
    return (
        isinstance(criteria, list)
        and LEVELS_MIN <= len(criteria) <= LEVELS_MAX
        and all(map(_is_told, criteria))
    )


def _is_told(value: Any) -> bool:
    return isinstance(value, (dict, list)) or (isinstance(value, str) and value != "")


def over_limits(
    questions: dict[str, Any],
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
