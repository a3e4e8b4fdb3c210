"""Token usage of one answer, as counted by the serving model, or by the estimator."""

from typing import Any, NamedTuple

from routing.entities.prices import Prices

CHARS_PER_TOKEN = 4
# Where an endpoint says no context length: more than any model takes, far less than a lie needs.
COUNT_MAX = 2**24
# More searches than an upstream makes for one answer.
_SEARCHES_MAX = 1_000


class Usage(NamedTuple):
    """Tokens of one answer. The prompt count includes cached, written and audio tokens; where those
    are more than the prompt, the cached ones are the written ones. The completion count includes
    reasoning and audio tokens. `cache_write_1h_tokens` are those of the written tokens that are
    kept for an hour, `web_searches` what the upstream looked up by itself. `estimated` marks the
    estimator's work.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    prompt_audio_tokens: int = 0
    video_tokens: int = 0
    reasoning_tokens: int = 0
    completion_audio_tokens: int = 0
    completion_image_tokens: int = 0
    accepted_prediction_tokens: int | None = None
    rejected_prediction_tokens: int | None = None
    estimated: bool = False
    cache_write_1h_tokens: int = 0
    web_searches: int = 0

    @property
    def total_tokens(self) -> int:
        """What counts against limits of tokens."""
        return self.prompt_tokens + self.completion_tokens


def add_usages(one: Usage, other: Usage) -> Usage:
    """The usage of two answers that are parts of one."""
    return Usage(*map(_sum, one, other))


def _sum(one: int | None, other: int | None) -> Any:
    """Counts are added; of marks one is enough."""
    if one is None or other is None:
        return other if one is None else one
    return one or other if isinstance(one, bool) else one + other


def estimate_tokens(text_chars: int) -> int:
    """4 characters per token, at least 1 for a text that is not empty."""
    return max(1, text_chars // CHARS_PER_TOKEN) if text_chars else 0


def read_reported_usage(
    reported: object,
    *,
    context_length: int | None,
    produced_tokens: int | None = None,
    prompt_estimate: int | None = None,
) -> Usage | None:
    """The usage an upstream reported, or None when there is none or it cannot be true.

    Believable counts are whole numbers from 0 to the endpoint's context length (`COUNT_MAX` if it
    has none). Details that do not fit inside their count are dropped, so that nothing is charged
    for them. If the upstream was cut off after it reported the prompt, the completion is
    `produced_tokens`. If it reported the completion alone, the prompt is `prompt_estimate`.
    """
    if not isinstance(reported, dict):
        return None
    most = context_length or COUNT_MAX
    prompt = _count(reported.get("prompt_tokens"), most)
    completion = _count(reported.get("completion_tokens"), most)
    is_cut_off = reported.get("completion_tokens") is None and produced_tokens is not None
    if is_cut_off:
        completion = produced_tokens
    lacks_prompt = reported.get("prompt_tokens") is None and prompt_estimate is not None
    if lacks_prompt:
        prompt = prompt_estimate
    if prompt is None or completion is None:
        return None
    estimated = is_cut_off or lacks_prompt
    if _DETAILS.isdisjoint(reported):
        return Usage(prompt, completion, estimated=estimated)
    of_prompt = _details(reported.get("prompt_tokens_details"), prompt)
    of_completion = _details(reported.get("completion_tokens_details"), completion)
    written = of_prompt.get("cache_write_tokens", 0)
    of_tools = _details(reported.get("server_tool_use_details"), _SEARCHES_MAX)
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=of_prompt.get("cached_tokens", 0),
        cache_write_tokens=written,
        cache_write_1h_tokens=min(written, of_prompt.get("cache_write_1h_tokens", 0)),
        web_searches=of_tools.get("web_search_requests", 0),
        prompt_audio_tokens=of_prompt.get("audio_tokens", 0),
        video_tokens=of_prompt.get("video_tokens", 0),
        reasoning_tokens=of_completion.get("reasoning_tokens", 0),
        completion_audio_tokens=of_completion.get("audio_tokens", 0),
        completion_image_tokens=of_completion.get("image_tokens", 0),
        accepted_prediction_tokens=of_completion.get("accepted_prediction_tokens"),
        rejected_prediction_tokens=of_completion.get("rejected_prediction_tokens"),
        estimated=estimated,
    )


def _count(value: object, maximum: int) -> int | None:
    if type(value) is int:
        return value if 0 <= value <= maximum else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        return None
    return None if value > maximum else value


def _details(value: object, total: int) -> dict[str, int]:
    """The counts that are whole and, taken together, fit inside `total`; else none of them. Tokens
    that were written to a cache and read from it at once stand under both names."""
    if not isinstance(value, dict):
        return {}
    counts = {name: _count(item, total) for name, item in value.items()}
    details = {name: count for name, count in counts.items() if count is not None}
    disjoint = sum(details.get(name, 0) for name in _DISJOINT)
    if details.get("cached_tokens") == details.get("cache_write_tokens"):
        disjoint -= details.get("cached_tokens", 0)
    return details if disjoint <= total else {}


# What a report holds beside the two counts.
_DETAILS = frozenset(
    {"prompt_tokens_details", "completion_tokens_details", "server_tool_use_details"}
)
# Kinds priced on their own, which must not overlap; prediction counts are only reported.
_DISJOINT = (
    "cached_tokens",
    "cache_write_tokens",
    "audio_tokens",
    "reasoning_tokens",
    "image_tokens",
)


# --- Before it is known ---------------------------------------------------------------------------


# Role, separators and name of a message; chat templates use 3 to 10 tokens.
TOKENS_PER_MESSAGE = 16
# A high-detail 2048 x 2048 image costs 765 to 2,900 tokens at the vendors that publish a formula.
TOKENS_PER_MEDIA_PART = 3_000
# Where neither the request nor the endpoint names a maximum or a context length.
OUTPUT_TOKENS_DEFAULT = 8_192
# A bound past any balance; more would not fit a 64-bit column.
ESTIMATE_MAX_NANO = 2**62


class Demand(NamedTuple):
    """The size of a request, as the format that parsed it counted it. Its texts stand in that many
    `contexts`, each as long as an endpoint takes them."""

    text_bytes: int
    messages: int
    media_parts: int
    images: int
    output_tokens_asked: int | None
    contexts: int = 1


class Room(NamedTuple):
    """What an endpoint can take in and give out, in tokens; None where it does not say."""

    context_length: int | None
    max_completion_tokens: int | None


def prompt_tokens_bound(demand: Demand, room: Room) -> int:
    bound = (
        demand.text_bytes
        + demand.messages * TOKENS_PER_MESSAGE
        + demand.media_parts * TOKENS_PER_MEDIA_PART
    )
    return min(bound, room.context_length * demand.contexts) if room.context_length else bound


def output_tokens_bound(demand: Demand, room: Room, *, output_cap: int | None) -> int:
    """The requested maximum, lowered to the endpoint's; its maximum when none was requested."""
    most, length = room.max_completion_tokens, room.context_length
    endpoint_max = min(most, length) if most and length else most or length
    if (asked := demand.output_tokens_asked) is not None:
        return min(asked, endpoint_max) if endpoint_max else asked
    endpoint_max = endpoint_max or OUTPUT_TOKENS_DEFAULT
    return min(endpoint_max, output_cap) if output_cap else endpoint_max


def estimate_nano(
    demand: Demand, room: Room, prices: Prices, *, output_cap: int | None = None
) -> int:
    """Whole nano-USD, rounded up; zero only for a free endpoint."""
    if prices.is_free:
        return 0
    highest = prices.highest
    amount = (
        highest.prompt * prompt_tokens_bound(demand, room)
        + highest.completion * output_tokens_bound(demand, room, output_cap=output_cap)
        + highest.request
        + highest.image * demand.images
    )
    return min(max(1, -(-amount // highest.parts)), ESTIMATE_MAX_NANO)
