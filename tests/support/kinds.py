"""A gateway with one model for each wire kind, every provider played by the simulated upstream."""

from dataclasses import dataclass
from typing import Any, Final

import requests
import yaml

from routing.simulator.testing import SimulatedUpstream
from tests.support.gateways import SeededAccount
from tests.support.server import GatewayServer

# Provider (and persona) by wire kind; `acme/<kind>` is its model.
PROVIDERS: Final = {"openai": "chatty", "anthropic": "messy", "responses": "respy"}
CHAT, MESSAGES, RESPONSES = (
    f"/api/v1/{name}" for name in ("chat/completions", "messages", "responses")
)
_HELLO: Final = [{"role": "user", "content": "Hello there"}]
BODIES: Final[dict[str, dict[str, Any]]] = {
    CHAT: {"messages": _HELLO},
    MESSAGES: {"messages": _HELLO, "max_tokens": 500},
    RESPONSES: {"input": "Hello there"},
    f"{MESSAGES}/count_tokens": {"messages": _HELLO},
}
_TAKES: Final = [
    *("temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "response_format"),
    *("structured_outputs", "tools", "tool_choice", "parallel_tool_calls", "reasoning"),
]


def catalogue_of(url: str) -> str:
    """The catalogue file: `acme/<kind>` at its provider, `acme/both` at the first two."""
    endpoints = {kind: _endpoint(slug) for kind, slug in PROVIDERS.items()}
    models = [_model(kind, [each]) for kind, each in endpoints.items()]
    models.append(_model("both", [endpoints["anthropic"], endpoints["openai"]]))
    providers = [_provider(url, kind, slug) for kind, slug in PROVIDERS.items()]
    text: str = yaml.safe_dump({"providers": providers, "models": models})
    return text


def _provider(url: str, kind: str, slug: str) -> dict[str, Any]:
    return {
        "slug": slug,
        "name": slug.title(),
        "kind": kind,
        "base_url": f"{url}/{slug}/v1",
        "credential": f"{slug}-credential",
        "supports_cancellation": True,
    }


def _model(name: str, endpoints: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"acme/{name}",
        "canonical_slug": f"acme/{name}-1",
        "name": name.title(),
        "created": 1767225600,
        "context_length": 128_000,
        "input_modalities": ["text", "image", "file"],
        "endpoints": endpoints,
    }


def _endpoint(provider: str) -> dict[str, Any]:
    return {
        "provider": provider,
        "upstream_model": f"up-{provider}",
        "max_completion_tokens": 16_384,
        "pricing": {"prompt": "0.000001", "completion": "0.000002"},
        "supported_parameters": _TAKES,
        "extra_parameters": ["container"],
    }


@dataclass
class KindsDesk:
    """One caller at it."""

    server: GatewayServer
    upstream: SimulatedUpstream
    account: SeededAccount

    def ask(
        self,
        path: str,
        kind: str = "anthropic",
        *,
        key: str | None = None,
        headers: dict[str, str] | None = None,
        **body: Any,
    ) -> requests.Response:
        """A request, valid but for what `body` says, with the account's key; "" sends none."""
        given = {"model": f"acme/{kind}", **BODIES[path], **body}
        sent = self.account.api_key if key is None else key
        return self.server.post(path, key=sent, json=given, headers=headers or {})

    def generation(self, response: requests.Response) -> Any:
        """The record of what answered."""
        wanted = response.headers["X-Generation-Id"]
        record = self.server.get(f"/api/v1/generation?id={wanted}", key=self.account.api_key)
        return record.json()["data"]
