"""How questions are put into calls to one endpoint, and whose fault it is when one is blamed."""

from dataclasses import replace
from typing import Any

import pytest

from routing.serving.deciding.agenda import Agenda, Errand
from tests.routing.selection.entries import endpoint

NOUL: dict[str, Any] = {"type": "noul", "instructions": "?"}
SIX = {"type": "choice", "instructions": "?", "criteria": dict.fromkeys("abcdef")}


def errands(
    questions: dict[str, Any], *, most: int | None = None, options: int | None = None
) -> list[Errand]:
    agenda = Agenda({"state": "s", "questions": questions}, [])
    native = endpoint()
    limits: dict[str, Any] = {"decisions_max_questions": most, "decisions_max_options": options}
    provider = replace(native.provider, kind="decisions")
    return agenda.errands(replace(native, provider=provider, decides="native", **limits))


def test_questions_keep_their_names_and_pieces_get_others() -> None:
    [errand] = errands({"0": NOUL, "team": SIX, "2": NOUL}, options=4)

    assert list(errand.parts) == ["0", "1", "3", "4", "2"]
    assert errand.split == {"1", "3", "4"}
    assert not errand.is_whole


def test_calls_of_several_questions_are_of_the_caller_s_own() -> None:
    made = errands({f"q{n}": NOUL for n in range(5)}, most=2)

    assert [list(each.parts) for each in made] == [["q0", "q1"], ["q2", "q3"], ["q4"]]
    assert not any(each.split or each.is_whole for each in made)
    [whole] = errands({"a": NOUL, "b": NOUL}, most=2)
    assert whole.is_whole


@pytest.mark.parametrize(
    ("options", "blamed", "is_of_caller"),
    [
        (None, {"q"}, True),
        (None, {"unknown"}, True),
        (None, {None}, True),
        (None, set(), True),
        (4, {"q"}, True),
        (4, {"0"}, False),
        (4, {"0", "q"}, True),
        (4, {"unknown"}, False),
        (4, {None}, False),
        (4, set(), False),
    ],
)
def test_whose_fault_it_is(options: int | None, blamed: Any, is_of_caller: bool) -> None:
    [errand] = errands({"q": NOUL, "team": SIX}, options=options)

    assert errand.is_of_caller(frozenset(blamed)) is is_of_caller
