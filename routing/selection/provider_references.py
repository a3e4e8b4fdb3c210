"""Provider references: a provider's slug or display name, or an endpoint's full slug.

References ignore case; one that matches nothing is no error. Callers may send long lists, so each
list becomes a set once per request.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from routing.entities.entries import EndpointEntry

Test: TypeAlias = Callable[[EndpointEntry], bool]


def keys_of(references: Iterable[str]) -> frozenset[str]:
    """The references in the form in which they are compared."""
    return frozenset([reference.casefold() for reference in references])


def matches(reference: str, endpoint: EndpointEntry) -> bool:
    """Whether a reference names this endpoint. A base slug or a display name stands for every
    endpoint of the provider except those of a service tier, which need their full slug."""
    key = reference.casefold()
    if endpoint.tag_key == key:
        return True
    return endpoint.tier == "default" and key in endpoint.provider.names


def means_endpoint(keys: frozenset[str], endpoint: EndpointEntry) -> bool:
    """Whether one of the keys names the endpoint, or its provider whatever the tier."""
    return endpoint.tag_key in keys or not keys.isdisjoint(endpoint.provider.names)


def reference_test(references: Iterable[str], admitted: Test) -> Test:
    """A test whether one of the references names an endpoint. A provider's name stands for an
    endpoint of a service tier only if `admitted` says that the tier is open to the request."""
    keys = keys_of(references)

    def test(endpoint: EndpointEntry) -> bool:
        if endpoint.tag_key in keys:
            return True
        return not keys.isdisjoint(endpoint.provider.names) and admitted(endpoint)

    return test
