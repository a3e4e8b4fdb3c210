"""What `require_parameters` looks for (inference reference 7.5), by table."""

from typing import Any

import pytest

from tests.routing.formats.chat_bodies import accepted

SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
TOOL = {"type": "function", "function": {"name": "f"}}
REQUIRED: list[tuple[dict[str, Any], set[str]]] = [
    ({}, set()),
    ({"temperature": 0.5, "top_k": 3}, {"temperature", "top_k"}),
    ({"max_tokens": 5}, {"max_tokens"}),
    ({"max_completion_tokens": 5}, {"max_tokens"}),
    ({"max_tokens": 5, "max_completion_tokens": 5}, {"max_tokens"}),
    ({"reasoning": {"effort": "low"}}, {"reasoning"}),
    ({"reasoning_effort": "low"}, {"reasoning"}),
    ({"include_reasoning": False}, {"reasoning"}),
    ({"response_format": {"type": "json_object"}}, {"response_format"}),
    ({"response_format": SCHEMA}, {"response_format", "structured_outputs"}),
    ({"tools": [TOOL], "tool_choice": "auto"}, {"tools", "tool_choice"}),
    # Nothing is asked for by these.
    ({"temperature": None, "tools": [], "logit_bias": {}, "reasoning": {}}, set()),
    ({"stream": True, "user": "u", "metadata": {"a": "b"}, "provider": {"zdr": True}}, set()),
    ({"models": ["acme/x"], "session_id": "s", "trace": {}, "service_tier": "flex"}, set()),
    ({"foo": 1}, set()),
]


@pytest.mark.parametrize(("fields", "required"), REQUIRED)
def test_what_an_endpoint_must_support(fields: dict[str, Any], required: set[str]) -> None:
    assert accepted(**fields).required_parameters == required
