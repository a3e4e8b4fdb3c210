"""Asking for one token, and reading the distribution off its log-probabilities.

What is not among the alternatives of that token counts as unlikely as the least likely of them.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from gateway.http.jsonio import JsonObject
from routing.decisions.question import (
    LETTERS,
    Judgement,
    NoAnswer,
    TypedQuestion,
    ask_for_mark,
    list_marks,
)

# One letter each.
LABELS_MAX: Final = len(LETTERS)
_TOP: Final = 20
# Some engines write a number such as -9999 for "never"; what is below counts as the same.
_LOGPROB_MIN: Final = -10_000.0
# A space before a word, as it is, and as tokenizers' vocabularies write it.
_SPACES: Final = " \u2581\u0120"


class _Alternative(NamedTuple):
    token: str
    logprob: float


def build_request(state: str, question: TypedQuestion) -> JsonObject:
    """A chat request for the mark of one label, but for `model`."""
    return {
        "messages": ask_for_mark(state, question),
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": _TOP,
        "reasoning": {"effort": "none"},
    }


def read_judgement(question: TypedQuestion, logprobs: object) -> Judgement:
    """The distribution in a chat answer's `logprobs`, of which nothing is taken for granted.

    Raises `NoAnswer` where no label is among the alternatives of the first token.
    """
    alternatives = list(_read_alternatives(logprobs))
    marks = {mark.casefold(): mark for mark in list_marks(question)}
    weights: dict[str, list[float]] = defaultdict(list)
    for token, logprob in alternatives:
        mark = marks.get(token.lstrip(_SPACES).casefold())
        if mark is not None:
            weights[mark].append(logprob)
    if not weights:
        raise NoAnswer("no label is among the alternatives of the answer's first token")
    least = min(logprob for _, logprob in alternatives)
    summed = {mark: _log_sum(each) for mark, each in weights.items()}
    mass = min(1.0, sum(math.exp(each) for each in summed.values()))
    shares = softmax([summed.get(mark, least) for mark in list_marks(question)])
    return Judgement(shares, label_mass=mass)


def softmax(logprobs: Sequence[float]) -> tuple[float, ...]:
    """Probabilities that sum to 1, of finite numbers."""
    most = max(logprobs)
    weights = [math.exp(each - most) for each in logprobs]
    total = math.fsum(weights)
    return tuple(weight / total for weight in weights)


def _log_sum(logprobs: Sequence[float]) -> float:
    """The logarithm of the sum of the probabilities."""
    most = max(logprobs)
    return most + math.log(math.fsum(math.exp(each - most) for each in logprobs))


def _read_alternatives(logprobs: object) -> Iterator[_Alternative]:
    """Those of the first token, and the token itself where an engine does not list it with them."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    first = content[0] if isinstance(content, list) and content else None
    if not isinstance(first, dict):
        raise NoAnswer("there are no log-probabilities")
    top = first.get("top_logprobs")
    listed = [
        each for one in (top if isinstance(top, list) else ()) if (each := _read_alternative(one))
    ]
    yield from listed
    alternative = _read_alternative(first)
    if alternative is not None and alternative.token not in {each.token for each in listed}:
        yield alternative


def _read_alternative(value: object) -> _Alternative | None:
    """None for what has no token or no number."""
    if not isinstance(value, dict):
        return None
    token, logprob = value.get("token"), value.get("logprob")
    if not isinstance(token, str) or not isinstance(logprob, int | float):
        return None
    if isinstance(logprob, bool):
        return None
    # In this order what is not a number becomes the smallest one.
    return _Alternative(token, float(min(0.0, max(_LOGPROB_MIN, logprob))))
