"""The gateway as the agent sees it: a Unix socket that lets through models and the guarded door.

What keeps the socket adds the intern's key to each call; the agent never has it.
"""

import json
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpx2
from pydantic_ai.models.openrouter import OpenRouterModel
from pydantic_ai.providers.openrouter import OpenRouterProvider

from interns.agent.config import AgentConfig
from interns.agent.events import JsonObject

# A name for "the workspace's default", which the gateway uses where a request names no model.
WORKSPACE_DEFAULT = "workspace/default"
CONNECT_S = 5.0
MODEL_CALL_S = 600.0
_FETCH_S = 40.0
_UNUSED_KEY = "added-by-the-gateway's-socket"


# That of the turn under way.
TRACEPARENT: ContextVar[str] = ContextVar("traceparent", default="")


class GatewayTransport(httpx2.AsyncHTTPTransport):
    """Takes the model's name out of requests that leave the choice to the workspace, and adds the
    turn's trace."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if traceparent := TRACEPARENT.get():
            request.headers["traceparent"] = traceparent
        body = json.loads(await request.aread() or b"null")
        if isinstance(body, dict) and body.get("model") == WORKSPACE_DEFAULT:
            del body["model"]
            content = json.dumps(body).encode()
            headers = [(n, v) for n, v in request.headers.raw if n.lower() != b"content-length"]
            request = httpx2.Request(
                request.method,
                request.url,
                headers=headers,
                content=content,
                extensions=request.extensions,
            )
        return await super().handle_async_request(request)


def build_client(config: AgentConfig) -> httpx2.AsyncClient:
    """A client whose base is the gateway's API."""
    return httpx2.AsyncClient(
        transport=GatewayTransport(uds=config.gateway_socket),
        base_url=f"http://gateway{config.api_path}",
        timeout=httpx2.Timeout(MODEL_CALL_S, connect=CONNECT_S),
        trust_env=False,
    )


def build_model(config: AgentConfig, http: httpx2.AsyncClient) -> OpenRouterModel:
    """The intern's model, asked through the gateway."""
    from openai import AsyncOpenAI

    openai = AsyncOpenAI(
        api_key=_UNUSED_KEY,
        base_url=str(http.base_url),
        http_client=http,
        max_retries=1,
    )
    provider = OpenRouterProvider(openai_client=openai)
    return OpenRouterModel(config.model or WORKSPACE_DEFAULT, provider=provider)


class GatewayRefused(Exception):
    """The guarded door did not fetch; the text says why."""


@dataclass(frozen=True)
class GatewayClient:
    """The guarded way out of the sandbox."""

    http: httpx2.AsyncClient
    intern_id: str

    async def fetch(self, request: JsonObject) -> JsonObject:
        """What the site said, as the door tells it. Raises `GatewayRefused`."""
        return await self._ask("POST", f"/interns/{self.intern_id}/fetch", json=request)

    async def secrets(self) -> list[JsonObject]:
        """The secrets that may be named in a request: name, hosts, scope. Never a value."""
        path = f"/vault/interns/{self.intern_id}/effective-secrets"
        found: list[JsonObject] = (await self._ask("GET", path))["data"]
        return found

    async def _ask(self, method: str, path: str, **options: Any) -> JsonObject:
        try:
            answer = await self.http.request(method, path, timeout=_FETCH_S, **options)
        except httpx2.HTTPError as error:
            raise GatewayRefused("the gateway cannot be reached") from error
        try:
            body = answer.json()
        except ValueError:
            body = None
        body = body if isinstance(body, dict) else {}
        if answer.is_success:
            return body
        error_object = body.get("error")
        raise GatewayRefused(
            error_object["message"] if isinstance(error_object, dict) else str(answer.status_code)
        )
