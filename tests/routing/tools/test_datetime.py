"""`router:datetime`."""

import json

import pytest

from routing.tools.datetime import Datetime
from routing.tools.interface import ToolFailed
from tests.routing.tools.made import context


@pytest.mark.parametrize(
    ("settings", "arguments", "told"),
    [
        ({}, {}, ("2026-03-01T12:00:00+00:00", "UTC")),
        ({"timezone": "Europe/Paris"}, {}, ("2026-03-01T13:00:00+01:00", "Europe/Paris")),
        (
            {"timezone": "Europe/Paris"},
            {"timezone": "Asia/Kolkata"},
            ("2026-03-01T17:30:00+05:30", "Asia/Kolkata"),
        ),
        ({"timezone": "Europe/Paris"}, {"timezone": None}, None),
    ],
)
def test_the_time_in_a_zone(settings, arguments, told) -> None:
    result = Datetime(settings).run(arguments, context())
    shown = told or ("2026-03-01T13:00:00+01:00", "Europe/Paris")
    assert (
        json.loads(result.text)
        == result.item
        == dict(zip(("datetime", "timezone"), shown, strict=True))
    )


@pytest.mark.parametrize("name", ["Nowhere/At_All", "../../etc/passwd", "x" * 5000, 5, ["UTC"], {}])
def test_a_zone_that_there_is_not_is_told_to_the_model(name) -> None:
    tool = Datetime({})
    if name == {}:
        assert tool.run({"timezone": name}, context()).item["timezone"] == "UTC"
        return
    with pytest.raises(ToolFailed):
        tool.run({"timezone": name}, context())
