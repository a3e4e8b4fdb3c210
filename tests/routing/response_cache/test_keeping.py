"""Which requests have a cache, and which of their answers are kept."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.jsonio import dumps
from routing.response_cache.cache_options import CacheOptions
from routing.response_cache.entry import BODY_CHARS_MAX, is_small
from routing.serving.request.loop import Loop
from routing.tools.toolbox import Toolbox
from routing.views import answer_reuse
from routing.views.answer_reuse import start_reuse
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import attempt_at, call_to


def talk(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text} for text in texts]


WISH = CacheOptions(60, clears=False)
SMALL = [talk("Hi"), talk("x" * (BODY_CHARS_MAX - 1_000))]
LARGE = [talk("x" * BODY_CHARS_MAX), talk(*["x"] * 50_000)]


@pytest.mark.parametrize(
    ("messages", "has_one"), [*((each, True) for each in SMALL), *((each, False) for each in LARGE)]
)
def test_only_small_requests_have_a_cache(messages: list[dict[str, Any]], has_one: bool) -> None:
    call = call_to(endpoint(), messages=messages)
    assert (start_reuse(call, WISH, call.context.chat.body) is not None) is has_one
    # Also what was made of it counts, and what it was made of.
    small = call_to(endpoint())
    assert (start_reuse(call, WISH, small.context.chat.body) is not None) is has_one
    assert (start_reuse(small, WISH, call.context.chat.body) is not None) is has_one


@pytest.mark.parametrize(
    "value",
    ["x" * BODY_CHARS_MAX, [0] * 40_000, {str(n): 0 for n in range(40_000)}, 1 << 4_000_000],
    ids=["text", "list", "object", "number"],
)
def test_whatever_makes_a_body_large_counts(value: Any) -> None:
    assert not is_small({"deep": [{"in": value}]})


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=50) | st.integers(), max_size=5))
def test_small_bodies_are_small(body: dict[str, Any]) -> None:
    assert is_small(body)
    assert len(dumps(body)) < BODY_CHARS_MAX


@pytest.mark.parametrize("cut_unpaid", [False, True])
def test_what_was_cut_for_want_of_credits_is_not_kept(
    cut_unpaid: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[str] = []
    monkeypatch.setattr(answer_reuse, "put", lambda name, *_, **__: kept.append(name))
    call = call_to(endpoint())
    call.attempts.append(attempt_at(endpoint()))
    call.loop = Loop(call.context.chat, Toolbox(()))
    call.good_end, call.loop.cut_unpaid = ("length", None), cut_unpaid
    reuse = start_reuse(call, WISH, call.context.chat.body)
    assert reuse is not None
    reuse.record(b"{}")
    reuse.store()
    assert len(kept) == (0 if cut_unpaid else 1)
