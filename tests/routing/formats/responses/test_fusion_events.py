"""What a stream of responses tells of a fusion."""

import re

from routing.formats.caller import Activity
from routing.formats.responses.events import Events
from routing.formats.responses.output_items import ToolItem


def test_the_panel_and_the_comparison_begin_before_they_end() -> None:
    answers = [{"model": "acme/a", "answer": "Yes"}, {"model": "acme/b", "error": "gone"}]
    item = {"answers": answers, "analysis": "They differ."}
    activity = Activity("c1", "router:fusion", "fusion", "{}", status="completed", item=item)
    told = ToolItem(Events(), "st_1", 0, activity).end_of_content().decode()

    assert re.findall(r"event: response\.fusion_call\.(\S+)", told) == [
        *("panel.added", "panel.added", "panel.completed", "panel.failed"),
        *("analysis.in_progress", "analysis.completed", "completed"),
    ]
    assert re.findall(r'"sequence_number":(\d+)', told) == [str(number) for number in range(7)]
    assert re.findall(r'"model":"([^"]+)"', told) == ["acme/a", "acme/b"] * 2
