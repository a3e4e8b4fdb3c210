"""The models that a request names, where the choice among them is left to a router."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from gateway.http.errors import Unavailable
from routing.entities.entries import ModelEntry, Snapshot
from routing.formats.chat.request import ChatRequest
from routing.metering.usage import Usage
from routing.planning import candidates
from routing.planning.admission_errors import MODELS_STEP, NoModels, no_model_error
from routing.planning.candidates import read_requirements, resolve_references
from routing.selection.price_bands import PriceIndex
from routing.selection.select import select
from routing.selection.types import NO_POLICY, NOTHING_LEARNED, Policy, Resolution
from routing.serving.request import stickiness
from routing.serving.request.stickiness import Conversation
from tests.routing.formats.chat_bodies import parse_fields
from tests.routing.selection.entries import endpoint, model
from tests.routing.selection.snapshots import snapshot
from tests.routing.serving.learning import nothing_learned
from tests.support.promptness import in_time
from tests.support.turns import stretches_of

ACCOUNT = UUID(int=1)
FREE = {"prompt": "0", "completion": "0"}
# Nobody is to wait longer for a turn.
HELD_S = 0.02
MODELS = 2000


@pytest.fixture
def stretches(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The CPU time from one turn of the others to the next."""
    return stretches_of(candidates, monkeypatch, clock=time.process_time)


@pytest.fixture(scope="module")
def large() -> Snapshot:
    """2,000 models that cost nothing, with five endpoints each."""
    models = [
        model(*[endpoint(f"p{at}", pricing=FREE) for at in range(5)], id=f"a/m{n}")
        for n in range(MODELS)
    ]
    found = snapshot(models)
    found.derive(PriceIndex)
    return found


def conversation(
    reference: str, session: str | None = None, **body: Any
) -> tuple[ChatRequest, Conversation]:
    named = {"session_id": session} if session else {}
    chat = parse_fields(model=reference, **named, **body)
    return chat, Conversation(chat, account_id=ACCOUNT, model=reference)


def resolve_for(
    catalogue: Snapshot, reference: str, policy: Policy, session: str | None = None, **body: Any
) -> Resolution:
    """As a request of that session resolves it."""
    chat, talk = conversation(reference, session, **body)
    draws: dict[str, Any] = {"sticky_model": talk.model_id(), "random": talk.random(b"model")}
    return resolve_references(
        catalogue, [reference], chat, read_requirements(chat), policy=lambda _: policy, **draws
    )


# Each leaves nothing, at another step.
NARROW = [
    Policy(only=("nobody",)),
    Policy(ignore=tuple(f"p{n}" for n in range(5))),
    Policy(quantizations=frozenset({"int4"}), zdr=True),
    Policy(require_parameters=True, ignore=("p0", "p1", "p2", "p3"), only=("p0",)),
]


@pytest.mark.parametrize("reference", ["router/auto", "router/free"])
@pytest.mark.parametrize("policy", NARROW)
def test_preferences_that_leave_nothing_of_a_large_catalogue_hold_nobody_up(
    large: Snapshot, stretches: list[float], reference: str, policy: Policy
) -> None:
    found = resolve_for(large, reference, policy)
    assert found.models == ()
    assert len(found.pool) == MODELS
    error = no_model_error(reference, found.pool, read_requirements(parse_fields()), policy)
    assert isinstance(error, NoModels)
    assert error.metadata["available_providers"] == ["p0", "p1", "p2", "p3", "p4"]
    # Once for the choice and once for its explanation.
    assert len(stretches) >= 2 * MODELS * 5 // 400
    in_time(max(stretches), HELD_S)


def down(tag: str) -> ModelEntry:
    return model(endpoint(tag, status=-3), id=f"a/{tag}")


def test_the_step_is_the_one_that_took_the_last_endpoint() -> None:
    ask = read_requirements(
        parse_fields(tools=[{"type": "function", "function": {"name": "look"}}])
    )
    plain = model(endpoint("alpha", supported_parameters=frozenset()), id="a/plain")
    able = model(endpoint("beta"), endpoint("gamma"), id="a/able")

    def error_of(*pool: ModelEntry, **policy: Any) -> Any:
        return no_model_error("router/auto", pool, ask, Policy(**policy))

    assert error_of(plain).metadata["failed_routing_step"] == "Filter by Tool Compatibility"
    # Tools come after the lists, which had left the first one.
    both = error_of(plain, able, only=("alpha",))
    assert both.metadata["failed_routing_step"] == "Filter by Tool Compatibility"
    assert both.metadata["requested_providers"] == ["alpha"]
    strict = error_of(able, zdr=True, ignore=("beta",))
    assert strict.metadata["failed_routing_step"] == "Filter by Zero Data Retention"
    assert strict.metadata["available_providers"] == ["beta", "gamma"]
    nobody: dict[str, Any] = {"available_providers": [], "requested_providers": []}
    assert error_of().metadata == {"failed_routing_step": MODELS_STEP, **nobody}


def test_models_of_which_all_is_down_are_another_matter() -> None:
    ask = read_requirements(parse_fields())
    pool = [down("alpha"), down("beta")]
    assert isinstance(no_model_error("router/auto", pool, ask, NO_POLICY), Unavailable)
    assert isinstance(no_model_error("router/auto", pool, ask, Policy(only=("x",))), NoModels)


def test_an_endpoint_of_a_tier_is_not_chosen_for_being_named() -> None:
    fast = model(endpoint("alpha/priority", tier="priority"), id="a/fast")
    error = no_model_error(
        "auto", [fast], read_requirements(parse_fields()), Policy(only=("alpha/priority",))
    )
    assert error.metadata["failed_routing_step"] == "Filter by Service Tier"


@pytest.fixture
def _as_new() -> Iterator[None]:
    with nothing_learned():
        yield


@pytest.fixture(scope="module")
def free() -> Snapshot:
    """Ten models of two endpoints that cost nothing."""
    return snapshot(
        model(endpoint("p", pricing=FREE), endpoint("q", pricing=FREE), id=f"a/m{n}")
        for n in range(10)
    )


def choose_endpoint(catalogue: Snapshot, session: str | None = None) -> tuple[str, str]:
    """Model and tag that a request of the session begins with."""
    found = resolve_for(catalogue, "router/free", NO_POLICY, session)
    chat, talk = conversation("router/free", session)
    talk.key(found.models)
    plan = select(
        found.models, read_requirements(chat), NO_POLICY, NOTHING_LEARNED, random=talk.random()
    )
    return plan.order[0].model_id, plan.order[0].tag


@pytest.mark.usefixtures("_as_new")
def test_processes_that_know_of_no_record_draw_a_session_s_free_model_alike(free: Snapshot) -> None:
    for n in range(20):
        session = f"s{n}"
        assert len({choose_endpoint(free, session) for _ in range(5)}) == 1
    assert len({choose_endpoint(free) for _ in range(100)}) > 5


@pytest.mark.usefixtures("_as_new")
def test_sessions_are_spread_over_models_and_endpoints_evenly(free: Snapshot) -> None:
    counted = Counter(choose_endpoint(free, f"s{n}") for n in range(4000))
    # 200 each; five standard deviations of a fair draw. Were the two draws one, half were empty.
    assert len(counted) == 20
    assert all(130 < number < 270 for number in counted.values())


@pytest.mark.usefixtures("_as_new")
def test_a_session_stays_with_the_free_model_that_answered(free: Snapshot) -> None:
    first, _ = choose_endpoint(free, "one")
    other = next(each for each in free.listing if each.id != first)
    key = conversation("router/free", "one")[1].key(())
    stickiness.remember(key, other.endpoints[1], Usage(1, 1))
    assert resolve_for(free, "router/free", NO_POLICY, "one").models[0] is other
