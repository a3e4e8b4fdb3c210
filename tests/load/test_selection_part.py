"""The bench's part about selection: its arithmetic, and that it times real choices."""

import pytest

from routing.catalogue.assembly import assemble
from tests.load.figures import Interval
from tests.load.samples import Samples, Selected
from tests.load.selecting import (
    AUTO,
    ENDPOINTS,
    LARGE_ENDPOINTS_EACH,
    LARGE_MODELS,
    MODEL,
    Choosing,
    chooser,
    cpu_us,
    rows_of,
)


def selected(one_us: float, *, request_us: float) -> Selected:
    governed = Interval(units=1000, seconds=1.0, cpu_s=request_us / 1000)
    return Selected(governed, Choosing(one_us, one_us * 1.1, one_us * 20))


def test_the_figures_are_taken_within_each_round() -> None:
    rounds = [
        selected(30, request_us=600),
        selected(300, request_us=6000),
        selected(90, request_us=900),
    ]

    found = {line.required.name: line for line in Samples(selection=rounds).figures()}

    assert found["selection_percent"].value == pytest.approx(5)
    assert found["selection_large_ratio"].value == pytest.approx(1.1)
    assert found["selection_auto_ratio"].value == pytest.approx(20)
    assert found["selection_percent"].note == "90.0 us of 900 us"


def test_the_large_catalogue_is_as_large_as_it_says() -> None:
    rows = rows_of(LARGE_MODELS, LARGE_ENDPOINTS_EACH)

    assert len(rows.endpoints) == LARGE_MODELS * LARGE_ENDPOINTS_EACH + ENDPOINTS


def test_every_endpoint_of_the_catalogue_can_be_chosen() -> None:
    snapshot = assemble(rows_of(3, 2))

    assert snapshot.problems == ()
    assert len(snapshot.models[MODEL].by_price) == ENDPOINTS
    assert len(snapshot.listing) == 4
    for reference in (MODEL, AUTO):
        assert cpu_us(chooser(snapshot, reference), seconds=0.001) > 0
