"""Asking for probabilities as numbers, in the form of a strict JSON schema."""

import math
from collections.abc import Sequence
from typing import Any, Final

from gateway.http.errors import MalformedJson
from gateway.http.jsonio import JsonObject, loads
from routing.decisions.question import (
    LETTERS,
    Judgement,
    NoAnswer,
    TypedQuestion,
    ask_for_numbers,
    list_marks,
)

LABELS_MAX: Final = len(LETTERS)
# A number, its mark, and what an indented object puts round them.
_TOKENS_PER_NUMBER: Final = 24
_TOKENS_BESIDE: Final = 64
# What a model that cannot but reason may say before.
_REASONING_TOKENS: Final = 8192


def build_request(state: str, question: TypedQuestion, *, reasons: bool = False) -> JsonObject:
    """A chat request for one number for each label (a noul's yes), but for `model`.

    `reasons` is for a model whose reasoning is mandatory: its answer gets room for it.
    """
    names = _list_names(question)
    answered_max = _TOKENS_BESIDE + _TOKENS_PER_NUMBER * len(names)
    return {
        "messages": ask_for_numbers(state, question),
        "max_tokens": answered_max + (_REASONING_TOKENS if reasons else 0),
        "temperature": 0,
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "name": "probabilities",
                "strict": True,
                "schema": {
                    "type": "object",
                    "properties": {name: {"type": "number"} for name in names},
                    "required": list(names),
                    "additionalProperties": False,
                },
            },
        },
        **({} if reasons else {"reasoning": {"effort": "none"}}),
    }


def read_judgement(question: TypedQuestion, content: str) -> Judgement:
    """The distribution in an answer's text. Raises `NoAnswer` for what does not fit the schema."""
    try:
        fields = loads(content.encode("utf-8", "replace"))
    except MalformedJson as error:
        raise NoAnswer("the answer is no JSON") from error
    if not isinstance(fields, dict):
        raise NoAnswer("the answer is no object")
    numbers = [_read_number(fields.get(name), name) for name in _list_names(question)]
    if question.kind != "noul":
        return Judgement(normalize(numbers))
    [yes] = numbers
    if yes > 1:
        raise NoAnswer("the probability is above 1")
    return Judgement((yes, 1 - yes))


def normalize(numbers: Sequence[float]) -> tuple[float, ...]:
    """Probabilities in the proportion of `numbers`, which are 0 or more; all alike for nothing."""
    most = max(numbers)
    if not most:
        return (1 / len(numbers),) * len(numbers)
    # Divided first, for the sum of large numbers may have no finite value.
    shares = [each / most for each in numbers]
    total = math.fsum(shares)
    return tuple(share / total for share in shares)


def _list_names(question: TypedQuestion) -> tuple[str, ...]:
    marks = list_marks(question)
    return marks[:1] if question.kind == "noul" else marks


def _read_number(value: Any, name: str) -> float:
    if type(value) not in (int, float):
        raise NoAnswer(f"{name} is no number")
    try:
        number = float(value)
    except OverflowError:
        raise NoAnswer(f"{name} is too large") from None
    if number < 0 or not math.isfinite(number):
        raise NoAnswer(f"{name} is no probability")
    return number
