"""GET /generation, refused before anything is looked up."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import RequestFactory

from routing.views import generation
from routing.views.generation import GenerationViewSet


@pytest.mark.parametrize("path", ["/generation", "/generation?id="])
def test_a_missing_id_is_an_issue_of_the_field(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    caller = SimpleNamespace(creator_id="user_1", account_id=None)
    monkeypatch.setattr(generation, "authenticate_counted", lambda request: caller)
    view: Any = GenerationViewSet.as_view({"get": "retrieve"})

    response = view(RequestFactory().get(path))

    error = json.loads(response.content)["error"]
    text = "Invalid input: expected string, received undefined"
    assert response.status_code == 400
    assert error["message"] == f"id: {text}"
    assert error["metadata"] == {
        "error_type": "invalid_request",
        "issues": [{"path": "id", "message": text}],
    }
