"""Token counts of providers that speak the messages API, in the chat format's shape."""

from typing import Any

import pytest

from routing.metering.usage import read_reported_usage
from routing.upstreams.anthropic.usage import UsageCounter

CACHED = {"input_tokens": 21, "cache_creation_input_tokens": 188, "cache_read_input_tokens": 2048}


def report(*told: Any) -> Any:
    tally = UsageCounter()
    for usage in told:
        tally.add(usage)
    return tally.report()


NOTHING = {"cache_creation_input_tokens": None, "cache_read_input_tokens": None, "x": None}
LIFETIMES = {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 88}


@pytest.mark.parametrize(
    ("told", "prompt", "completion", "cached", "written", "written_1h"),
    [
        # The API itself, and clouds that host it, which leave out what is zero or unknown.
        ({"input_tokens": 10, "output_tokens": 5}, 10, 5, 0, 0, 0),
        ({**CACHED, "output_tokens": 393}, 2257, 393, 2048, 188, 0),
        ({**CACHED, "cache_creation": LIFETIMES, "output_tokens": 1}, 2257, 1, 2048, 188, 88),
        ({"input_tokens": 7, **NOTHING, "output_tokens": 3}, 7, 3, 0, 0, 0),
        ({"input_tokens": 7, "cache_creation": LIFETIMES, "output_tokens": 3}, 195, 3, 0, 188, 88),
        ({"input_tokens": 0, "cache_read_input_tokens": 9, "output_tokens": 0}, 9, 0, 9, 0, 0),
    ],
)
def test_counts(
    told: Any, prompt: int, completion: int, cached: int, written: int, written_1h: int
) -> None:
    usage = read_reported_usage(report(told), context_length=None)
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (prompt, completion)
    assert (usage.cached_tokens, usage.cache_write_tokens) == (cached, written)
    assert usage.cache_write_1h_tokens == written_1h


def test_details() -> None:
    told = {
        "input_tokens": 1,
        "output_tokens": 9,
        "output_tokens_details": {"thinking_tokens": 6},
        "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 0},
    }
    made = report(told)
    assert made["completion_tokens_details"] == {"reasoning_tokens": 6}
    assert made["server_tool_use_details"] == {"web_search_requests": 2}
    assert made["total_tokens"] == 10


@pytest.mark.parametrize(
    ("told", "prompt", "completion"),
    [
        ([{**CACHED, "output_tokens": 1}, {"output_tokens": 15}], 2257, 15),
        ([{"input_tokens": 0, "output_tokens": 0}, {**CACHED, "output_tokens": 4}], 2257, 4),
        # A search in between makes the prompt longer.
        ([{"input_tokens": 5}, {"input_tokens": 500, "output_tokens": 2}], 500, 2),
        # Zeros at the end do not undo what was counted at the start.
        ([{**CACHED, "output_tokens": 1}, {"input_tokens": 0, "output_tokens": 8}], 2257, 8),
    ],
)
def test_later_counts_replace_earlier_ones(told: list[Any], prompt: int, completion: int) -> None:
    made = report(*told)
    assert (made["prompt_tokens"], made["completion_tokens"]) == (prompt, completion)


def test_what_compacting_used_is_counted_in() -> None:
    compacted = {"input_tokens": 100, "cache_read_input_tokens": 50, "output_tokens": 30}
    turns = [
        {"type": "compaction", **compacted},
        {"type": "message", "input_tokens": 10, "output_tokens": 5},
        {"type": "advisor_message", "input_tokens": 1000, "output_tokens": 1000},
        None,
    ]
    last = {"input_tokens": 10, "cache_read_input_tokens": 0, "output_tokens": 5}
    made = report({**last, "iterations": turns})
    assert (made["prompt_tokens"], made["completion_tokens"]) == (160, 35)
    assert made["prompt_tokens_details"]["cached_tokens"] == 50


@pytest.mark.parametrize("told", [None, {}, [], "x", {"service_tier": "standard"}])
def test_no_counts_are_no_usage(told: Any) -> None:
    assert report(told) is None


@pytest.mark.parametrize("wrong", [-1, "5", True, 1.5, [], {}])
@pytest.mark.parametrize("name", ["input_tokens", "cache_read_input_tokens", "output_tokens"])
def test_a_count_that_cannot_be_true_is_not_believed(name: str, wrong: Any) -> None:
    made = report({"input_tokens": 10, "output_tokens": 5, name: wrong})
    assert read_reported_usage(made, context_length=None) is None


def test_an_output_count_alone_is_kept_beside_an_estimate_of_the_prompt() -> None:
    usage = read_reported_usage(
        report({"output_tokens": 9}), context_length=None, prompt_estimate=4
    )
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.estimated) == (4, 9, True)
