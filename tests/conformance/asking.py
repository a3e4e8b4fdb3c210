"""Asking a desk's gateway in the messages and responses formats."""

from typing import Any

import requests

from tests.conformance.desk import CHAT, HELLO, Desk, exact

MESSAGES = "/api/v1/messages"
RESPONSES = "/api/v1/responses"
# Whose persona an endpoint of a wire kind has, and the smallest picture.
PERSONAS = {"openai": "chat", "anthropic": "messages", "responses": "responses"}
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Erk"
    "Jggg=="
)
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": HELLO},
    MESSAGES: {"max_tokens": 16, "messages": HELLO},
    RESPONSES: {"input": "Hello there"},
}


def post(
    desk: Desk, path: str, *, headers: dict[str, str] | None = None, **body: Any
) -> requests.Response:
    """A request that is valid but for what `body` says. A value of None stays in as null."""
    given = {"model": desk.model, **BODIES[path], **body}
    return desk.server.post(path, key=desk.account.api_key, json=given, headers=headers or {})


def ok(desk: Desk, path: str, **options: Any) -> Any:
    """The body of an answer that must be a 200; money in it is exact."""
    response = post(desk, path, **options)
    assert response.status_code == 200, response.text
    return exact(response)


def post_refused(desk: Desk, path: str, **body: Any) -> Any:
    """The error of a request that is a 400 before anything is sent or charged."""
    response = post(desk, path, **body)
    assert response.status_code == 400, response.text
    assert desk.upstream.requests() == []
    assert desk.total_usage_nano() == desk.spent_nano
    error = exact(response)["error"]
    assert error["code"] == 400
    return error


def refusals(package: Any, **others: tuple[int, str]) -> list[tuple[str, int, Any, bool]]:
    """A provider's failures with the status and the class that a client library of that package
    makes of each. Each stands with and without a stream. `others` are those that its format reports
    otherwise, by the name of the fault with an underscore for the hyphen."""
    told = {
        "400": (400, "BadRequestError"),
        "401": (502, "InternalServerError"),
        "403-policy": (403, "PermissionDeniedError"),
        "404": (404, "NotFoundError"),
        "422": (422, "UnprocessableEntityError"),
        "429": (429, "RateLimitError"),
        "500": (502, "InternalServerError"),
        "529": (529, "InternalServerError"),
    }
    told |= {name.strip("_").replace("_", "-"): known for name, known in others.items()}
    return [
        (fault, status, getattr(package, name), number % 2 == 1)
        for number, (fault, (status, name)) in enumerate(told.items())
    ]
