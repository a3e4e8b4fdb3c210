"""What a request is told of the past: its conversation, the standing, whose turn a probe is."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from routing.metering.usage import Usage
from routing.selection.ask import ALL_WELL, NO_POLICY, Plan, Policy
from routing.serving import process, stickiness
from routing.serving.learned import Conversation, may_go_on, state_for
from tests.routing.formats.chat_bodies import accepted
from tests.routing.selection.entries import endpoint, model
from tests.routing.serving.learning import nothing_learned

ACCOUNT = UUID(int=1)
CACHED = {"prompt": "0.000001", "completion": "0.000002", "input_cache_read": "0.0000001"}
ALPHA, BETA = endpoint("alpha"), endpoint("beta", pricing=CACHED)
MODELS = (model(ALPHA, BETA),)
ENDPOINTS = {each.tag: each for each in MODELS[0].endpoints}
USED_CACHE = Usage(prompt_tokens=10, completion_tokens=5, cached_tokens=8)


@pytest.fixture(autouse=True)
def _as_new() -> Iterator[None]:
    with nothing_learned():
        yield


def conversation(session: str | None = None, **fields: Any) -> Conversation:
    body = {"session_id": session} if session else {}
    return Conversation(accepted(**body, **fields), account_id=ACCOUNT, model="acme/small")


def sticky(talk: Conversation, policy: Policy = NO_POLICY) -> tuple[str | None, bool]:
    """The tag of the sticky endpoint, and whether a session names the conversation."""
    state = state_for(talk, MODELS, policy)
    tags = {each.pk: each.tag for each in MODELS[0].endpoints}
    return (None if state.sticky is None else tags[state.sticky]), state.sticky_by_session


def test_a_session_is_led_back_to_who_served_it() -> None:
    stickiness.remember(conversation("one").key(MODELS), ENDPOINTS["alpha"], Usage(1, 1))

    assert sticky(conversation("one")) == ("alpha", True)
    assert sticky(conversation("two")) == (None, True)
    assert sticky(conversation()) == (None, False)


def test_a_conversation_without_a_name_is_led_back_to_a_cache() -> None:
    stickiness.remember(conversation().key(MODELS), ENDPOINTS["beta"], USED_CACHE)

    assert sticky(conversation()) == ("beta", False)
    assert sticky(conversation(messages=[{"role": "user", "content": "other"}])) == (None, False)


@pytest.mark.parametrize(
    ("policy", "session", "led"),
    [
        (Policy(order=("beta",)), "one", False),
        (Policy(sort="price", sort_named=True), "one", True),
        (Policy(sort="price", sort_named=True), None, False),
        (Policy(sort="price"), None, True),
    ],
)
def test_it_is_not_asked_for_where_it_makes_no_difference(
    policy: Policy, session: str | None, led: bool
) -> None:
    stickiness.remember(conversation(session).key(MODELS), ENDPOINTS["beta"], USED_CACHE)

    assert sticky(conversation(session), policy)[0] == ("beta" if led else None)


def test_a_virtual_router_is_told_the_model() -> None:
    stickiness.remember(conversation("one").key(), ENDPOINTS["alpha"], Usage(1, 1))

    assert conversation("one").model_id() == "acme/small"
    assert conversation("two").model_id() is None


def test_the_draws_of_a_session_are_the_same_everywhere() -> None:
    def draws(session: str | None) -> list[float]:
        talk = conversation(session)
        talk.key(MODELS)
        random = talk.random()
        return [random() for _ in range(3)]

    assert draws("one") == draws("one") != draws("two")
    assert draws(None) != draws(None)


def test_the_standing_is_that_of_this_moment() -> None:
    assert state_for(conversation(), MODELS, NO_POLICY).standing is ALL_WELL

    process.health().failed(ALPHA.pk, process.now())

    assert state_for(conversation(), MODELS, NO_POLICY).standing.unstable == {ALPHA.pk}


def test_one_request_of_all_sends_the_probe() -> None:
    health, now = process.health(), process.now()
    health.failed(ALPHA.pk, now - 10_000)
    assert health.standing(now).half_open == {ALPHA.pk}
    plan = Plan((ALPHA, BETA), (), (ALPHA, BETA), probe=ALPHA.pk)

    assert may_go_on(plan)

    assert health.standing(process.now()).unstable == {ALPHA.pk}
    assert may_go_on(Plan((ALPHA,), (), (ALPHA,), probe=ALPHA.pk))
    assert may_go_on(Plan((BETA,), (), (BETA,)))
