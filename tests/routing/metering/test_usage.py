"""What an upstream reports is believed only where it can be true."""

from typing import Any

import pytest

from routing.metering.usage import COUNT_MAX, Usage, believable, estimated_tokens

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


LIES: list[Any] = [
    {"cached_tokens": 101},
    {"cached_tokens": -1},
    {"cached_tokens": "60"},
    {"cached_tokens": True},
    {"cached_tokens": 60, "cache_write_tokens": 41},
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
