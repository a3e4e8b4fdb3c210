"""With whose credential endpoints are tried: own ones, the shared one, own fallback ones last."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.entities.entries import EndpointEntry
from routing.selection.ordering import list_candidates
from routing.selection.select import OWN_CREDENTIALS, select
from routing.selection.types import Candidate, EndpointState, HealthSnapshot, Plan, Policy
from tests.routing.selection.entries import endpoint, model
from tests.routing.selection.markets import CHAT, priced_endpoint


def sold_endpoint(tag: str, total: str = "0.000002", *, shared: bool = True, **changes: Any) -> Any:
    """An endpoint whose provider the operator has a key for, or not."""
    made = priced_endpoint(tag, total, **changes)
    return replace(made, provider=replace(made.provider, credential="k" if shared else None))


CHEAP, DEAR = sold_endpoint("a", "0.000001"), sold_endpoint("b", "0.000003")
OTHER = sold_endpoint("c", "0.000002", model_id="acme/other")


def order_text(turns: Sequence[Candidate]) -> str:
    """`b0 a b2`: tags, each with its own credential's place where it is not the shared one."""
    return " ".join(f"{turn.endpoint.tag}{'' if turn.own is None else turn.own}" for turn in turns)


LEAKY, UNSHARED = (
    sold_endpoint("d", "0.0000015", collects_data=True),
    sold_endpoint("d", shared=False),
)
A, B, C, D, E = CHEAP.pk, DEAR.pk, OTHER.pk, LEAKY.pk, UNSHARED.pk
BOTH, ALL = (CHEAP, DEAR), (CHEAP, DEAR, OTHER)
TRIED: dict[str, list[tuple[Sequence[EndpointEntry], dict[str, Any], str]]] = {
    "own ones come first by their place, then the shared in usual order": [
        (BOTH, {"byok": {B: (0, 2), A: (1,)}}, "b0 a1 b2 a b"),
    ],
    "an endpoint that is not shared has own turns or none": [
        (BOTH, {"byok": {B: (0,)}, "unshared": {B}}, "b0 a"),
        (BOTH, {"byok_fallback": {B: (0,)}, "unshared": {B}}, "a b0"),
        (BOTH, {"unshared": {A}}, "b"),
    ],
    "whatever order and sort say": [
        (BOTH, {"byok": {B: (0,)}, "order": ("a",)}, "b0 a b"),
        (BOTH, {"byok": {B: (0,)}, "sort": "price"}, "b0 a b"),
    ],
    "they stay within their model unless partitions are off": [
        (ALL, {"byok": {C: (0,)}}, "a b c0 c"),
        (ALL, {"byok": {C: (0,)}, "across_models": True}, "c0 a c b"),
        ((CHEAP, OTHER), {"byok_fallback": {A: (0,)}}, "a a0 c"),
    ],
    "data policies filter first": [
        ((CHEAP, LEAKY), {"byok": {D: (0,)}, "deny_data_collection": True}, "a"),
    ],
    "a sticky endpoint's best turn goes first": [
        (BOTH, {"byok": {A: (1,), B: (0,)}, "sticky": A}, "a1 b0 a b"),
        ((CHEAP, UNSHARED), {"byok_fallback": {E: (0,)}, "sticky": E}, "a d0"),
    ],
    "without fallbacks the one endpoint keeps its turns": [
        (BOTH, {"byok": {B: (0,)}, "allow_fallbacks": False}, "b0 b"),
    ],
    "a provider without a shared credential is tried with the team's alone": [
        ((UNSHARED, DEAR), {"byok": {E: (0,)}}, "d0 b"),
        # A server of one's own may need no key.
        ((UNSHARED, DEAR), {}, "d b"),
        ((UNSHARED, DEAR), {"byok": {B: (0,)}}, "b0 d b"),
    ],
}


def plan_of(known: Sequence[EndpointEntry], said: dict[str, Any]) -> Plan:
    ids = dict.fromkeys(each.model_id for each in known)
    models = [model(*[each for each in known if each.model_id == id], id=id) for id in ids]
    learned = {name: value for name, value in said.items() if name in EndpointState._fields}
    wishes = {name: value for name, value in said.items() if name not in learned}
    return select(models, CHAT, Policy(**wishes), EndpointState(**learned), random=lambda: 0.0)


@pytest.mark.parametrize("name", TRIED)
def test_whose_credential_is_tried_when(name: str) -> None:
    for known, said, turns in TRIED[name]:
        assert order_text(plan_of(known, said).candidates) == turns, said


def test_where_only_own_credentials_may_be_used_and_none_are_there_nothing_is_tried() -> None:
    plan = plan_of([CHEAP], {"unshared": {A}})

    assert (plan.order, plan.failed_step) == ((), OWN_CREDENTIALS)
    assert [(each.endpoint.tag, each.step) for each in plan.removed] == [("a", OWN_CREDENTIALS)]


def test_an_own_credential_probes_nothing_for_others() -> None:
    plan = plan_of([CHEAP], {"health": HealthSnapshot(half_open=frozenset({A})), "byok": {A: (0,)}})

    assert (order_text(plan.candidates), plan.probe) == ("a0 a", None)


MODELS = ("acme/a", "acme/b", "acme/c")


@st.composite
def scenes(draw: Any) -> tuple[list[EndpointEntry], EndpointState, bool]:
    """Endpoints of up to three models in any order, and credentials at any of them."""
    names = draw(st.lists(st.sampled_from(MODELS), min_size=1, max_size=6))
    shared = st.sampled_from(["k", None])
    usual = []
    for at, name in enumerate(names):
        made = endpoint(f"p{at}", model_id=name)
        usual.append(replace(made, provider=replace(made.provider, credential=draw(shared))))
    some = st.lists(st.integers(0, 3), unique=True, max_size=3).map(sorted).map(tuple)
    own, last = ({e.pk: p for e in usual if (p := draw(some))} for _ in range(2))
    sticky = draw(st.sampled_from([None, *[each.pk for each in usual]]))
    return usual, EndpointState(byok=own, byok_fallback=last, sticky=sticky), draw(st.booleans())


@given(scenes(), st.booleans())
def test_every_try_is_there_once_and_in_the_order_of_the_rules(
    scene: tuple[list[EndpointEntry], EndpointState, bool], sticks: bool
) -> None:
    usual, state, across = scene
    sticks = sticks and state.sticky is not None

    turns = list_candidates(usual, state, across_models=across, sticks=sticks)

    plain = list_candidates(usual, state, across_models=across, sticks=False)
    assert sorted(map(repr, turns)) == sorted(map(repr, plain))
    for name in [None] if across else MODELS:
        group = [each for each in usual if name in (None, each.model_id)]
        mine = [turn for turn in plain if name in (None, turn.endpoint.model_id)]
        assert mine == _list_expected(group, state)
    if sticks and turns != plain:
        assert turns[0].endpoint.pk == state.sticky
        assert [turn for turn in plain if turn != turns[0]] == turns[1:]


def _list_expected(group: list[EndpointEntry], state: EndpointState) -> list[Candidate]:
    """The rule as it is written, for one model: no clever walk over what others have."""

    def list_credentials(places: Mapping[int, tuple[int, ...]]) -> list[Candidate]:
        return [Candidate(e, at) for at in range(4) for e in group if at in places.get(e.pk, ())]

    own, last = list_credentials(state.byok), list_credentials(state.byok_fallback)
    with_own = {turn.endpoint for turn in own + last}
    shared = [Candidate(e) for e in group if e.provider.credential or e not in with_own]
    return own + shared + last
