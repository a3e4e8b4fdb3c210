"""An attempt in the words of OpenTelemetry's conventions for generative models. What the upstream
said of a failure may quote the prompt, and stays out."""

from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from gateway.tracing.spans import Attribute
from routing.serving.request.context import Attempt

_NANO_PER_USD: Final = 1_000_000_000


def describe_attempt(attempt: Attempt) -> dict[str, Attribute | None]:
    endpoint = attempt.endpoint
    host, port = _read_address(endpoint.provider.base_url)
    attributes: dict[str, Attribute | None] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": endpoint.provider.slug,
        "gen_ai.request.model": endpoint.upstream_model,
        "gen_ai.response.id": attempt.upstream_id,
        "server.address": host,
        "server.port": port,
        "http.response.status_code": attempt.status or None,
        "error.type": attempt.failure.error_type if attempt.failure else None,
        "gateway.model": endpoint.model_id,
        "gateway.endpoint": endpoint.tag,
        "gateway.own_credential": True if attempt.own is not None else None,
    }
    if attempt.priced is not None:
        usage, cost = attempt.priced
        attributes |= {
            "gen_ai.response.model": endpoint.canonical_slug,
            "gen_ai.usage.input_tokens": usage.prompt_tokens,
            "gen_ai.usage.output_tokens": usage.completion_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens or None,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens or None,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens or None,
            "gateway.usage_estimated": usage.estimated or None,
            "gateway.cost_usd": cost.total_nano / _NANO_PER_USD,
        }
    return attributes


def has_first_token(attempt: Attempt) -> bool:
    """An answer in one piece has its first token when it ends."""
    return attempt.first_token is not None and attempt.first_token != attempt.ended


@lru_cache(maxsize=1024)
def _read_address(base_url: str) -> tuple[str | None, int | None]:
    parts = urlsplit(base_url)
    return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
