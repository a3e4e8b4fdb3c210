"""The credentials with which endpoints are tried, and their order: the team's prioritised ones,
then the shared ones, then the team's fallback ones."""

from collections.abc import Mapping, Sequence
from itertools import chain

from routing.entities.entries import EndpointEntry
from routing.selection.types import Candidate, EndpointState

Places = Mapping[int, tuple[int, ...]]


def list_candidates(
    usual: Sequence[EndpointEntry], state: EndpointState, *, across_models: bool, sticks: bool
) -> list[Candidate]:
    """All candidates of these endpoints; `usual` is the order without own credentials.

    Within a model (or over all models) own credentials go by their place, and endpoints of one
    credential in the usual order. A provider without a shared credential is tried with the team's
    credentials only, if there are any. With `sticks` the best candidate of the sticky endpoint
    goes first.
    """
    names = [None if across_models else each.model_id for each in usual]
    last = {name: at for at, name in enumerate(names)}
    groups: dict[str | None, list[EndpointEntry]] = {}
    for name, each in zip(names, usual, strict=True):
        groups.setdefault(name, []).append(each)
    candidates: list[Candidate] = []
    begun: set[str | None] = set()
    for at, (name, each) in enumerate(zip(names, usual, strict=True)):
        if name not in begun:
            begun.add(name)
            candidates += _own_candidates(groups[name], state.byok)
        if _is_shared(each, state):
            candidates.append(Candidate(each))
        if last[name] == at:
            candidates += _own_candidates(groups[name], state.byok_fallback)
    return _put_sticky_first(candidates, state) if sticks else candidates


def _own_candidates(group: Sequence[EndpointEntry], places: Places) -> list[Candidate]:
    found = chain.from_iterable(
        (Candidate(each, place) for place in places.get(each.pk, ())) for each in group
    )
    return sorted(found, key=lambda candidate: candidate.own or 0)


def _is_shared(endpoint: EndpointEntry, state: EndpointState) -> bool:
    """Whether the endpoint may be tried without the team's credentials. A server without a key may
    need none."""
    if endpoint.pk in state.unshared:
        return False
    brought = endpoint.pk in state.byok or endpoint.pk in state.byok_fallback
    return endpoint.provider.credential is not None or not brought


def has_candidate(endpoint: EndpointEntry, state: EndpointState) -> bool:
    """Whether there is any candidate: an unshared endpoint needs a credential of the team's."""
    if endpoint.pk not in state.unshared:
        return True
    return endpoint.pk in state.byok or endpoint.pk in state.byok_fallback


def _put_sticky_first(candidates: list[Candidate], state: EndpointState) -> list[Candidate]:
    for at, (endpoint, own) in enumerate(candidates):
        if endpoint.pk == state.sticky:
            is_last_resort = own is not None and own in state.byok_fallback.get(endpoint.pk, ())
            return (
                candidates
                if is_last_resort
                else [candidates[at], *candidates[:at], *candidates[at + 1 :]]
            )
    return candidates
