"""What a request needs of an endpoint, and what selection makes of it. Values only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from routing.catalogue.entries import EndpointEntry


class Ask(NamedTuple):
    """The request as the filters see it; token counts come from the estimator.

    `kinds` are the wire kinds that can serve the caller's format.
    """

    kinds: frozenset[str]
    tools: bool = False
    input_modalities: frozenset[str] = frozenset()
    output_modalities: frozenset[str] = frozenset()
    supplied_parameters: frozenset[str] = frozenset()
    prompt_tokens: int = 0
    output_tokens: int | None = None
    service_tier: str | None = None


class Removed(NamedTuple):
    """An endpoint that a filter took out, and the filter's name."""

    endpoint: EndpointEntry
    step: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The endpoints to try, in order, and why the others are not among them.

    `considered` are the candidates after the filters; where nothing is left, those before the
    filter that emptied the list, and `failed_step` names it. `output_caps` lowers the requested
    output for endpoints that cannot give as much.
    """

    order: Sequence[EndpointEntry]
    removed: Sequence[Removed]
    considered: Sequence[EndpointEntry]
    failed_step: str | None = None
    output_caps: Mapping[int, int] = field(default_factory=dict)
