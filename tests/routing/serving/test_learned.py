"""What a request is told of the past: its conversation, the standing, whose turn a probe is."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from routing.metering.usage import Usage
from routing.planning.candidates import may_go_on, state_for
from routing.selection.types import NO_POLICY, Plan, Policy
from routing.serving.request import process, stickiness
from routing.serving.request.stickiness import Conversation
from tests.routing.formats.chat_bodies import parse_fields
from tests.routing.selection.entries import endpoint, model
from tests.routing.serving.learning import nothing_learned

CACHED = {"prompt": "0.000001", "completion": "0.000002", "input_cache_read": "0.0000001"}
ALPHA, BETA = endpoint("alpha"), endpoint("beta", pricing=CACHED)
MODELS = (model(ALPHA, BETA),)
TAGS = {each.pk: each.tag for each in MODELS[0].endpoints}
USED_CACHE = Usage(prompt_tokens=10, completion_tokens=5, cached_tokens=8)


@pytest.fixture(autouse=True)
def _as_new() -> Iterator[None]:
    with nothing_learned():
        yield


def talk(session: str | None = None, **fields: Any) -> Conversation:
    body = {"session_id": session} if session else {}
    return Conversation(parse_fields(**body, **fields), account_id=UUID(int=1), model="acme/small")


def sticky(talk: Conversation, policy: Policy = NO_POLICY) -> tuple[str | None, bool]:
    """The tag of the sticky endpoint, and whether a session names the conversation."""
    state = state_for(talk, MODELS, policy)
    return (None if state.sticky is None else TAGS[state.sticky]), state.sticky_by_session


def serve_turn(talk: Conversation, tag: str, usage: Usage = USED_CACHE) -> None:
    (found,) = (each for each in MODELS[0].endpoints if each.tag == tag)
    stickiness.remember(talk.key(MODELS), found, usage)


def test_a_session_is_led_back_to_who_served_it_and_the_nameless_to_a_cache() -> None:
    serve_turn(talk("one"), "alpha", Usage(1, 1))
    assert [sticky(talk(name)) for name in ("one", "two")] == [("alpha", True), (None, True)]
    assert sticky(talk()) == (None, False)
    serve_turn(talk(), "beta")
    assert sticky(talk()) == ("beta", False)
    assert sticky(talk(messages=[{"role": "user", "content": "other"}])) == (None, False)


def test_a_session_that_was_idle_for_too_long_is_worth_what_is_cached_of_it(settings) -> None:
    # Its provider keeps that longer than a conversation is kept for its own sake.
    written = USED_CACHE._replace(cache_write_tokens=2, cache_write_1h_tokens=2)
    serve_turn(talk("one"), "beta", written)
    settings.ROUTER_STICKY_SECONDS = -1

    state = state_for(talk("one"), MODELS, NO_POLICY)

    assert (TAGS[state.sticky or 0], state.sticky_by_session) == ("beta", False)
    assert state.sticky_cache is not None
    assert (state.sticky_cache.tokens, state.sticky_cache.lifetime_s) == (10, 3600)


@pytest.mark.parametrize(
    ("policy", "session", "led"),
    [
        (Policy(order=("beta",)), "one", False),
        (Policy(sort="price", sort_named=True), "one", True),
        (Policy(sort="price", sort_named=True), None, False),
        (Policy(sort="price"), None, True),
    ],
)
def test_it_is_not_asked_for_where_it_makes_no_difference(policy, session, led: bool) -> None:
    serve_turn(talk(session), "beta")
    assert sticky(talk(session), policy)[0] == ("beta" if led else None)


def test_one_request_of_all_sends_the_probe() -> None:
    health, now = process.health(), process.now()
    health.record_failure(ALPHA.pk, now - 10_000)
    assert health.snapshot(now).half_open == {ALPHA.pk}
    assert may_go_on(Plan((ALPHA, BETA), (), (ALPHA, BETA), probe=ALPHA.pk))
    assert health.snapshot(process.now()).unstable == {ALPHA.pk}
    assert may_go_on(Plan((ALPHA,), (), (ALPHA,), probe=ALPHA.pk))
    assert may_go_on(Plan((BETA,), (), (BETA,)))
