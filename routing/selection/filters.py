"""The hard filters and the soft preference, in their order (inference reference 7.5)."""

from collections.abc import Callable, Sequence

from routing.catalogue.entries import EndpointEntry
from routing.selection.ask import Ask

Test = Callable[[EndpointEntry, Ask], bool]
CONTEXT_STEP = "Filter by Context Length"
# Parameters whose supporters are preferred within a model even without `require_parameters`.
_PREFERRED = ("tools", "response_format", "verbosity")


def _tier(endpoint: EndpointEntry, ask: Ask) -> bool:
    return endpoint.tier == "default" or endpoint.tier == ask.service_tier


def _takes(modality: str) -> Test:
    def test(endpoint: EndpointEntry, ask: Ask) -> bool:
        return modality not in ask.input_modalities or modality in endpoint.input_modalities

    return test


def _produces(endpoint: EndpointEntry, ask: Ask) -> bool:
    return ask.output_modalities.issubset(endpoint.output_modalities)


def _has_tools(endpoint: EndpointEntry, ask: Ask) -> bool:
    return not ask.tools or "tools" in endpoint.supported_parameters


def _fits(endpoint: EndpointEntry, ask: Ask) -> bool:
    limit = endpoint.max_prompt_tokens
    if limit is not None and ask.prompt_tokens > limit:
        return False
    room = endpoint.context_length
    wanted = min(ask.output_tokens or 0, endpoint.max_completion_tokens or ask.output_tokens or 0)
    return room is None or ask.prompt_tokens + wanted <= room


FILTERS: Sequence[tuple[str, Test]] = (
    ("Filter by Service Tier", _tier),
    ("Filter by Image Support", _takes("image")),
    ("Filter by Audio Support", _takes("audio")),
    ("Filter by Video Support", _takes("video")),
    ("Filter by File Support", _takes("file")),
    ("Filter by Output Modality", _produces),
    ("Filter by Tool Compatibility", _has_tools),
    (CONTEXT_STEP, _fits),
)


def preferred(endpoints: Sequence[EndpointEntry], ask: Ask) -> list[EndpointEntry]:
    """Of one model's endpoints those that support what was supplied, where some do."""
    left = list(endpoints)
    for name in _PREFERRED:
        if name in ask.supplied_parameters:
            able = [each for each in left if name in each.supported_parameters]
            left = able or left
    return left
