"""With whose credential an endpoint is tried, and when (inference reference 7.6 rule 7, management
reference 13): the team's prioritised credentials, the shared ones, the team's fallback ones."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from routing.entities.entries import EndpointEntry
from routing.selection.ask import State, Turn

Places = Mapping[int, tuple[int, ...]]


def turns_of(
    usual: Sequence[EndpointEntry], state: State, *, across_models: bool, sticks: bool
) -> list[Turn]:
    """All tries of these endpoints, which come in the order that they have without credentials of
    a team's own. Within a model (else over all models) own credentials go by their place, endpoints
    of one credential in the usual order.

    A provider without a shared credential is left alone where the team has one for it. With
    `sticks` the best try of the sticky endpoint goes first.
    """
    names = [None if across_models else each.model_id for each in usual]
    last = {name: at for at, name in enumerate(names)}
    groups: dict[str | None, list[EndpointEntry]] = {}
    for name, each in zip(names, usual, strict=True):
        groups.setdefault(name, []).append(each)
    turns: list[Turn] = []
    begun: set[str | None] = set()
    for at, (name, each) in enumerate(zip(names, usual, strict=True)):
        if name not in begun:
            begun.add(name)
            turns += _own(groups[name], state.byok)
        if _is_shared(each, state):
            turns.append(Turn(each))
        if last[name] == at:
            turns += _own(groups[name], state.byok_fallback)
    return _sticky_first(turns, state) if sticks else turns


def _own(group: Sequence[EndpointEntry], places: Places) -> list[Turn]:
    found = chain.from_iterable(_turns_at(each, places) for each in group)
    return sorted(found, key=lambda turn: turn.own or 0)


def _turns_at(endpoint: EndpointEntry, places: Places) -> Iterator[Turn]:
    return (Turn(endpoint, place) for place in places.get(endpoint.pk, ()))


def _is_shared(endpoint: EndpointEntry, state: State) -> bool:
    """Whether there is a try that is not the team's: a server without a key may need none."""
    if endpoint.pk in state.unshared:
        return False
    brought = endpoint.pk in state.byok or endpoint.pk in state.byok_fallback
    return endpoint.provider.credential is not None or not brought


def is_open(endpoint: EndpointEntry, state: State) -> bool:
    """Whether there is a try at all: not where the team wants its own alone and has none for it."""
    if endpoint.pk not in state.unshared:
        return True
    return endpoint.pk in state.byok or endpoint.pk in state.byok_fallback


def _sticky_first(turns: list[Turn], state: State) -> list[Turn]:
    for at, (endpoint, own) in enumerate(turns):
        if endpoint.pk == state.sticky:
            is_last_resort = own is not None and own in state.byok_fallback.get(endpoint.pk, ())
            return turns if is_last_resort else [turns[at], *turns[:at], *turns[at + 1 :]]
    return turns
