"""The plugin that adds a panel."""

from typing import Any

import pytest

from routing.plugins import fusion
from routing.plugins.fusion import PRESETS, Fusion


@pytest.fixture
def panels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "panel_of", lambda preset: [f"{preset}/a", f"{preset}/b"])


@pytest.mark.usefixtures("panels")
@pytest.mark.parametrize(
    ("settings", "given"),
    [
        ({}, {}),
        (
            {"model": "m", "max_tool_calls": 2, "tools": [{"type": "router:datetime"}]},
            {"model": "m", "max_tool_calls": 2, "tools": [{"type": "router:datetime"}]},
        ),
        ({"preset": "general-fast"}, {"analysis_models": ["general-fast/a", "general-fast/b"]}),
        ({"preset": "general-fast", "analysis_models": ["x"]}, {"analysis_models": ["x"]}),
    ],
)
def test_its_settings_are_the_tools(settings: Any, given: Any) -> None:
    (tool,) = Fusion({"id": "fusion", "enabled": True, **settings}).tools()
    assert tool == {"type": "router:fusion", "parameters": given}


@pytest.mark.django_db
@pytest.mark.parametrize("preset", PRESETS)
def test_an_empty_catalogue_has_no_panel(preset: str) -> None:
    assert Fusion({"preset": preset}).tools()[0]["parameters"].get("analysis_models", []) == []
