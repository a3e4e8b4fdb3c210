"""With whose credential endpoints are tried: own ones, the shared one, own fallback ones last."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from routing.catalogue.entries import EndpointEntry
from routing.selection.ask import Policy, Standing, State, Turn
from routing.selection.select import OWN_CREDENTIALS, select
from routing.selection.turns import turns_of
from tests.routing.selection.entries import endpoint, model
from tests.routing.selection.markets import CHAT, priced

Places = dict[int, tuple[int, ...]]


def sold(tag: str, total: str = "0.000002", *, shared: bool = True, **changes: Any) -> Any:
    """An endpoint whose provider the operator has a key for, or not."""
    made = priced(tag, total, **changes)
    return replace(made, provider=replace(made.provider, credential="k" if shared else None))


CHEAP, DEAR = sold("a", "0.000001"), sold("b", "0.000003")
OTHER = sold("c", "0.000002", model_id="acme/other")


def told(turns: Sequence[Turn]) -> str:
    """`b0 a b2`: tags, each with its own credential's place where it is not the shared one."""
    return " ".join(f"{turn.endpoint.tag}{'' if turn.own is None else turn.own}" for turn in turns)


def tried(*known: EndpointEntry, fallback: Places | None = None, **said: Any) -> str:
    names = ("byok", "standing", "sticky", "unshared")
    learned = {name: said.pop(name) for name in names if name in said}
    state = State(byok_fallback=fallback or {}, **learned)
    models = [model(*[e for e in known if e.model_id == id], id=id) for id in _ids(known)]
    policy = Policy(**said)
    return told(select(models, CHAT, policy, state, random=lambda: 0.0).tries)


def _ids(known: Sequence[EndpointEntry]) -> list[str]:
    return list(dict.fromkeys(each.model_id for each in known))


def test_without_own_credentials_every_endpoint_has_one_turn() -> None:
    assert tried(CHEAP, DEAR) == "a b"


def test_own_credentials_come_first_by_their_place_then_the_shared_in_usual_order() -> None:
    assert tried(CHEAP, DEAR, byok={DEAR.pk: (0,)}) == "b0 a b"
    assert tried(CHEAP, DEAR, byok={DEAR.pk: (0, 2), CHEAP.pk: (1,)}) == "b0 a1 b2 a b"


def test_an_endpoint_that_is_not_shared_has_own_turns_or_none() -> None:
    assert tried(CHEAP, DEAR, byok={DEAR.pk: (0,)}, unshared={DEAR.pk}) == "b0 a"
    assert tried(CHEAP, DEAR, fallback={DEAR.pk: (0,)}, unshared={DEAR.pk}) == "a b0"
    assert tried(CHEAP, DEAR, unshared={CHEAP.pk}) == "b"

    state = State(unshared=frozenset({CHEAP.pk}))
    plan = select([model(CHEAP)], CHAT, Policy(), state, random=lambda: 0.0)
    assert (plan.order, plan.failed_step) == ((), OWN_CREDENTIALS)
    assert [(each.endpoint.tag, each.step) for each in plan.removed] == [("a", OWN_CREDENTIALS)]


def test_one_credential_goes_through_its_endpoints_in_usual_order() -> None:
    assert tried(DEAR, CHEAP, byok={DEAR.pk: (0,), CHEAP.pk: (0,)}) == "a0 b0 a b"


def test_fallback_credentials_come_last() -> None:
    fallback: Places = {CHEAP.pk: (1,), DEAR.pk: (0,)}
    assert tried(CHEAP, DEAR, fallback=fallback) == "a b b0 a1"
    assert tried(CHEAP, DEAR, byok={CHEAP.pk: (0,)}, fallback={CHEAP.pk: (1,)}) == "a0 a b a1"


def test_whatever_order_and_sort_say() -> None:
    assert tried(CHEAP, DEAR, byok={DEAR.pk: (0,)}, order=("a",)) == "b0 a b"
    assert tried(CHEAP, DEAR, byok={DEAR.pk: (0,)}, sort="price") == "b0 a b"


def test_they_stay_within_their_model_unless_partitions_are_off() -> None:
    byok: Places = {OTHER.pk: (0,)}
    assert tried(CHEAP, DEAR, OTHER, byok=byok) == "a b c0 c"
    assert tried(CHEAP, DEAR, OTHER, byok=byok, across_models=True) == "c0 a c b"
    assert tried(CHEAP, OTHER, fallback={CHEAP.pk: (0,)}) == "a a0 c"


def test_data_policies_filter_first() -> None:
    leaky = sold("d", collects_data=True)
    assert tried(CHEAP, leaky, byok={leaky.pk: (0,)}, deny_data_collection=True) == "a"


def test_a_sticky_endpoint_s_best_turn_goes_first() -> None:
    assert tried(CHEAP, DEAR, byok={DEAR.pk: (0,)}, sticky=CHEAP.pk) == "a b0 b"
    both: Places = {CHEAP.pk: (1,), DEAR.pk: (0,)}
    assert tried(CHEAP, DEAR, byok=both, sticky=CHEAP.pk) == "a1 b0 a b"
    unshared = sold("d", shared=False)
    last: Places = {unshared.pk: (0,)}
    assert tried(CHEAP, unshared, fallback=last, sticky=unshared.pk) == "a d0"


def test_without_fallbacks_the_one_endpoint_keeps_its_turns() -> None:
    byok: Places = {DEAR.pk: (0,)}
    assert tried(CHEAP, DEAR, byok=byok, allow_fallbacks=False) == "b0 b"


def test_a_provider_without_a_shared_credential_is_tried_with_the_team_s_alone() -> None:
    unshared = sold("d", "0.000001", shared=False)
    assert tried(unshared, DEAR, byok={unshared.pk: (0,)}) == "d0 b"
    # A server of one's own may need no key.
    assert tried(unshared, DEAR) == "d b"


def test_an_own_credential_probes_nothing_for_others() -> None:
    state = State(
        standing=Standing(half_open=frozenset({CHEAP.pk})),
        byok={CHEAP.pk: (0,)},
    )
    plan = select([model(CHEAP)], CHAT, Policy(), state, random=lambda: 0.0)
    assert (told(plan.tries), plan.probe) == ("a0 a", None)


MODELS = ("acme/a", "acme/b", "acme/c")


@st.composite
def scenes(draw: Any) -> tuple[list[EndpointEntry], State, bool]:
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
    return usual, State(byok=own, byok_fallback=last, sticky=sticky), draw(st.booleans())


@given(scenes(), st.booleans())
def test_every_try_is_there_once_and_in_the_order_of_the_rules(
    scene: tuple[list[EndpointEntry], State, bool], sticks: bool
) -> None:
    usual, state, across = scene
    sticks = sticks and state.sticky is not None

    turns = turns_of(usual, state, across_models=across, sticks=sticks)

    plain = turns_of(usual, state, across_models=across, sticks=False)
    assert sorted(map(repr, turns)) == sorted(map(repr, plain))
    for name in [None] if across else MODELS:
        group = [each for each in usual if name in (None, each.model_id)]
        mine = [turn for turn in plain if name in (None, turn.endpoint.model_id)]
        assert mine == _expected(group, state)
    if sticks and turns != plain:
        assert turns[0].endpoint.pk == state.sticky
        assert [turn for turn in plain if turn != turns[0]] == turns[1:]


def _expected(group: list[EndpointEntry], state: State) -> list[Turn]:
    """The rule as it is written, for one model: no clever walk over what others have."""
    own = [Turn(e, place) for place in range(4) for e in group if place in _at(state.byok, e)]
    last = [
        Turn(e, place) for place in range(4) for e in group if place in _at(state.byok_fallback, e)
    ]
    brought = {turn.endpoint for turn in own + last}
    shared = [Turn(e) for e in group if e.provider.credential or e not in brought]
    return own + shared + last


def _at(places: Any, each: EndpointEntry) -> tuple[int, ...]:
    found: tuple[int, ...] = places.get(each.pk, ())
    return found
