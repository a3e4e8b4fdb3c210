"""What an answer costs: decimals all the way, rounded once, half-even, to whole nano-USD.

cost = sum over kinds of tokens x price, plus request, image and search units, times (1 - discount);
cached, written, audio, reasoning and image tokens are each counted once, at their own price where
there is one and at the plain prompt or completion price where there is none. Tokens written for an
hour without a price of their own cost what other written ones do.
"""

from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from typing import Final, NamedTuple

from routing.catalogue.prices import Prices
from routing.metering.usage import Usage

# Counts of a usage with a price of their own that have no column of a generation's record.
PRICED_COUNTS: Final = ("cache_write_tokens", "prompt_audio_tokens", "completion_audio_tokens")
NANO_PER_USD = Decimal(1_000_000_000)
_ZERO = Decimal(0)
# Wide enough that no product of a 64-bit count and a price is ever rounded before the end.
EXACT = Context(prec=80, rounding=ROUND_HALF_EVEN)


class Units(NamedTuple):
    """What is counted by the piece: requests, input images, web searches."""

    requests: int = 1
    images: int = 0
    web_searches: int = 0


ONE_REQUEST = Units()


class Cost(NamedTuple):
    """Whole nano-USD. The two parts are rounded on their own and are for display only."""

    total_nano: int
    prompt_nano: int
    completion_nano: int


FREE = Cost(0, 0, 0)


def cost_of(usage: Usage, prices: Prices, units: Units = ONE_REQUEST) -> Cost:
    """The price of one answer under pinned prices."""
    with localcontext(EXACT):
        prompt = _prompt_usd(usage, prices)
        completion = _completion_usd(usage, prices)
        pieces = (
            (prices.request or _ZERO) * units.requests
            + (prices.image or _ZERO) * units.images
            + (prices.web_search or _ZERO) * units.web_searches
        )
        factor = NANO_PER_USD * (1 - prices.discount)
        return Cost(
            total_nano=_whole((prompt + completion + pieces) * factor),
            prompt_nano=_whole(prompt * factor),
            completion_nano=_whole(completion * factor),
        )


def _prompt_usd(usage: Usage, prices: Prices) -> Decimal:
    plain = usage.prompt_tokens
    total = _ZERO
    kept_1h = usage.cache_write_1h_tokens
    for count, price in (
        (usage.cached_tokens, prices.input_cache_read),
        (usage.cache_write_tokens - kept_1h, prices.input_cache_write),
        (kept_1h, _first(prices.input_cache_write_1h, prices.input_cache_write)),
        (usage.prompt_audio_tokens, prices.audio),
    ):
        if count and price is not None:
            plain -= count
            total += price * count
    return total + prices.prompt * plain


def _first(price: Decimal | None, otherwise: Decimal | None) -> Decimal | None:
    return otherwise if price is None else price


def _completion_usd(usage: Usage, prices: Prices) -> Decimal:
    plain = usage.completion_tokens
    total = _ZERO
    for count, price in (
        (usage.reasoning_tokens, prices.internal_reasoning),
        (usage.completion_audio_tokens, prices.audio_output),
        (usage.completion_image_tokens, prices.image_output),
    ):
        if count and price is not None:
            plain -= count
            total += price * count
    return total + prices.completion * plain


def _whole(nano: Decimal) -> int:
    return int(nano.to_integral_value(ROUND_HALF_EVEN))
