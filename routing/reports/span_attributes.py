"""Attempts and content in the words of OpenTelemetry's conventions for generative models.

An upstream's text of a failure may quote the prompt, and stays out.
"""

from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from gateway.http.jsonio import JsonObject, dumps
from gateway.tracing.spans import Attribute
from routing.history.content_draft import ContentDraft
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


# --- Content, where the workspace logs it ---------------------------------------------------------

# Of prompt and answer each; collectors refuse batches of a few megabytes.
CHARS_MAX: Final = 16_384


def describe_content(content: ContentDraft) -> dict[str, Attribute | None]:
    """`gen_ai.input.messages` and `gen_ai.output.messages` as JSON text, in the schema of the
    conventions. Too long texts are cut, and `gateway.content_truncated` is true then."""
    budget = _Budget(CHARS_MAX)
    prompt = [_convert_message(message, budget) for message in content.messages]
    parts: list[JsonObject] = []
    answer_budget = _Budget(CHARS_MAX)
    if content.reasoning:
        text = answer_budget.take("".join(content.reasoning))
        parts.append({"type": "reasoning", "content": text})
    if content.text:
        parts.append({"type": "text", "content": answer_budget.take("".join(content.text))})
    parts += _convert_calls(content.tool_calls, answer_budget)
    is_cut = content.truncated or budget.is_spent or answer_budget.is_spent
    return {
        "gen_ai.input.messages": dumps([each for each in prompt if each["parts"]]).decode(),
        "gen_ai.output.messages": dumps([{"role": "assistant", "parts": parts}]).decode()
        if parts
        else None,
        "gateway.content_truncated": True if is_cut else None,
    }


class _Budget:
    def __init__(self, chars: int) -> None:
        self._left = chars
        self.is_spent = False

    def take(self, text: str) -> str:
        taken = text[: self._left]
        self.is_spent |= len(taken) < len(text)
        self._left -= len(taken)
        return taken


def _convert_message(message: JsonObject, budget: _Budget) -> JsonObject:
    parts: list[JsonObject] = []
    if budget.is_spent:
        return {"role": message.get("role"), "parts": parts}
    content = message.get("content")
    if message.get("role") == "tool":
        text = budget.take(content if isinstance(content, str) else "")
        parts.append(
            {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": text}
        )
    elif isinstance(content, str):
        parts.append({"type": "text", "content": budget.take(content)})
    elif isinstance(content, list):
        for part in content:
            if not isinstance(part, dict) or budget.is_spent:
                continue
            if isinstance(part.get("text"), str):
                parts.append({"type": "text", "content": budget.take(part["text"])})
            else:
                # Of media only the kind: a picture is no attribute.
                parts.append({"type": str(part.get("type"))[:64]})
    parts += _convert_calls(message.get("tool_calls"), budget)
    return {"role": message.get("role"), "parts": parts}


def _convert_calls(calls: object, budget: _Budget) -> list[JsonObject]:
    parts: list[JsonObject] = []
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or budget.is_spent:
            continue
        arguments = function.get("arguments")
        parts.append(
            {
                "type": "tool_call",
                "id": call.get("id"),
                "name": function.get("name"),
                "arguments": budget.take(arguments if isinstance(arguments, str) else ""),
            }
        )
    return parts
