"""What an upstream reports is believed only where it can be true."""

from typing import Any

import pytest

from routing.catalogue.prices import Prices
from routing.formats.chat.message import text_chars
from routing.metering.cost import cost_of
from routing.metering.usage import COUNT_MAX, Usage, believable, estimated_tokens, summed

CONTEXT = 1000


def counts(prompt: Any, completion: Any, **details: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, **details}


INCREDIBLE: list[Any] = [
    None,
    [],
    "12",
    {},
    counts(None, 1),
    counts(1, None),
    counts(-1, 1),
    counts(1, -1),
    counts(-1.0, 1),
    counts("5", 1),
    counts(True, 1),
    counts(1.5, 1),
    counts(float("nan"), 1),
    counts(float("inf"), 1),
    counts([], 1),
    counts(CONTEXT + 1, 1),
    counts(1, 10**12),
    counts(10**400, 1),
]


@pytest.mark.parametrize("reported", INCREDIBLE, ids=str)
def test_a_report_that_cannot_be_true_is_not_believed(reported: Any) -> None:
    assert believable(reported, context_length=CONTEXT) is None


def test_the_limits_themselves_are_believed() -> None:
    assert believable(counts(0, 0), context_length=CONTEXT) == Usage(0, 0)
    assert believable(counts(CONTEXT, 5.0), context_length=CONTEXT) == Usage(CONTEXT, 5)
    assert believable(counts(COUNT_MAX, 1), context_length=None) == Usage(COUNT_MAX, 1)


def test_without_a_context_length_a_count_past_every_model_is_a_lie() -> None:
    assert believable(counts(COUNT_MAX + 1, 1), context_length=None) is None
    assert believable(counts(1, 10**17), context_length=None) is None


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

    assert believable(reported, context_length=CONTEXT) == Usage(
        100, 50, 60, 20, 20, 0, 30, 5, 15, 3, 4
    )


def test_tokens_that_were_written_and_read_at_once_are_both() -> None:
    """Gemini over another gateway, which bills both."""
    details = {"cached_tokens": 216, "cache_write_tokens": 216}

    usage = believable(counts(218, 10, prompt_tokens_details=details), context_length=CONTEXT)

    assert usage == Usage(218, 10, cached_tokens=216, cache_write_tokens=216)
    plain = {"prompt": "0.000001", "completion": "0.000002"}
    for own, nano in (
        ({}, 218_000),
        ({"input_cache_read": "0.0000001"}, 2_000 + 21_600),
        ({"input_cache_write": "0.000000083"}, 2_000 + 17_928),
        ({"input_cache_read": "0", "input_cache_write": "0.000000083"}, 2_000 + 17_928),
        (
            {"input_cache_read": "0.0000001", "input_cache_write": "0.000000083"},
            2_000 + 21_600 + 17_928,
        ),
    ):
        assert cost_of(usage, Prices.parse(plain | own)).prompt_nano == nano


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
    reported = counts(100, 50, prompt_tokens_details=details)

    assert believable(reported, context_length=CONTEXT) == Usage(100, 50)


@pytest.mark.parametrize(("chars", "tokens"), [(0, 0), (1, 1), (4, 1), (8, 2), (4001, 1000)])
def test_the_estimator_counts_four_characters_a_token(chars: int, tokens: int) -> None:
    assert estimated_tokens(chars) == tokens


@pytest.mark.parametrize(
    "message",
    [
        {"content": "x" * 400},
        {"content": [{"type": "text", "text": "x" * 300}, {"type": "text", "text": "x" * 100}]},
        {"content": "", "refusal": "x" * 400},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "x" * 400}]}]},
        {"reasoning": "x" * 400, "reasoning_details": [{"text": "x" * 400}]},
        {"reasoning": "x" * 400, "reasoning_content": "x" * 400},
        {"reasoning_details": [{"text": "x" * 300}, {"summary": "x" * 100}, {"data": "x" * 999}]},
        {"tool_calls": [{"function": {"name": "x" * 100, "arguments": "x" * 300}}]},
        {"audio": {"transcript": "x" * 400, "data": "x" * 999}},
    ],
)
def test_every_text_of_a_completion_is_estimated_once(message: dict[str, Any]) -> None:
    prices = Prices.parse({"prompt": "0.000001", "completion": "0.000002"})
    usage = Usage(0, estimated_tokens(text_chars({"role": "assistant", **message})))
    assert cost_of(usage, prices).total_nano == 100 * 2_000


def test_parts_of_an_answer_are_added_up() -> None:
    one = Usage(1, 2, cached_tokens=1, accepted_prediction_tokens=5, estimated=True)
    other = Usage(10, 20, reasoning_tokens=3, web_searches=1)
    both = Usage(
        *(11, 22),
        cached_tokens=1,
        reasoning_tokens=3,
        accepted_prediction_tokens=5,
        estimated=True,
        web_searches=1,
    )

    assert summed(one, other) == summed(other, one) == both
    assert summed(one, one).accepted_prediction_tokens == 10


def test_writes_for_an_hour_are_among_the_writes() -> None:
    details = {"cache_write_tokens": 30, "cache_write_1h_tokens": 20}
    read = believable(counts(100, 1, prompt_tokens_details=details), context_length=CONTEXT)
    lie = believable(
        counts(100, 1, prompt_tokens_details=details | {"cache_write_1h_tokens": 40}),
        context_length=CONTEXT,
    )

    assert read == Usage(100, 1, cache_write_tokens=30, cache_write_1h_tokens=20)
    assert lie == Usage(100, 1, cache_write_tokens=30, cache_write_1h_tokens=30)


@pytest.mark.parametrize(
    ("more", "nano"),
    [
        ({}, 100_000),
        ({"input_cache_write": "0.00000125"}, 107_500),
        ({"input_cache_write_1h": "0.000002"}, 120_000),
        ({"input_cache_write": "0.00000125", "input_cache_write_1h": "0.000002"}, 122_500),
    ],
)
def test_writes_for_an_hour_have_a_price_of_their_own(more: dict[str, str], nano: int) -> None:
    prices = Prices.parse({"prompt": "0.000001", "completion": "0.000002", **more})
    usage = Usage(100, 0, cache_write_tokens=30, cache_write_1h_tokens=20)

    assert cost_of(usage, prices).total_nano == nano


@pytest.mark.parametrize(("told", "counted"), [(3, 3), (-1, 0), ("3", 0), (10**6, 0), (None, 0)])
def test_searches_of_the_upstream_are_counted(told: Any, counted: int) -> None:
    reported = counts(1, 1, server_tool_use_details={"web_search_requests": told})

    assert believable(reported, context_length=CONTEXT) == Usage(1, 1, web_searches=counted)


def test_of_an_upstream_that_was_cut_off_the_prompt_is_believed() -> None:
    """It told of the prompt when it began, and never of the completion."""
    told = {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 80}}

    usage = believable(told, context_length=1000, produced_tokens=7)

    assert usage == Usage(100, 7, cached_tokens=80, estimated=True)
    assert believable(told, context_length=1000) is None
    bare = {"prompt_tokens": 100}
    assert believable(bare, context_length=1000, produced_tokens=7) == Usage(100, 7, estimated=True)
    assert believable({"completion_tokens": 5}, context_length=1000, produced_tokens=7) is None


def test_of_an_upstream_that_told_of_the_completion_alone_that_is_believed() -> None:
    told = {"completion_tokens": 50, "completion_tokens_details": {"reasoning_tokens": 30}}

    usage = believable(told, context_length=CONTEXT, produced_tokens=7, prompt_estimate=12)

    assert usage == Usage(12, 50, reasoning_tokens=30, estimated=True)
    assert believable(told, context_length=CONTEXT) is None


def test_no_estimate_stands_for_a_count_that_cannot_be_true() -> None:
    for told in (counts(-1, 50), counts("5", 50), counts(5, -1), counts(None, CONTEXT + 1)):
        estimates = {"produced_tokens": 7, "prompt_estimate": 12}
        assert believable(told, context_length=CONTEXT, **estimates) is None
    told = counts(100, 50)
    usage = believable(told, context_length=CONTEXT, produced_tokens=7, prompt_estimate=12)
    assert usage == Usage(100, 50)
