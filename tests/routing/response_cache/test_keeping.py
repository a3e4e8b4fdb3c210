"""Which requests have a cache, and which of their answers are kept."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.jsonio import dumps
from routing.history.content_draft import ContentDraft
from routing.metering.cost import FREE
from routing.metering.usage import Usage
from routing.response_cache.cache_options import CacheOptions
from routing.response_cache.cached_answers import BODY_CHARS_MAX, is_small
from routing.serving.request.context import RequestProgress
from routing.serving.request.legs import Leg
from routing.serving.request.loop import Loop
from routing.serving.request.rescue import Rescue
from routing.tools.toolbox import Toolbox
from routing.views import answer_reuse
from routing.views.answer_reuse import start_reuse
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import attempt_at, call_to, failed_at


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


@pytest.fixture
def stored_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is kept."""
    stored_names: list[str] = []
    monkeypatch.setattr(answer_reuse, "put", lambda name, *_, **__: stored_names.append(name))
    return stored_names


def answer(call: RequestProgress) -> None:
    """Answer it in full, for others too."""
    call.attempts.append(attempt_at(endpoint()))
    call.good_end = call.good_end or ("stop", None)
    reuse = start_reuse(call, WISH, call.context.chat.body)
    assert reuse is not None
    reuse.record(b"{}")
    reuse.store()


@pytest.mark.parametrize("cut_unpaid", [False, True])
def test_what_was_cut_for_want_of_credits_is_not_kept(
    cut_unpaid: bool, stored_names: list[str]
) -> None:
    call = call_to(endpoint())
    call.loop = Loop(call.context.chat, Toolbox(()))
    call.good_end, call.loop.cut_unpaid = ("length", None), cut_unpaid
    answer(call)
    assert len(stored_names) == (0 if cut_unpaid else 1)


@pytest.mark.parametrize("breaks", [False, True])
def test_a_stream_of_several_parts_is_not_kept(breaks: bool, stored_names: list[str]) -> None:
    call = call_to(endpoint(), stream=True)
    call.rescue = Rescue(call.context.chat)
    if breaks:
        call.rescue.legs.append(Leg(failed_at(endpoint()), Usage(0, 0), FREE))
    answer(call)
    assert len(stored_names) == (0 if breaks else 1)


@pytest.mark.parametrize(
    ("is_enabled", "logged", "is_shared"),
    [
        (True, (None, None), True),
        # What is to be logged is answered from what was logged, and never from what was not.
        (True, (None, True), False),
        (True, (True, True), True),
        # What only a destination gets is not logged.
        (True, (None, False), True),
        (False, (None, None), False),
    ],
)
def test_which_keys_of_a_workspace_share(
    is_enabled: bool,
    logged: tuple[bool | None, ...],
    is_shared: bool,
    stored_names: list[str],
    settings,
) -> None:
    settings.ROUTER_RESPONSE_CACHE_ENABLED = is_enabled
    workspace = uuid4()
    for key_id, is_logged in enumerate(logged):
        call = call_to(endpoint())
        context = call.context
        caller = replace(context.caller, key_id=key_id, workspace_id=workspace, shares_cache=True)
        call.context = context._replace(caller=caller)
        if is_logged is not None:
            mine = context.generation_id, caller.account_id, context.created_at
            call.content = ContentDraft(*mine, [], 0, 1_000)
            call.content.is_logged = is_logged
        answer(call)
    one, other = stored_names
    assert (one == other) is is_shared
