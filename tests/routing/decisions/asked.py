"""Questions and log-probabilities as tests write them."""

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

from routing.decisions.question import YES_NO, Question


def noul(*criteria: Any) -> Question:
    return Question("noul", "Is it urgent?", YES_NO, criteria or (None, None))


def choice(*labels: str, **described: Any) -> Question:
    names = (*labels, *described)
    return Question("choice", "Which queue?", names, tuple(described.get(each) for each in names))


def score(*levels: Any) -> Question:
    names = tuple(map(str, range(len(levels))))
    return Question("score", "How angry?", names, levels)


def logprobs(tokens: Mapping[str, float] | Sequence[tuple[str, float]]) -> dict[str, Any]:
    """Of a one-token answer whose alternatives have these probabilities, the first was said."""
    pairs = tokens.items() if isinstance(tokens, Mapping) else tokens
    top = [{"token": token, "logprob": log(share)} for token, share in pairs]
    return {"content": [{**top[0], "top_logprobs": top}]}
