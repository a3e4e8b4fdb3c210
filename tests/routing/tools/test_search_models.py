"""`router:experimental__search_models`."""

from dataclasses import replace

import pytest

from routing.tools.interface import ToolFailed
from routing.tools.search_models import SearchModels, best
from tests.routing.selection.entries import model
from tests.routing.tools.made import context

SMALL = replace(model(id="acme/small"), description="Quick and cheap.")
VISION = replace(model(id="acme/vision"), input_modalities=("text", "image"))
CODER = replace(model(id="other/coder"), description="Writes code, reads images too.")
ALL = [SMALL, VISION, CODER]


@pytest.mark.parametrize("arguments", [{}, {"query": ""}, {"query": "  "}, {"query": 5}])
def test_a_search_for_nothing_is_told_to_the_model(arguments) -> None:
    with pytest.raises(ToolFailed):
        SearchModels({}).run(arguments, context())


@pytest.mark.parametrize(
    ("words", "most", "found"),
    [
        (["acme"], 5, [SMALL, VISION]),
        (["acme"], 1, [SMALL]),
        (["image"], 5, [VISION, CODER]),
        (["acme", "image"], 5, [VISION, SMALL, CODER]),
        (["cheap"], 5, [SMALL]),
        (["nothing"], 5, []),
    ],
)
def test_names_count_for_more_than_descriptions(words, most, found) -> None:
    assert best(ALL, words, most) == found
