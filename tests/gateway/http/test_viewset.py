"""What a bug looks like from outside."""

import json
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from gateway.http.viewset import LeanViewSet


class Broken(LeanViewSet):
    def create(self, request: HttpRequest) -> HttpResponse:
        self.beside = {"user_id": "user_1", "router_metadata": {"attempt": 1}}
        raise RuntimeError("a secret of ours")


def test_a_500_says_whose_it_was_and_nothing_of_routing(caplog: pytest.LogCaptureFixture) -> None:
    view: Any = Broken.as_view({"post": "create"})

    response = view(RequestFactory().post("/"))

    assert response.status_code == 500
    error = {"code": 500, "message": "Internal Server Error", "metadata": {"error_type": "server"}}
    assert json.loads(response.content) == {"error": error, "user_id": "user_1"}
    assert "a secret of ours" in caplog.text
