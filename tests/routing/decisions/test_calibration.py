"""Temperatures, calibration errors and what draws them."""

import random
from math import log
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.decisions.calibration import (
    BINS,
    TEMPERATURE_MAX,
    TEMPERATURE_MIN,
    Example,
    _minimize,
    apply_temperature,
    build_report,
    draw_reliability,
    fit_temperature,
    mean_loss,
)

weights = st.lists(st.floats(1e-6, 1), min_size=1, max_size=30)


def normalize(weights: list[float]) -> tuple[float, ...]:
    return tuple(each / sum(weights) for each in weights)


def draw_examples(sharpened: float, count: int = 2500) -> list[Example]:
    """Answers of a model whose probabilities are the truth, to the power of `sharpened`."""
    dice = random.Random(7)
    examples = []
    for _ in range(count):
        truth = normalize([dice.random() + 0.01 for _ in range(4)])
        [right] = dice.choices(range(4), truth)
        examples.append(Example(normalize([each**sharpened for each in truth]), right))
    return examples


def test_a_temperature_by_hand():
    # The square roots of 0.9 and 0.1 are as 3 to 1, their squares as 81 to 1.
    assert apply_temperature((0.9, 0.1), 2) == pytest.approx((0.75, 0.25))
    assert apply_temperature((0.9, 0.1), 0.5) == pytest.approx((81 / 82, 1 / 82))
    assert apply_temperature((1.0, 0.0), 5) == (1.0, 0.0)


@given(weights, st.floats(TEMPERATURE_MIN, TEMPERATURE_MAX))
def test_a_temperature_keeps_sum_and_order(weights, temperature):
    before = normalize(weights)
    after = apply_temperature(before, temperature)

    assert sum(after) == pytest.approx(1, abs=1e-9)
    pairs = list(zip(before, after, strict=True))
    assert all(b[1] >= a[1] for a in pairs for b in pairs if b[0] > a[0])


@given(weights, st.floats(0.3, 3))
def test_a_temperature_can_be_taken_back(weights, temperature):
    before = normalize(weights)
    there_and_back = apply_temperature(apply_temperature(before, temperature), 1 / temperature)

    assert there_and_back == pytest.approx(before, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("sharpened", [0.5, 1.0, 2.0, 3.0])
def test_the_fit_finds_how_much_too_sure_a_model_is(sharpened):
    found = fit_temperature(draw_examples(sharpened))

    assert found == pytest.approx(sharpened, rel=0.1)


@pytest.mark.parametrize(
    ("right", "limit"), [(0, TEMPERATURE_MIN), (1, TEMPERATURE_MAX)], ids=["always", "never"]
)
def test_who_is_always_or_never_right_meets_a_limit(right, limit):
    assert fit_temperature([Example((0.75, 0.25), right)]) == limit


@pytest.mark.parametrize("labels", [1, 2, 5])
def test_answers_that_no_temperature_changes_are_left_alone(labels):
    assert fit_temperature([Example((1 / labels,) * labels, 0)] * 3) == 1.0


@pytest.mark.parametrize(
    ("sure", "found"),
    [
        # The others' share vanishes beside 1 below half of 2 ** -52, each an equal part of it.
        ((1.0, 0.0), log(1e12) / log(2**53)),
        ((0.98, 0.01, 0.01), log(98) / log(2**54)),
    ],
)
def test_who_is_sure_and_right_is_made_no_surer_than_can_be_told(sure, found):
    assert fit_temperature([Example(sure, 0)]) == pytest.approx(found, abs=0.001)


def test_an_impossible_label_that_was_right_is_a_finite_loss():
    assert mean_loss([Example((1.0, 0.0), 1)], 1.0) == pytest.approx(-log(1e-12))


def test_the_loss_of_several_answers_is_their_mean():
    halves = Example((0.5, 0.5), 0), Example((0.25, 0.75), 0)
    assert mean_loss(halves, 1.0) == pytest.approx((log(2) + log(4)) / 2)


def test_accuracy_and_error_by_hand():
    # Bin 0.7: sure 0.7 twice, right once. Bin 0.5: a tie, which the first label wins, right.
    examples = [Example((0.7, 0.3), 0), Example((0.3, 0.7), 0), Example((0.5, 0.5), 0)]
    report = build_report(examples)

    assert report.accuracy == pytest.approx(2 / 3)
    assert report.error == pytest.approx((2 * 0.2 + 1 * 0.5) / 3)
    assert [each.answers for each in report.bins if each.answers] == [1, 2]
    assert len(report.bins) == BINS


def test_certainty_is_in_the_last_bin():
    assert build_report([Example((1.0, 0.0), 0)]).bins[-1] == (1, 1.0, 1.0)


def test_the_diagram_is_an_image_that_says_its_numbers():
    before, after = build_report(draw_examples(3.0)), build_report(draw_examples(3.0), 3.0)
    root = ElementTree.fromstring(draw_reliability("acme/<small>", before, after))  # noqa: S314 - Our own.

    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "acme/<small>"
    assert f"Before: {before.accuracy:.1%} right, calibration error {before.error:.3f}" in texts
    assert f"After: {after.accuracy:.1%} right, calibration error {after.error:.3f}" in texts
    bars = root.findall("{http://www.w3.org/2000/svg}rect[@class='bar']")
    filled = [each for report in (before, after) for each in report.bins if each.answers]
    assert len(bars) == len(filled)
    lines = root.findall("{http://www.w3.org/2000/svg}line[@class='sure']")
    assert all(float(each.get("x1", "")) < float(each.get("x2", "")) for each in lines)


def test_each_text_bar_and_line_of_the_diagram_has_its_place():
    report = build_report([Example((0.7, 0.3), 0)])
    root = ElementTree.fromstring(draw_reliability("small", report, report))  # noqa: S314 - Our own.
    texts = root.findall("{http://www.w3.org/2000/svg}text[@text-anchor]")
    places = {tuple(each.get(name) for name in ("x", "y", "text-anchor")) for each in texts}

    assert root.get("viewBox") == "0 0 792 456"
    expected = {("396", "446", "middle")}
    for left in (48, 424):
        ticks = [(f"{left + n * 80}", "402", "middle") for n in range(5)]
        levels = [(f"{left - 6}", f"{388 - n * 80}", "end") for n in range(5)]
        count, axis = (f"{left + 240}", "379", "middle"), (f"{left + 160}", "422", "middle")
        expected |= {*ticks, *levels, count, axis, (f"{left}", "52", "start")}
    assert places == expected
    bar = root.find("{http://www.w3.org/2000/svg}rect[@class='bar']")
    sure = root.find("{http://www.w3.org/2000/svg}line[@class='sure']")
    assert bar is not None
    assert sure is not None
    assert [bar.get(each) for each in ("x", "y", "width", "height")] == ["273", "64", "30", "320"]
    assert [sure.get(each) for each in ("x1", "x2", "y1", "y2")] == ["273", "303", "160", "160"]


@given(st.floats(10, 20))
def test_a_minimum_is_found_wherever_it_lies(least):
    found = _minimize(lambda place: (place - least) ** 2, 10, 20)
    assert found == pytest.approx(least, abs=1e-5)
