"""Questions and log-probabilities as tests write them."""

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

from routing.decisions.question import YES_NO, TypedQuestion


def noul(*criteria: Any) -> TypedQuestion:
    return TypedQuestion("noul", "Is it urgent?", YES_NO, criteria or (None, None))


def choice(*labels: str, **described: Any) -> TypedQuestion:
    names = (*labels, *described)
    return TypedQuestion(
        "choice", "Which queue?", names, tuple(described.get(each) for each in names)
    )


def score(*levels: Any) -> TypedQuestion:
    names = tuple(map(str, range(len(levels))))
    return TypedQuestion("score", "How angry?", names, levels)


def logprobs(tokens: Mapping[str, float] | Sequence[tuple[str, float]]) -> dict[str, Any]:
    """Of a one-token answer whose alternatives have these probabilities, the first was said."""
    pairs = tokens.items() if isinstance(tokens, Mapping) else tokens
    top = [{"token": token, "logprob": log(share)} for token, share in pairs]
    return {"content": [{**top[0], "top_logprobs": top}]}
