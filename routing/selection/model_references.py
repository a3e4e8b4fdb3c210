"""Parsing model references, without a catalogue.

`acme/small:free:nitro` is the entry `acme/small:free` with one dynamic suffix. Static variants
(`:free`, `:extended`, `:thinking`) are entries of their own, so they stay part of the base. Only
the last words of a reference are suffixes; a word that is neither leaves a base that no catalogue
holds.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from routing.entities.entries import EndpointEntry
from routing.selection.types import Sort

# Longer than any name with all of its suffixes. A body may be megabytes of them.
CHARS_MAX: Final = 512
_LATEST: Final = "-latest"

# The virtual routers, and the word that `router_metadata.strategy` has for each.
ROUTERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "router/auto": "auto",
        "auto": "auto",
        "router/auto-beta": "auto",
        "router/free": "free",
        "router/pareto-code": "pareto",
        "router/bodybuilder": "bodybuilder",
        "router/fusion": "fusion",
    }
)


class SuffixEffect(NamedTuple):
    """The sort, service tier or plugin that a dynamic suffix adds to a request."""

    sort: Sort | None = None
    tier: str | None = None
    plugin: str | None = None


EFFECTS: Final[Mapping[str, SuffixEffect]] = MappingProxyType(
    {
        "nitro": SuffixEffect(sort="throughput", tier="priority"),
        "floor": SuffixEffect(sort="price", tier="flex"),
        "exacto": SuffixEffect(sort="exacto"),
        "online": SuffixEffect(plugin="web"),
    }
)


class ModelReference(NamedTuple):
    """A reference in two parts: `base` is looked up, `suffixes` are dynamic ones as written."""

    base: str
    suffixes: tuple[str, ...] = ()

    @property
    def effects(self) -> list[SuffixEffect]:
        return [EFFECTS[suffix] for suffix in self.suffixes]


class Family(NamedTuple):
    """`~author/name-latest`: the newest model of `name`, or its static variant (`:free`)."""

    name: str
    variant: str = ""


class PresetReference(NamedTuple):
    """`author/slug@preset/name` or `@preset/name`: `model` is empty in the second form."""

    model: str
    slug: str


def parse_reference(reference: str) -> ModelReference:
    """The reference without its dynamic suffixes, and these."""
    base, suffixes = reference, list[str]()
    while len(reference) <= CHARS_MAX:
        head, colon, word = base.rpartition(":")
        if not colon or word not in EFFECTS:
            return ModelReference(base, tuple(reversed(suffixes)))
        base = head
        suffixes.append(word)
    return ModelReference(reference)


def family_of(base: str) -> Family | None:
    """The family that a base asks the newest model of; None where it names a model."""
    if not base.startswith("~"):
        return None
    name, colon, variant = base[1:].partition(":")
    if not name.endswith(_LATEST):
        return None
    return Family(name.removesuffix(_LATEST), colon + variant)


def preset_of(reference: str) -> PresetReference | None:
    """The preset a reference names; None where it names none. The prefix may be in any case."""
    model, _, rest = reference.partition("@")
    prefix, slash, slug = rest.partition("/")
    return PresetReference(model, slug) if slash and prefix.lower() == "preset" else None


# --- Providers ------------------------------------------------------------------------------------


Test: TypeAlias = Callable[[EndpointEntry], bool]


def keys_of(references: Iterable[str]) -> frozenset[str]:
    """The references in the form in which they are compared."""
    return frozenset([reference.casefold() for reference in references])


def reference_test(references: Iterable[str], admitted: Test) -> Test:
    """A test whether one of the references names an endpoint. A full slug names that one alone. A
    base slug or a display name means every endpoint of the provider that `admitted` admits. So an
    endpoint of a service tier is meant by its full slug, unless the tier is open to the request."""
    keys = keys_of(references)

    def test(endpoint: EndpointEntry) -> bool:
        if endpoint.tag_key in keys:
            return True
        return not keys.isdisjoint(endpoint.provider.names) and admitted(endpoint)

    return test
