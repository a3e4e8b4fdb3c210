"""How questions are put into calls to one endpoint, and whose fault it is when one is blamed."""

from dataclasses import replace
from typing import Any

import pytest

from routing.serving.decisions.plan import DecisionPlan, UpstreamQuery
from tests.routing.selection.entries import endpoint

NOUL: dict[str, Any] = {"type": "noul", "instructions": "?"}
SIX = {"type": "choice", "instructions": "?", "criteria": dict.fromkeys("abcdef")}


def queries(
    *, most: int | None = None, options: int | None = None, **asked: Any
) -> list[UpstreamQuery]:
    native = endpoint(decisions_max_questions=most, decisions_max_options=options)
    provider = replace(native.provider, kind="decisions")
    target = replace(native, provider=provider, decides="native")
    return DecisionPlan({"state": "s", "questions": asked}, []).queries(target)


def test_questions_keep_their_names_and_pieces_get_others() -> None:
    numbered: Any = {"0": NOUL, "team": SIX, "2": NOUL}
    [query] = queries(options=4, **numbered)
    assert list(query.parts) == ["0", "1", "3", "4", "2"]
    assert query.split == {"1", "3", "4"}
    assert not query.is_whole


def test_calls_of_several_questions_are_of_the_caller_s_own() -> None:
    five: Any = {f"q{n}": NOUL for n in range(5)}
    made = queries(most=2, **five)
    assert [list(each.parts) for each in made] == [["q0", "q1"], ["q2", "q3"], ["q4"]]
    assert not any(each.split or each.is_whole for each in made)
    [whole] = queries(most=2, a=NOUL, b=NOUL)
    assert whole.is_whole


@pytest.mark.parametrize(
    ("options", "blamed", "is_of_caller"),
    [
        *((None, blamed, True) for blamed in ({"q"}, {"unknown"}, {None}, set())),
        *((4, blamed, True) for blamed in ({"q"}, {"0", "q"})),
        *((4, blamed, False) for blamed in ({"0"}, {"unknown"}, {None}, set())),
    ],
)
def test_whose_fault_it_is(options: int | None, blamed: Any, is_of_caller: bool) -> None:
    [query] = queries(options=options, q=NOUL, team=SIX)
    assert query.is_of_caller(frozenset(blamed)) is is_of_caller
