"""Over HTTP: what holds of answers whatever is asked, and in whatever order."""

import random
from typing import Any

import pytest

from tests.conformance.deciding import DecisionsDesk

# By an upstream of decisions with limits, by letters, by numbers, by a mix.
MODELS = ("typesafe/jev-1.13", "acme/small-native", "acme/judge", "acme/numbers", "acme/mixed")
QUESTIONS = 12


def question(dice: random.Random, number: int) -> dict[str, Any]:
    kind = dice.choice(["noul", "choice", "score"])
    asked: dict[str, Any] = {"type": kind, "instructions": f"Question {number} of {dice.random()}"}
    if kind == "choice":
        count = dice.choice([1, 2, 5, 20, 27, 30])
        labels = [f"<option {n}>" for n in range(count)]
        asked["criteria"] = {label: dice.choice([None, "told"]) for label in labels}
    elif kind == "score":
        asked["criteria"] = [f"<level {n}>" for n in range(dice.randint(2, 10))]
    return asked


def turned(asked: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """The same question with its options in another order."""
    if asked["type"] != "choice":
        return asked
    options = list(asked["criteria"].items())
    dice.shuffle(options)
    return asked | {"criteria": dict(options)}


def alike(one: Any, other: Any) -> bool:
    """Answers that say the same; the order of options aside, and digits that no sum keeps."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, float | int):
        return bool(other == pytest.approx(one, abs=1e-9))
    return bool(one == other)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(2))
def test_order_of_questions_and_options_changes_no_answer(
    deciding: DecisionsDesk, model: str, seed: int
) -> None:
    dice = random.Random(seed)
    questions = {f"q{n}": question(dice, n) for n in range(QUESTIONS)}
    names = dice.sample(list(questions), len(questions))

    answers = deciding.answers(questions, model=model)
    shuffled = {name: turned(questions[name], dice) for name in names}
    again = deciding.answers(shuffled, model=model)

    for name in questions:
        assert alike(answers[name], again[name]), name


@pytest.mark.parametrize("model", MODELS)
def test_a_question_alone_is_answered_as_among_others(deciding: DecisionsDesk, model: str) -> None:
    dice = random.Random(7)
    questions = {f"q{n}": question(dice, n) for n in range(QUESTIONS)}

    together = deciding.answers(questions, model=model)

    for name in ("q0", "q5"):
        assert alike(together[name], deciding.answers({name: questions[name]}, model=model)[name])
