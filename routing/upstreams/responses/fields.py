"""Which fields of a body are an endpoint's, and how the chat vocabulary's words apply to them."""

from typing import Any, Final

from routing.entities.exchange import Prompt, Terms

LOGPROBS: Final = "message.output_text.logprobs"
SEALED_REASONING: Final = "reasoning.encrypted_content"
_REASONING: Final = frozenset({"reasoning", "reasoning_effort"})
# Never copied, even when an endpoint lists them: they address the gateway, are written by it, or
# are sent by a rule of their own.
OWNED: Final = frozenset(
    {
        *("model", "models", "fallbacks", "route", "provider", "preset", "plugins", "transforms"),
        *("stream", "stream_options", "usage", "debug", "metadata", "session_id", "trace"),
        *("user", "safety_identifier", "stop_server_tools_when", "structured_outputs"),
        *("messages", "input", "instructions", "include", "store", "background"),
        *("previous_response_id", "conversation", "prompt", "n"),
        *("max_tokens", "max_completion_tokens", "max_output_tokens"),
        *("tools", "tool_choice", "parallel_tool_calls", "web_search_options"),
        *("reasoning", "reasoning_effort", "include_reasoning"),
        *("response_format", "verbosity", "text", "logprobs", "top_logprobs"),
    }
)


def put_base(
    sent: dict[str, Any],
    body: dict[str, Any],
    prompt: Prompt,
    terms: Terms,
    *,
    without: frozenset[str] = frozenset(),
) -> None:
    """What both kinds of body have in common: everything but the conversation and the groups."""
    for name in terms.supported.intersection(body) - OWNED - without:
        if body[name] is not None:
            sent[name] = body[name]
    if sent.get("service_tier") == "fast":
        sent["service_tier"] = "priority"
    if type(sent.get("top_k")) is float:
        sent["top_k"] = int(sent["top_k"])
    if prompt.max_output_tokens is not None:
        sent["max_output_tokens"] = output_cap(prompt, terms)
    if terms.user_hash is not None:
        put_user(sent, terms.user_hash, terms.supported)
    # Some upstreams stream where nothing is said.
    sent["stream"] = prompt.stream


def put_user(sent: dict[str, Any], user_hash: str, supported: frozenset[str]) -> None:
    """The end user's identity under the newer of the names that the endpoint takes."""
    for name in ("safety_identifier", "user"):
        if name in supported:
            sent[name] = user_hash
            return


def output_cap(prompt: Prompt, terms: Terms) -> int | None:
    """The caller's cap inside the endpoint's, in tokens."""
    caps = [cap for cap in (prompt.max_output_tokens, terms.output_cap) if cap is not None]
    return min(caps, default=None)


def reasons(terms: Terms) -> bool:
    """Whether the endpoint takes reasoning settings."""
    return not _REASONING.isdisjoint(terms.supported)
