"""Provider references (inference reference 7.2): a slug, an endpoint's full slug, a display name.

Case makes no difference, and a reference that nothing answers to is no error. Lists of references
come from callers and may be long, so they are turned into sets once for each request.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from routing.entities.entries import EndpointEntry

Test: TypeAlias = Callable[[EndpointEntry], bool]


def keys_of(references: Iterable[str]) -> frozenset[str]:
    """The references as they are compared."""
    return frozenset([reference.casefold() for reference in references])


def matches(reference: str, endpoint: EndpointEntry) -> bool:
    """Whether a reference means this endpoint. A base slug or a display name means every endpoint
    of the provider but those of a service tier, which need their full slug."""
    key = reference.casefold()
    if endpoint.tag_key == key:
        return True
    return endpoint.tier == "default" and key in endpoint.provider.names


def names(keys: frozenset[str], endpoint: EndpointEntry) -> bool:
    """Whether one of the keys means the endpoint, or its provider whatever the tier."""
    return endpoint.tag_key in keys or not keys.isdisjoint(endpoint.provider.names)


def naming(references: Iterable[str], admitted: Test) -> Test:
    """Whether one of the references means an endpoint. Those of a service tier go by their
    provider's name as well where they are `admitted`: the tier is open to the request."""
    keys = keys_of(references)

    def test(endpoint: EndpointEntry) -> bool:
        if endpoint.tag_key in keys:
            return True
        return not keys.isdisjoint(endpoint.provider.names) and admitted(endpoint)

    return test
