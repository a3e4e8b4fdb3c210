"""A question with more labels than can be asked about at once, as several that have fewer.

The labels are put into groups: one question asks which group it is, one for each group which of its
members. The probability of a label is that of its group times its own within the group. So all
questions can be asked at the same time.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil
from typing import Final, NamedTuple

from routing.decisions.question import Judgement, TypedQuestion

# With fewer there is no choice.
_LABELS_MIN: Final = 2


class QuestionLimits(NamedTuple):
    """The most options of a choice and levels of a score that can be asked about at once; None
    where there is no such limit."""

    options: int | None = None
    levels: int | None = None


class _Node(NamedTuple):
    """One question of the tree, by its place among the parts. Behind each of its labels stands a
    question on its own, or nothing further."""

    part: int
    behind: "tuple[_Node | None, ...]"


class QuestionSplit(NamedTuple):
    """`parts` are the questions to be asked instead of one."""

    parts: tuple[TypedQuestion, ...]
    root: _Node

    def merge(self, judged: Sequence[Judgement]) -> Judgement:
        """What the answers to the parts come to together."""
        if len(judged) == 1:
            return judged[0]
        shares = list(_list_probabilities(self.root, judged, 1.0))
        total = sum(shares)
        masses = [each.label_mass for each in judged]
        return Judgement(
            tuple(each / total for each in shares),
            label_mass=None if None in masses else _label_mass(self.root, judged),
        )


def split_question(question: TypedQuestion, limits: QuestionLimits) -> QuestionSplit:
    """The question alone where it keeps to the limits."""
    most = {"choice": limits.options, "score": limits.levels}.get(question.kind)
    parts: list[TypedQuestion] = []
    root = _grow(question, max(_LABELS_MIN, most or len(question.labels)), parts)
    return QuestionSplit(tuple(parts), root)


def _grow(question: TypedQuestion, most: int, parts: list[TypedQuestion]) -> _Node:
    count = len(question.labels)
    place = len(parts)
    if count <= most:
        parts.append(question)
        return _Node(place, (None,) * count)
    groups = list(_group_labels(question, min(most, ceil(count / most))))
    parts.append(_ask_for_group(question, groups))
    return _Node(
        place,
        tuple(_grow(group, most, parts) if len(group.labels) > 1 else None for group in groups),
    )


def _group_labels(question: TypedQuestion, number: int) -> Iterator[TypedQuestion]:
    """Neighbours together, in groups of nearly the same size."""
    count = len(question.labels)
    ends = [count * place // number for place in range(number + 1)]
    for start, end in pairwise(ends):
        labels, criteria = question.labels[start:end], question.criteria[start:end]
        if question.kind == "score":
            labels = tuple(map(str, range(end - start)))
        yield question._replace(labels=labels, criteria=criteria)


def _ask_for_group(question: TypedQuestion, groups: Sequence[TypedQuestion]) -> TypedQuestion:
    if question.kind == "score":
        labels = tuple(str(place) for place in range(len(groups)))
        return question._replace(
            labels=labels, criteria=tuple(list(each.criteria) for each in groups)
        )
    labels = tuple(str(place) for place in range(1, len(groups) + 1))
    described = tuple(dict(zip(each.labels, each.criteria, strict=True)) for each in groups)
    return question._replace(labels=labels, criteria=described)


def _list_probabilities(node: _Node, judged: Sequence[Judgement], weight: float) -> Iterator[float]:
    for share, behind in zip(judged[node.part].probabilities, node.behind, strict=True):
        if behind is None:
            yield weight * share
        else:
            yield from _list_probabilities(behind, judged, weight * share)


def _label_mass(node: _Node, judged: Sequence[Judgement]) -> float:
    """The share of the probability that fell on labels, all the way down."""
    here = judged[node.part]
    below = (
        share * (1.0 if behind is None else _label_mass(behind, judged))
        for share, behind in zip(here.probabilities, node.behind, strict=True)
    )
    return (here.label_mass or 0.0) * sum(below)
