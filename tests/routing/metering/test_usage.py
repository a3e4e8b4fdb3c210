"""What an upstream reports is believed only where it can be true."""

from typing import Any

import pytest

from gateway.http.jsonio import dumps, loads
from routing.entities.prices import Prices
from routing.formats.chat.answer import count_text_chars
from routing.metering.cost import Cost, ServerToolUse, build_usage_report, compute_cost
from routing.metering.usage import (
    COUNT_MAX,
    Usage,
    add_usages,
    estimate_tokens,
    read_reported_usage,
)

CONTEXT = 1000
PLAIN = {"prompt": "0.000001", "completion": "0.000002"}


def counts(prompt: Any, completion: Any, **details: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, **details}


def read_usage(reported: Any, **more: Any) -> Usage | None:
    return read_reported_usage(reported, context_length=CONTEXT, **more)


def read_prompt_usage(details: Any) -> Usage | None:
    return read_usage(counts(100, 50, prompt_tokens_details=details))


def prompt_nano(usage: Usage | None, **own: str) -> int:
    assert usage is not None
    return compute_cost(usage, Prices.parse(PLAIN | own)).prompt_nano


ODD: list[Any] = [None, -1, -1.0, "5", True, 1.5, float("nan"), float("inf"), [], 10**12, 10**400]
INCREDIBLE: list[Any] = [
    *(None, [], "12", {}, counts(CONTEXT + 1, 1)),
    *(counts(odd, 1) for odd in ODD),
    *(counts(1, odd) for odd in ODD),
]


@pytest.mark.parametrize("reported", INCREDIBLE, ids=lambda each: str(each)[:60])
def test_a_report_that_cannot_be_true_is_not_believed(reported: Any) -> None:
    assert read_usage(reported) is None


def test_the_limits_themselves_are_believed() -> None:
    assert read_usage(counts(0, 0)) == read_usage(counts(0.0, 0)) == Usage(0, 0)
    assert read_usage(counts(CONTEXT, 5.0)) == Usage(CONTEXT, 5)
    assert read_reported_usage(counts(COUNT_MAX, 1), context_length=None) == Usage(COUNT_MAX, 1)
    # Without a context length a count past every model is a lie.
    assert read_reported_usage(counts(COUNT_MAX + 1, 1), context_length=None) is None
    assert read_reported_usage(counts(1, 10**17), context_length=None) is None


def test_details_are_read() -> None:
    reported = counts(
        100,
        50,
        prompt_tokens_details={"cached_tokens": 60, "cache_write_tokens": 20, "audio_tokens": 20},
        completion_tokens_details={
            "reasoning_tokens": 30,
            "audio_tokens": 5,
            "image_tokens": 15,
            "accepted_prediction_tokens": 3,
            "rejected_prediction_tokens": 4,
        },
    )

    assert read_usage(reported) == Usage(100, 50, 60, 20, 20, 0, 30, 5, 15, 3, 4)


def test_tokens_that_were_written_and_read_at_once_are_both() -> None:
    """Gemini over another gateway, which bills both."""
    details = {"cached_tokens": 216, "cache_write_tokens": 216}

    usage = read_usage(counts(218, 10, prompt_tokens_details=details))

    assert usage == Usage(218, 10, cached_tokens=216, cache_write_tokens=216)
    read, write = {"input_cache_read": "0.0000001"}, {"input_cache_write": "0.000000083"}
    assert prompt_nano(usage) == 218_000
    assert prompt_nano(usage, **read) == 2_000 + 21_600
    assert prompt_nano(usage, **write) == 2_000 + 17_928
    assert prompt_nano(usage, input_cache_read="0", **write) == 2_000 + 17_928
    assert prompt_nano(usage, **read, **write) == 2_000 + 21_600 + 17_928


LIES: list[Any] = [
    {"cached_tokens": 101},
    {"cached_tokens": -1},
    {"cached_tokens": "60"},
    {"cached_tokens": True},
    {"cached_tokens": 60, "cache_write_tokens": 41},
    {"audio_tokens": 60, "image_tokens": 41},
    [60],
    None,
]


@pytest.mark.parametrize("details", LIES, ids=str)
def test_details_that_do_not_fit_their_count_are_dropped(details: Any) -> None:
    assert read_prompt_usage(details) == Usage(100, 50)


@pytest.mark.parametrize(("chars", "tokens"), [(0, 0), (1, 1), (4, 1), (8, 2), (4001, 1000)])
def test_the_estimator_counts_four_characters_a_token(chars: int, tokens: int) -> None:
    assert estimate_tokens(chars) == tokens


def text_part(**text: Any) -> dict[str, Any]:
    return {"type": "text", **text}


@pytest.mark.parametrize(
    "message",
    [
        {"content": "x" * 400},
        {"content": [text_part(text="x" * 300), text_part(text="x" * 100)]},
        {"content": "", "refusal": "x" * 400},
        {"content": [{"type": "thinking", "thinking": [text_part(text="x" * 400)]}]},
        {"reasoning": "x" * 400, "reasoning_details": [{"text": "x" * 400}]},
        {"reasoning": "x" * 400, "reasoning_content": "x" * 400},
        {"reasoning_details": [{"text": "x" * 300}, {"summary": "x" * 100}, {"data": "x" * 999}]},
        {"tool_calls": [{"function": {"name": "x" * 100, "arguments": "x" * 300}}]},
        {"audio": {"transcript": "x" * 400, "data": "x" * 999}},
    ],
)
def test_every_text_of_a_completion_is_estimated_once(message: dict[str, Any]) -> None:
    usage = Usage(0, estimate_tokens(count_text_chars({"role": "assistant", **message})))
    assert compute_cost(usage, Prices.parse(PLAIN)).total_nano == 100 * 2_000


def test_parts_of_an_answer_are_added_up() -> None:
    one = Usage(1, 2, cached_tokens=1, accepted_prediction_tokens=5, estimated=True)
    other = Usage(10, 20, reasoning_tokens=3, web_searches=1)
    details: Any = {"cached_tokens": 1, "reasoning_tokens": 3, "accepted_prediction_tokens": 5}
    both = Usage(11, 22, **details, estimated=True, web_searches=1)
    assert add_usages(one, other) == add_usages(other, one) == both
    assert add_usages(one, one).accepted_prediction_tokens == 10
    assert add_usages(one, one).estimated is True


def test_tokens_of_a_video_are_read() -> None:
    assert read_prompt_usage({"video_tokens": 30}) == Usage(100, 50, video_tokens=30)


def test_writes_for_an_hour_are_among_the_writes() -> None:
    for told, counted in ((20, 20), (40, 30)):
        read = read_prompt_usage({"cache_write_tokens": 30, "cache_write_1h_tokens": told})
        assert read == Usage(100, 50, cache_write_tokens=30, cache_write_1h_tokens=counted)


def test_writes_for_an_hour_have_a_price_of_their_own() -> None:
    usage = Usage(100, 0, cache_write_tokens=30, cache_write_1h_tokens=20)
    short, hour = {"input_cache_write": "0.00000125"}, {"input_cache_write_1h": "0.000002"}
    assert prompt_nano(usage) == 100_000
    assert prompt_nano(usage, **short) == 107_500
    assert prompt_nano(usage, **hour) == 120_000
    assert prompt_nano(usage, **short, **hour) == 122_500


@pytest.mark.parametrize(
    ("told", "counted"), [(3, 3), (1_000, 1_000), (1_001, 0), (-1, 0), ("3", 0), (None, 0)]
)
def test_searches_of_the_upstream_are_counted(told: Any, counted: int) -> None:
    reported = counts(1, 1, server_tool_use_details={"web_search_requests": told})
    assert read_usage(reported) == Usage(1, 1, web_searches=counted)


def test_of_an_upstream_that_was_cut_off_the_prompt_is_believed() -> None:
    """It told of the prompt when it began, and never of the completion."""
    told = {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 80}}
    bare = {"prompt_tokens": 100}
    usage = Usage(100, 7, cached_tokens=80, estimated=True)
    assert read_usage(told, produced_tokens=7) == usage
    assert read_usage(told) is None
    assert read_usage(bare, produced_tokens=7) == Usage(100, 7, estimated=True)
    assert read_usage({"completion_tokens": 5}, produced_tokens=7) is None


def test_of_an_upstream_that_told_of_the_completion_alone_that_is_believed() -> None:
    told = {"completion_tokens": 50, "completion_tokens_details": {"reasoning_tokens": 30}}
    usage = Usage(12, 50, reasoning_tokens=30, estimated=True)
    assert read_usage(told, produced_tokens=7, prompt_estimate=12) == usage
    assert read_usage(told) is None


def test_no_estimate_stands_for_a_count_that_cannot_be_true() -> None:
    estimates = {"produced_tokens": 7, "prompt_estimate": 12}
    for told in (counts(-1, 50), counts("5", 50), counts(5, -1), counts(None, CONTEXT + 1)):
        assert read_usage(told, **estimates) is None
    assert read_usage(counts(100, 50), **estimates) == Usage(100, 50)


@pytest.mark.parametrize("is_byok", [True, False])
@pytest.mark.parametrize("tools", [None, ServerToolUse(3, 2)])
@pytest.mark.parametrize("searches", [0, 2])
def test_the_usage_object_says_what_was_used_and_what_it_costs(is_byok, tools, searches) -> None:
    usage = Usage(10, 5, cached_tokens=4, cache_write_tokens=3, web_searches=searches)
    cost = Cost(7 * 10**9, 3 * 10**9, 4 * 10**9)

    said = build_usage_report(usage, charged_nano=10**9, cost=cost, is_byok=is_byok, tools=tools)
    report = loads(dumps(said))

    assert report["total_tokens"] == usage.total_tokens == 15
    assert report["prompt_tokens_details"]["cache_write_tokens"] == 3
    assert (report["cost"], report["is_byok"]) == (1, is_byok)
    assert list(report["cost_details"].values()) == [7 if is_byok else None, 3, 4]
    names = "tool_calls_requested", "tool_calls_executed", "web_search_requests"
    told = report.get("server_tool_use_details", {})
    counted = (None, None) if tools is None else (3, 2)
    assert tuple(map(told.get, names)) == (*counted, searches or None)
    assert bool(told) is bool(tools or searches)
    unwritten = build_usage_report(Usage(1, 1), charged_nano=0, cost=cost)
    assert "cache_write_tokens" not in unwritten["prompt_tokens_details"]
