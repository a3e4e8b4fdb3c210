"""What adapters share: JSON as upstreams send it, and the parts of a wire with a bearer token."""

from typing import Any, Final

import orjson
import pydantic_core

from gateway.http.jsonio import DEPTH_MAX, JsonObject, has_digits_in_a_row, is_deeper_than
from routing.entities.exchange import ListedModel, WireRequest
from routing.upstreams.failures import malformed_answer

DONE: Final = b"[DONE]"


def parse_answer(body: bytes, content_type: str) -> JsonObject:
    """Raises `UpstreamFailure` for what is of another type, or no object."""
    if content_type and "json" not in content_type.lower():
        raise malformed_answer(f"an answer of type {content_type[:80]!r}", raw=body)
    return _parse_object(body, "the answer")


def parse_event(payload: bytes) -> JsonObject:
    """Raises `UpstreamFailure` for what is no object."""
    return _parse_object(payload, "a stream event")


def _parse_object(raw: bytes, what: str) -> JsonObject:
    try:
        value = orjson.loads(raw)
    except ValueError:
        raise malformed_answer(f"{what} is no JSON", raw=raw) from None
    if type(value) is not dict:
        raise malformed_answer(f"{what} is no object", raw=raw)
    return value


# The fewest digits of an integer past 64 bits, which the first parser takes for a float.
_LONG_DIGITS: Final = 19


def parse_exactly(raw: bytes) -> Any:
    """The value. Raises `ValueError` for what is no JSON or too deep to be written again."""
    return restore_long_integers(orjson.loads(raw), raw)


def restore_long_integers(value: object, raw: bytes) -> Any:
    """What `raw` was parsed to, with its integers as they are written. Raises `ValueError` where it
    is too deep to be written again."""
    if is_deeper_than(DEPTH_MAX, raw):
        raise ValueError
    if has_digits_in_a_row(_LONG_DIGITS, raw):
        return pydantic_core.from_json(raw, allow_inf_nan=False)
    return value


def read_word(value: object) -> str | None:
    """A provider's own word for something, without the NUL that no database takes."""
    return value.replace("\0", "") if isinstance(value, str) else None


MODELS_PATH: Final = "/models"
# What nearly every server takes. An operator who knows more edits the endpoint.
USUAL_PARAMETERS: Final = (
    *("temperature", "top_p", "frequency_penalty", "presence_penalty"),
    *("max_tokens", "seed", "response_format", "structured_outputs", "stop"),
    *("tools", "tool_choice"),
)


class BearerWire:
    """The parts of `Wire` that most wire kinds do not decide for themselves."""

    needs_output_cap = False
    keeps_tools_when_off = False
    takes_prefill = False
    output_tokens_min = 1
    usual_parameters: tuple[str, ...] = USUAL_PARAMETERS
    # As OpenAI's "Debugging requests" names it; other servers ignore it.
    request_id_header: str | None = "X-Client-Request-Id"
    cache_lifetime_s: float | None = None

    def headers(self, credential: str | None, *, stream: bool) -> tuple[tuple[str, str], ...]:
        headers = [
            ("Content-Type", "application/json"),
            ("Accept", "text/event-stream" if stream else "application/json"),
        ]
        if credential:
            headers.append(("Authorization", f"Bearer {credential}"))
        return tuple(headers)

    def with_betas(self, request: WireRequest, betas: str) -> WireRequest:
        return request

    def count_tokens(self, request: WireRequest) -> WireRequest | None:
        return None

    def listing(self, credential: str | None) -> WireRequest:
        auth = (("Authorization", f"Bearer {credential}"),) if credential else ()
        return WireRequest(MODELS_PATH, (("Accept", "application/json"), *auth), b"")

    def read_listed(self, entry: JsonObject) -> ListedModel:
        return ListedModel()
