"""What wire kinds have in common whose credential is a bearer token."""

from typing import Final

from gateway.http.jsonio import JsonObject
from routing.entities.exchange import ListedModel, WireRequest

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
