"""Usage as providers document it, each by its own counting, priced by ours.

The counts are made up; which fields there are and what each counts is the providers'.
"""

import json
from typing import Any, NamedTuple

import pytest

from routing.entities.prices import Prices
from routing.metering.cost import compute_cost
from routing.metering.usage import Usage, read_reported_usage
from routing.upstreams.wires import get_wire


class Counted(NamedTuple):
    """What there is to price; the prompt includes what was cached and written."""

    prompt: int
    completion: int
    cached: int = 0
    written: int = 0
    reasoning: int = 0
    written_1h: int = 0


def chat(prompt: int, completion: int, total: int | None = None, **more: Any) -> dict[str, Any]:
    total = prompt + completion if total is None else total
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    return counts | more


def details(**prompt: Any) -> dict[str, Any]:
    return {"prompt_tokens_details": prompt}


def reasoning_details(tokens: int) -> dict[str, Any]:
    others = ("audio_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens")
    return {"completion_tokens_details": {"reasoning_tokens": tokens, **dict.fromkeys(others, 0)}}


CACHED = {
    "input_tokens": 50,
    "cache_read_input_tokens": 100_000,
    "cache_creation_input_tokens": 248,
    "cache_creation": {"ephemeral_5m_input_tokens": 148, "ephemeral_1h_input_tokens": 100},
    "output_tokens": 503,
    "service_tier": "standard",
    "server_tool_use": {"web_search_requests": 0},
}
UNCACHED = {"cache_creation_input_tokens": None, "cache_read_input_tokens": None}
XAI = details(text_tokens=32, audio_tokens=0, image_tokens=0, cached_tokens=6) | reasoning_details(
    94
)
EXPLICIT = {
    "cache_creation_input_tokens": 1480,
    "cache_creation": {"ephemeral_5m_input_tokens": 1480},
    "cache_type": "ephemeral",
}
SHAPES: dict[str, tuple[str, dict[str, Any], Counted]] = {
    "openai chat": (
        "openai",
        chat(2006, 300, **details(cached_tokens=1920, audio_tokens=0), **reasoning_details(128)),
        Counted(2006, 300, cached=1920, reasoning=128),
    ),
    "openai responses": (
        "responses",
        {
            "input_tokens": 328,
            "input_tokens_details": {"cached_tokens": 256},
            "output_tokens": 52,
            "output_tokens_details": {"reasoning_tokens": 32},
            "total_tokens": 380,
        },
        Counted(328, 52, cached=256, reasoning=32),
    ),
    "anthropic": (
        "anthropic",
        CACHED,
        Counted(100_298, 503, cached=100_000, written=248, written_1h=100),
    ),
    "anthropic without caching": (
        "anthropic",
        {"input_tokens": 2095, "output_tokens": 503, **UNCACHED},
        Counted(2095, 503),
    ),
    "deepseek": (
        "openai",
        chat(
            *(160, 44),
            prompt_cache_hit_tokens=128,
            prompt_cache_miss_tokens=32,
            completion_tokens_details={"reasoning_tokens": 20},
        ),
        Counted(160, 44, cached=128, reasoning=20),
    ),
    "xai": (
        "openai",
        chat(32, 9, 135, num_sources_used=0, **XAI),
        Counted(32, 103, cached=6, reasoning=94),
    ),
    "gemini with reasoning that it does not tell": (
        "openai",
        chat(35, 12, 109),
        Counted(35, 74, reasoning=62),
    ),
    "gemini over another gateway, written and read at once": (
        "openai",
        chat(2168, 100, **details(cached_tokens=2161, cache_write_tokens=2161)),
        Counted(2168, 100, cached=2161, written=2161),
    ),
    "mistral with a cache": ("openai", chat(70, 12, num_cached_tokens=69), Counted(70, 12, 69)),
    "one whose prompt leaves out what was cached": (
        "openai",
        chat(10, 5, 915, **details(cached_tokens=900)),
        Counted(10, 5),
    ),
    "moonshot": ("openai", chat(1900, 21, cached_tokens=1800), Counted(1900, 21, cached=1800)),
    "alibaba with explicit caching": (
        "openai",
        chat(1494, 33, **details(cached_tokens=0, **EXPLICIT)),
        Counted(1494, 33, written=1480),
    ),
}
PRICES = Prices.parse(
    {
        "prompt": "0.000001",
        "completion": "0.000002",
        "input_cache_read": "0.0000001",
        "input_cache_write": "0.00000125",
        "input_cache_write_1h": "0.000002",
    }
)
# Both of what was written and read is paid, beside the 7 tokens that were neither.
NANO = {
    "gemini over another gateway, written and read at once": (
        7 * 1_000 + 2161 * 100 + 2161 * 1_250 + 100 * 2_000
    )
}


def _nano(counted: Counted) -> int:
    fresh = counted.prompt - counted.cached - counted.written
    written = counted.written - counted.written_1h
    prompt = fresh * 1_000 + counted.cached * 100 + written * 1_250 + counted.written_1h * 2_000
    return prompt + counted.completion * 2_000


CHOICE = {"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}
ITEM = {"type": "output_text", "text": "Hi", "annotations": []}
SAID = {"type": "message", "role": "assistant"}
ANSWERS: dict[str, dict[str, Any]] = {
    "openai": {"object": "chat.completion", "choices": [CHOICE]},
    "anthropic": SAID | {"content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"},
    "responses": {
        "object": "response",
        "status": "completed",
        "output": [SAID | {"content": [ITEM]}],
    },
}


def _read_answer_usage(kind: str, reported: dict[str, Any]) -> Usage | None:
    body = json.dumps({**ANSWERS[kind], "usage": reported}).encode()
    answer = get_wire(kind).answer(body, "application/json")
    return read_reported_usage(answer.usage, context_length=None)


def _read_last_chunk(kind: str, **chunk: Any) -> Usage | None:
    (event,) = get_wire(kind).reader().events(json.dumps(chunk).encode())
    return read_reported_usage(event.usage, context_length=None)


@pytest.mark.parametrize("name", SHAPES)
def test_every_token_is_counted_once(name: str) -> None:
    kind, reported, counted = SHAPES[name]

    usage = _read_answer_usage(kind, reported)

    assert usage is not None
    assert not usage.estimated
    assert counted == (
        *(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens),
        *(usage.cache_write_tokens, usage.reasoning_tokens, usage.cache_write_1h_tokens),
    )
    assert compute_cost(usage, PRICES).total_nano == NANO.get(name, _nano(counted))
    if kind == "openai":
        # The last chunk of a stream says the same.
        last = {"object": "chat.completion.chunk", "choices": [], "usage": reported}
        assert _read_last_chunk(kind, **last) == usage


def test_groq_tells_the_usage_of_some_streams_beside_it() -> None:
    """What it costs: 5003 and 359 tokens, not what an estimate of the texts would say."""
    usage = {"queue_time": 0.2, "prompt_tokens": 5003, "completion_tokens": 359}
    choice = {"index": 0, "delta": {}, "finish_reason": "stop"}
    told = _read_last_chunk("openai", choices=[choice], x_groq={"id": "req_1", "usage": usage})
    assert told == Usage(5003, 359)


@pytest.mark.parametrize(
    "total", [None, 41, 135.5, "135"], ids=["none", "without reasoning", "a fraction", "text"]
)
def test_reasoning_is_added_only_where_the_total_says_so(total: Any) -> None:
    usage = _read_answer_usage("openai", {**SHAPES["xai"][1], "total_tokens": total})
    assert usage is not None
    assert usage.completion_tokens == 9
