"""The hold covers whatever an upstream can bill while it keeps to its limits."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.entities.prices import PRICE_KEYS, Prices
from routing.formats.chat.request import parse_chat
from routing.metering.cost import Units, compute_cost
from routing.metering.usage import (
    OUTPUT_TOKENS_DEFAULT,
    TOKENS_PER_MEDIA_PART,
    TOKENS_PER_MESSAGE,
    Demand,
    Room,
    Usage,
    estimate_nano,
    output_tokens_bound,
    prompt_tokens_bound,
)

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
PLAIN = Prices.parse({"prompt": "0.000001", "completion": "0.000002"})


def demand(**changes: Any) -> Demand:
    nothing = {"text_bytes": 0, "messages": 1, "media_parts": 0, "images": 0}
    return Demand(**{**nothing, "output_tokens_asked": None, **changes})


def test_the_estimate_of_the_reference() -> None:
    asked = demand(text_bytes=84, output_tokens_asked=50)
    # 84 bytes and 16 for the message at $1, 50 tokens of output at $2 per million.
    assert estimate_nano(asked, Room(128_000, 16_384), PLAIN) == 100 * 1000 + 50 * 2000


def test_a_prompt_takes_a_token_per_byte_and_an_allowance_per_message_and_media_part() -> None:
    asked = demand(text_bytes=10, messages=2, media_parts=3)
    bound = 10 + 2 * TOKENS_PER_MESSAGE + 3 * TOKENS_PER_MEDIA_PART
    assert prompt_tokens_bound(asked, Room(None, None)) == bound
    assert prompt_tokens_bound(asked, Room(100, None)) == 100


OUTPUTS: list[tuple[int | None, int | None, int | None, int | None, int]] = [
    # Asked for, endpoint's maximum, its context, the setting's cap: what is held.
    (50, 16_384, 128_000, None, 50),
    (50_000, 16_384, 128_000, None, 16_384),
    (None, 16_384, 128_000, None, 16_384),
    (None, None, 128_000, None, 128_000),
    (None, 16_384, None, None, 16_384),
    (None, 16_384, 8_000, None, 8_000),
    (None, None, None, None, OUTPUT_TOKENS_DEFAULT),
    (50_000, None, None, None, 50_000),
    (200_000, None, 128_000, None, 128_000),
    (None, 16_384, 128_000, 1000, 1000),
    (None, 500, 128_000, 1000, 500),
    (5_000, 16_384, 128_000, 1000, 5_000),
]


@pytest.mark.parametrize(("asked", "most", "context", "cap", "held"), OUTPUTS)
def test_the_output_that_is_held_for(asked, most, context, cap, held: int) -> None:
    bound = output_tokens_bound(
        demand(output_tokens_asked=asked), Room(context, most), output_cap=cap
    )
    assert bound == held


@pytest.mark.parametrize(
    ("usd", "nano"),
    [("0", 0), ("0.0000000000000001", 1), ("0.000000001", 16), ("0.0000000010000000001", 17)],
)
def test_a_part_of_a_nano_is_held_as_a_whole_one(usd: str, nano: int) -> None:
    prices = Prices.parse({"prompt": usd, "completion": "0"})
    assert estimate_nano(demand(), Room(None, 1), prices) == nano


def test_an_absurd_price_fits_the_column_and_no_balance() -> None:
    dearest = Prices.parse({"prompt": "10000", "completion": "10000"})
    assert estimate_nano(demand(text_bytes=10**9), Room(None, None), dearest) == 2**62


UNITS: list[tuple[str, Usage]] = [
    ("request", Usage(1, 1)),
    ("image", Usage(1, 1)),
    ("prompt", Usage(1, 1)),
    ("input_cache_read", Usage(1, 1, cached_tokens=1)),
    ("input_cache_write", Usage(1, 1, cache_write_tokens=1)),
    ("input_cache_write_1h", Usage(1, 1, cache_write_tokens=1, cache_write_1h_tokens=1)),
    ("audio", Usage(1, 1, prompt_audio_tokens=1)),
    ("completion", Usage(1, 1)),
    ("internal_reasoning", Usage(1, 1, reasoning_tokens=1)),
    ("audio_output", Usage(1, 1, completion_audio_tokens=1)),
    ("image_output", Usage(1, 1, completion_image_tokens=1)),
]


@pytest.mark.parametrize(("key", "usage"), UNITS)
def test_an_override_that_makes_a_unit_dearer_is_held_for(key: str, usage: Usage) -> None:
    pricing = {"prompt": "0", "completion": "0", "overrides": [{key: "0.5"}]}
    asked = demand(text_bytes=1, images=1, media_parts=1, output_tokens_asked=1)
    prices = Prices.parse(pricing)
    charge = compute_cost(usage, prices.effective(1, MIDNIGHT), Units(images=1)).total_nano
    assert charge == 500_000_000
    assert estimate_nano(asked, Room(None, None), prices) >= charge


# Searches are what the estimate leaves out.
OPTIONAL = sorted({*PRICE_KEYS} - {"prompt", "completion", "web_search"})
PRICE = st.integers(0, 10**6).map(lambda n: f"{Decimal(n).scaleb(-10):f}")
TIME = st.integers(0, 23).map(lambda hour: f"{hour:02d}00")
PRICES = dict.fromkeys(("prompt", "completion", *OPTIONAL), PRICE)
OVERRIDE = st.fixed_dictionaries(
    {}, optional={"min_prompt_tokens": st.integers(0, 500), **PRICES}
).filter(lambda entry: set(entry) & set(PRICE_KEYS))
TIMED = st.builds(
    lambda entry, start: {**entry, "utc_start": start, "utc_end": "2400"}, OVERRIDE, TIME
)
PRICING = st.fixed_dictionaries(
    {"prompt": PRICE, "completion": PRICE},
    optional={
        **dict.fromkeys(OPTIONAL, PRICE),
        "discount": st.sampled_from(["0", "0.25", "0.999"]),
        "overrides": st.lists(OVERRIDE | TIMED, max_size=3),
    },
)
# Bytes that a tokenizer may spend a token on each: emoji with joiners, CJK, controls, digits.
TEXT = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from("👩‍🚀🏳️‍🌈漢字é\t7")))
TOOL = st.builds(
    lambda text: {"type": "function", "function": {"name": "look_up", "description": text}},
    TEXT.filter(lambda text: "\x00" not in text),
)
MESSAGE = st.fixed_dictionaries({"role": st.sampled_from(["user", "system"]), "content": TEXT})
BODY = st.fixed_dictionaries(
    {"messages": st.lists(MESSAGE, min_size=1, max_size=4)},
    optional={
        "max_tokens": st.integers(1, 400),
        "tools": st.lists(TOOL, min_size=1, max_size=2),
    },
)


def shares(data: st.DataObject, total: int, *names: str) -> Any:
    """Numbers that together are at most `total`."""
    parts = {}
    for name in names:
        parts[name] = data.draw(st.integers(0, total))
        total -= parts[name]
    return parts


@settings(deadline=None)
@given(
    body=BODY,
    pricing=PRICING,
    context=st.sampled_from([None, 64, 4_096]),
    most=st.sampled_from([None, 16, 300]),
    hour=st.integers(0, 23),
    data=st.data(),
)
def test_the_hold_is_never_below_the_charge_of_an_upstream_that_keeps_to_its_limits(
    body: dict[str, Any],
    pricing: dict[str, Any],
    context: int | None,
    most: int | None,
    hour: int,
    data: st.DataObject,
) -> None:
    chat = parse_chat({"model": "acme/small", **body}, session_header=None)
    seen = [message["content"] for message in body["messages"]]
    seen += [tool["function"]["description"] for tool in body.get("tools", ())]
    bytes_seen = sum(len(text.encode()) for text in seen)
    assert chat.text_bytes >= bytes_seen
    counted = {"text_bytes": chat.text_bytes, "messages": chat.message_count}
    asked = demand(output_tokens_asked=chat.max_output_tokens, **counted)
    room, prices = Room(context, most), Prices.parse(pricing)
    tokens_max = bytes_seen + chat.message_count * TOKENS_PER_MESSAGE
    prompt = data.draw(st.integers(0, min(tokens_max, context or tokens_max)))
    bounds = [each for each in (chat.max_output_tokens, most, context, 8_192) if each]
    completion = data.draw(st.integers(0, min(bounds)))
    heard = ("cached_tokens", "cache_write_tokens", "prompt_audio_tokens")
    said = ("reasoning_tokens", "completion_audio_tokens", "completion_image_tokens")
    details = shares(data, prompt, *heard) | shares(data, completion, *said)
    hourly = data.draw(st.integers(0, details["cache_write_tokens"]))
    usage = Usage(prompt, completion, cache_write_1h_tokens=hourly, **details)

    charge = compute_cost(
        usage, prices.effective(prompt, MIDNIGHT + timedelta(hours=hour))
    ).total_nano

    assert estimate_nano(asked, room, prices) >= charge
