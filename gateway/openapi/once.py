"""The `Idempotency-Key` header, written into the description of every POST that takes it."""

from collections.abc import Iterator
from typing import Any, Final

from gateway.http.jsonio import JsonObject
from gateway.openapi.errors import MEANINGS

# A count has nothing to happen twice, and interns and vaults have manners of their own.
_WITHOUT: Final = ("/api/v1/messages/count_tokens", "/api/v1/interns", "/api/v1/vault")
_CONFLICT: Final = "409"
_HEADER: Final = {
    "in": "header",
    "name": "Idempotency-Key",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "description": (
        "Names this request among the key's on this path: sent again with the same body it happens "
        "once, and is answered as before. 409 while the first is in progress, with another body, "
        "and where the answer is not kept."
    ),
}


def describe_idempotency(
    result: JsonObject, generator: Any, request: Any, public: bool
) -> JsonObject:
    """A postprocessing hook of drf-spectacular."""
    for operation in _posts(result):
        operation["parameters"] = [*operation.get("parameters", ()), _HEADER]
        responses = operation["responses"]
        # Whatever body the operation's refusals have.
        refusal = responses.get("400") or responses["401"]
        responses.setdefault(_CONFLICT, {**refusal, "description": MEANINGS[409]})
        operation["responses"] = dict(sorted(responses.items()))
    return result


def _posts(result: JsonObject) -> Iterator[JsonObject]:
    """Operations that take a caller's key."""
    for path, methods in result["paths"].items():
        operation = methods.get("post")
        if operation and {} not in operation.get("security", ()) and not path.startswith(_WITHOUT):
            yield operation
