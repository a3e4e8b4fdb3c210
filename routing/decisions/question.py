"""A question as it is asked, and the distribution that answers it."""

from typing import Any, Final, Literal, NamedTuple

from gateway.http.jsonio import dumps

Kind = Literal["noul", "choice", "score"]
# What a noul's answer is one of; the first is what its number speaks of.
YES_NO: Final = ("yes", "no")


class NoAnswer(Exception):
    """What came back answers nothing; the text says why."""


class Question(NamedTuple):
    """`labels` are what the answer is one of: yes and no, the caller's own, or the numbers of the
    levels. `criteria` describe them, one each: text, object or array, None where nothing is said.
    """

    kind: Kind
    instructions: Any
    labels: tuple[str, ...]
    criteria: tuple[Any, ...]


class Judged(NamedTuple):
    """A distribution over the labels of a question: a probability each, which sum to 1.

    `confidence` is an upstream's own, None where it has to be worked out; `label_mass` is the share
    of the probability that fell on labels at all, None where that is not known.
    """

    probabilities: tuple[float, ...]
    confidence: float | None = None
    label_mass: float | None = None


def text_of(value: Any) -> str:
    """What a model reads: text as it is, anything else as compact JSON."""
    return value if type(value) is str else dumps(value).decode()
