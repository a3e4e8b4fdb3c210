"""The most a request may cost at one endpoint: what is held before it is sent.

Prompt tokens are bounded from above, one per UTF-8 byte of text plus an allowance for each message
and media part (a token never covers less than a byte); the answer by what was asked for, else by
the endpoint's own maximum.
"""

from typing import NamedTuple

from routing.entities.prices import Prices

# Role, separators and name of a message; chat templates use 3 to 10 tokens.
TOKENS_PER_MESSAGE = 16
# A high-detail 2048 x 2048 image costs 765 to 2,900 tokens at the vendors that publish a formula.
TOKENS_PER_MEDIA_PART = 3_000
# Where neither the request nor the endpoint names a maximum or a context length.
OUTPUT_TOKENS_DEFAULT = 8_192
# A bound past any balance; more would not fit a 64-bit column.
ESTIMATE_MAX_NANO = 2**62


class Demand(NamedTuple):
    """The size of a request, as the format that parsed it counted it."""

    text_bytes: int
    messages: int
    media_parts: int
    images: int
    output_tokens_asked: int | None


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
    return min(bound, room.context_length) if room.context_length else bound


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
