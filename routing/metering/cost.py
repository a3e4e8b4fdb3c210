"""What an answer costs: exact all the way, rounded once, half-even, to whole nano-USD.

cost = sum over kinds of tokens x price, plus request, image and search units, times (1 - discount).
Cached, written, audio, reasoning and image tokens are each counted once. They have their own price
where there is one, else the plain prompt or completion price. Tokens written for an hour without a
price of their own cost what other written ones do.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from gateway.http.jsonio import JsonObject, usd
from routing.entities.prices import Prices
from routing.metering.usage import Usage

# Counts of a usage with a price of their own that have no column of a generation's record.
PRICED_COUNTS: Final = ("cache_write_tokens", "prompt_audio_tokens", "completion_audio_tokens")
# Price of each kind in whole parts of a nano-USD (`WholePrices`).
_Prices = Mapping[str, int | None]


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


class ExactCost(NamedTuple):
    """A cost in nano-USD before it is rounded, for answers that are several of an upstream's."""

    total_nano: Fraction
    prompt_nano: Fraction
    completion_nano: Fraction

    def plus(self, other: "ExactCost") -> "ExactCost":
        return ExactCost(*(mine + its for mine, its in zip(self, other, strict=True)))

    def round(self) -> Cost:
        """Half-even, to whole nano-USD."""
        return Cost(*map(round, self))


NO_COST = ExactCost(Fraction(0), Fraction(0), Fraction(0))


def compute_cost(usage: Usage, prices: Prices, units: Units = ONE_REQUEST) -> Cost:
    """The price of one answer under pinned prices."""
    parts, (total, prompt, completion) = prices.whole_numbers[0], _amounts(usage, prices, units)
    return Cost(
        _round_share(total, parts), _round_share(prompt, parts), _round_share(completion, parts)
    )


def exact_cost(usage: Usage, prices: Prices, units: Units = ONE_REQUEST) -> ExactCost:
    """The same, to be summed with others before it is rounded."""
    parts = prices.whole_numbers[0]
    return ExactCost(*(Fraction(amount, parts) for amount in _amounts(usage, prices, units)))


def _amounts(usage: Usage, prices: Prices, units: Units) -> tuple[int, int, int]:
    """Total, prompt and completion in the price list's parts of a nano-USD."""
    of = prices.whole_numbers[1]
    prompt, completion = _prompt(usage, of), _completion(usage, of)
    pieces = (
        (of["request"] or 0) * units.requests
        + (of["image"] or 0) * units.images
        + (of["web_search"] or 0) * units.web_searches
    )
    return prompt + completion + pieces, prompt, completion


def cache_saving_nano(usage: Usage, prices: Prices) -> int:
    """What a prompt costs less because parts of it were read from the upstream's cache, discount
    applied. It is below zero where writing them cost more than that saved."""
    parts, of = prices.whole_numbers
    bare = usage._replace(cached_tokens=0, cache_write_tokens=0, cache_write_1h_tokens=0)
    return _round_share(_prompt(bare, of) - _prompt(usage, of), parts)


def web_search_nano(usage: Usage, prices: Prices) -> int:
    """The part of `compute_cost` that web searches are."""
    parts, of = prices.whole_numbers
    return _round_share((of["web_search"] or 0) * usage.web_searches, parts)


def searches_nano(count: int, prices: Prices) -> Fraction:
    """The exact price of web searches that the gateway made for an answer of these prices."""
    parts, of = prices.whole_numbers
    return Fraction((of["web_search"] or 0) * count, parts)


def _prompt(usage: Usage, of: _Prices) -> int:
    kept_1h, written, plain = usage.cache_write_1h_tokens, usage.cache_write_tokens, of["prompt"]
    if plain is not None and not (usage.cached_tokens or written or usage.prompt_audio_tokens):
        return plain * usage.prompt_tokens
    price = of["input_cache_write_1h"]
    kinds = (
        (usage.cached_tokens, of["input_cache_read"]),
        (written - kept_1h, of["input_cache_write"]),
        (kept_1h, of["input_cache_write"] if price is None else price),
        (usage.prompt_audio_tokens, of["audio"]),
    )
    tokens = usage.prompt_tokens
    if sum(count for count, own in kinds if own is not None) > tokens:
        # The same tokens were written and read: both are paid, and they are in the prompt once.
        tokens += usage.cached_tokens
    return _by_kind(tokens, plain, kinds)


def _completion(usage: Usage, of: _Prices) -> int:
    plain, images = of["completion"], usage.completion_image_tokens
    if plain is not None and not (
        usage.reasoning_tokens or usage.completion_audio_tokens or images
    ):
        return plain * usage.completion_tokens
    return _by_kind(
        usage.completion_tokens,
        plain,
        (
            (usage.reasoning_tokens, of["internal_reasoning"]),
            (usage.completion_audio_tokens, of["audio_output"]),
            (images, of["image_output"]),
        ),
    )


def _by_kind(tokens: int, price: int | None, kinds: tuple[tuple[int, int | None], ...]) -> int:
    """Tokens at the plain price, but for those of a kind that has its own."""
    assert price is not None  # A price list without plain prices is not read.
    total = 0
    for count, own in kinds:
        if count and own is not None:
            tokens -= count
            total += own * count
    return total + price * tokens


def _round_share(amount: int, parts: int) -> int:
    """Half-even, to whole nano-USD."""
    nano, rest = divmod(amount, parts)
    if not rest:
        return nano
    twice = 2 * rest
    return nano + (twice > parts or (twice == parts and nano % 2 == 1))


# --- As the caller reads it -----------------------------------------------------------------------


class ServerToolUse(NamedTuple):
    """How many server tools a model asked for, and how many of these were run."""

    requested: int
    executed: int


def build_usage_report(
    usage: Usage,
    *,
    charged_nano: int,
    cost: Cost,
    is_byok: bool = False,
    tools: ServerToolUse | None = None,
) -> JsonObject:
    """The `usage` object; `cost` in it is what the account was charged, no more and no less. With a
    team's own credential its list price stands beside. `tools` are those that the gateway ran."""
    details = {
        "cached_tokens": usage.cached_tokens,
        "audio_tokens": usage.prompt_audio_tokens,
        "video_tokens": usage.video_tokens,
    }
    if usage.cache_write_tokens:
        details["cache_write_tokens"] = usage.cache_write_tokens
    report = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": details,
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens,
            "audio_tokens": usage.completion_audio_tokens,
            "image_tokens": usage.completion_image_tokens,
            "accepted_prediction_tokens": usage.accepted_prediction_tokens,
            "rejected_prediction_tokens": usage.rejected_prediction_tokens,
        },
        "cost": usd(charged_nano),
        "cost_details": {
            "upstream_inference_cost": usd(cost.total_nano) if is_byok else None,
            "upstream_inference_prompt_cost": usd(cost.prompt_nano),
            "upstream_inference_completions_cost": usd(cost.completion_nano),
        },
        "is_byok": is_byok,
    }
    if tools is not None:
        report["server_tool_use_details"] = {
            "tool_calls_requested": tools.requested,
            "tool_calls_executed": tools.executed,
            **({"web_search_requests": usage.web_searches} if usage.web_searches else {}),
        }
    elif usage.web_searches:
        report["server_tool_use_details"] = {
            "tool_calls_requested": None,
            "tool_calls_executed": None,
            "web_search_requests": usage.web_searches,
        }
    return report
