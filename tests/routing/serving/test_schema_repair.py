"""Looks at whether answers fit the schema of their request."""

from typing import Any

import pytest

from routing.entities.entries import EndpointEntry
from routing.serving.answer import schema_repair
from routing.serving.answer.schema_repair import check_stream
from routing.serving.request.schema_check import SchemaCheck
from tests.routing.serving.calls import call_to


def test_whatever_a_look_raises_the_stream_is_settled(
    one: EndpointEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(schema_repair, "find_schema_problem", fail)
    progress = call_to(one)
    progress.schema_check = check = SchemaCheck({"type": "integer"}, result="valid")

    check_stream(progress, "stop")

    assert check.result == "unchecked"
    assert [stage["data"]["result"] for stage in progress.stages] == ["unchecked"]
