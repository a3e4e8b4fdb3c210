"""Endpoints that speak the messages API: what to send, and how to read what they answer.

A caller's own body goes to an upstream of the same format as it came, with keys not known here. On
top, only what the API knows and the endpoint lists is sent, and the gateway's own fields never.
"""

from typing import Final

import orjson

from gateway.http.jsonio import JsonObject, dumps
from routing.entities.exchange import ListedModel, Prompt, Terms, WireRequest
from routing.upstreams.anthropic.answer import KIND, read_answer
from routing.upstreams.anthropic.betas import INTERLEAVED, list_required_betas
from routing.upstreams.anthropic.messages import build_empty_turn, lacks_thinking, limit_marks
from routing.upstreams.anthropic.request import (
    build_request,
    close_schema,
    fit_to_thinking,
    limit_budget,
    limit_output,
    put_common,
    refuses_thinking,
    resolve_thinking,
)
from routing.upstreams.anthropic.stream import MessagesReader
from routing.upstreams.base import MODELS_PATH

MESSAGES_PATH: Final = "/messages"
_COUNTING_PATH: Final = "/messages/count_tokens"
# Lists come in pages; this is the longest there is.
_LISTING_PATH: Final = f"{MODELS_PATH}?limit=1000"
_VERSION: Final = ("anthropic-version", "2023-06-01")
_BETA_HEADER: Final = "anthropic-beta"
# What the counter takes of a messages body.
_COUNTED_FIELDS: Final = (
    *("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"),
    *("cache_control", "context_management", "speed"),
)


class AnthropicMessages:
    """The adapter of wire kind `anthropic`; see `Wire`."""

    kind = KIND
    answer = staticmethod(read_answer)
    reader = MessagesReader
    takes_budgets = True
    needs_output_cap = True
    keeps_tools_when_off = True
    takes_prefill = True
    output_tokens_min = 1
    request_id_header: str | None = None
    cache_lifetime_s: float | None = 300.0
    # What every model takes; a list of models names the others.
    usual_parameters: tuple[str, ...] = (
        *("temperature", "top_p", "top_k", "max_tokens", "stop"),
        *("tools", "tool_choice", "parallel_tool_calls", "reasoning"),
    )

    def headers(self, credential: str | None, *, stream: bool) -> tuple[tuple[str, str], ...]:
        headers = [
            ("Content-Type", "application/json"),
            ("Accept", "text/event-stream" if stream else "application/json"),
            _VERSION,
        ]
        if credential:
            headers.append(("x-api-key", credential))
        return tuple(headers)

    def request(self, prompt: Prompt, terms: Terms) -> WireRequest:
        """A messages call: translated, or the caller's own body where it speaks this format."""
        if prompt.original is not None:
            body = build_passthrough(prompt, terms)
            betas = list_required_betas(body)
        else:
            body = build_request(prompt, terms)
            # Callers of other formats know no beta headers, and their models think between calls
            # as a matter of course.
            thinks = body.get("thinking", {}).get("type") == "enabled"
            betas = list_required_betas(body) + (
                [INTERLEAVED] if thinks and "tools" in body else []
            )
        headers = self.headers(terms.credential, stream=prompt.stream)
        if betas:
            headers = (*headers, (_BETA_HEADER, ",".join(betas)))
        return WireRequest(MESSAGES_PATH, headers, dumps(body))

    def with_betas(self, request: WireRequest, betas: str) -> WireRequest:
        """The call with the caller's beta names behind those that its body needs."""
        existing = [value for name, value in request.headers if name.lower() == _BETA_HEADER]
        others = [(name, value) for name, value in request.headers if name.lower() != _BETA_HEADER]
        names = dict.fromkeys(name.strip() for name in ",".join([*existing, betas]).split(","))
        header = (_BETA_HEADER, ",".join(name for name in names if name))
        return WireRequest(request.path, (*others, header), request.body)

    def count_tokens(self, request: WireRequest) -> WireRequest:
        body = orjson.loads(request.body)
        counted = {name: body[name] for name in _COUNTED_FIELDS if name in body}
        return WireRequest(_COUNTING_PATH, request.headers, orjson.dumps(counted))

    def listing(self, credential: str | None) -> WireRequest:
        auth = (("x-api-key", credential),) if credential else ()
        return WireRequest(_LISTING_PATH, (("Accept", "application/json"), _VERSION, *auth), b"")

    def read_listed(self, entry: JsonObject) -> ListedModel:
        """Lists name a model's capabilities. Nearly all models see, so that needs no naming."""
        output = entry.get("max_tokens")
        modalities = [name for name, key in _MODALITIES if _has_capability(entry, key) is not False]
        parameters = [name for key, name in _LISTED_PARAMETERS if _has_capability(entry, key)]
        return ListedModel(
            output_tokens_max=output if type(output) is int and 0 < output < 2**53 else None,
            input_modalities=["text", *modalities],
            parameters=[*self.usual_parameters, *parameters],
        )


ANTHROPIC: Final = AnthropicMessages()

_MODALITIES: Final = (("image", "image_input"), ("file", "pdf_input"))
_LISTED_PARAMETERS: Final = (
    *(("structured_outputs", "response_format"), ("structured_outputs", "structured_outputs")),
    ("effort", "reasoning_effort"),
)


def _has_capability(entry: JsonObject, key: str) -> bool | None:
    """None where the entry does not say."""
    capabilities = entry.get("capabilities")
    capability = capabilities.get(key) if isinstance(capabilities, dict) else None
    return bool(capability.get("supported")) if isinstance(capability, dict) else None


# --- The caller's own body -----------------------------------------------------------------------

# Written below, whatever the caller said.
_BUILT_FIELDS: Final = frozenset(
    {"model", "messages", "max_tokens", "stream", "metadata", "service_tier", "thinking"}
    | {"output_config", "context_management", "tools", "tool_choice"}
)
# They address the gateway.
_GATEWAY_FIELDS: Final = frozenset(
    {"models", "fallbacks", "provider", "plugins", "route", "preset", "session_id", "trace"}
    | {"user", "debug", "usage", "stop_server_tools_when", "max_tool_calls", "transforms"}
)
_NOT_COPIED: Final = _BUILT_FIELDS | _GATEWAY_FIELDS
# No endpoint lists them.
_ALWAYS_SENT: Final = ("system", "cache_control")
_REASONING: Final = frozenset({"reasoning", "reasoning_effort"})
_SCHEMA: Final = frozenset({"response_format", "structured_outputs"})


def build_passthrough(prompt: Prompt, terms: Terms) -> JsonObject:
    """The JSON object to send. The caller's body is neither changed nor copied deeply."""
    original = {key: value for key, value in (prompt.original or {}).items() if value is not None}
    limit = limit_output(prompt, terms)
    sent: JsonObject = {
        "model": terms.upstream_model,
        "max_tokens": limit,
        "messages": original["messages"] or [build_empty_turn()],
    }
    for name, value in original.items():
        listed_as = "stop" if name == "stop_sequences" else name
        is_listed = name in _ALWAYS_SENT or listed_as in terms.supported
        if is_listed and name not in _NOT_COPIED:
            sent[name] = value
    if "tools" in terms.supported:
        tools = [
            tool
            for tool in original.get("tools") or []
            if not str(tool.get("type") or "").startswith("router:")
        ]
        if tools:
            sent["tools"] = tools
            if "tool_choice" in original and "tool_choice" in terms.supported:
                sent["tool_choice"] = original["tool_choice"]
    if (thinking := _fit_thinking(original, terms.supported, limit)) is not None:
        sent["thinking"] = thinking
    given: JsonObject = original.get("output_config") or {}
    config = {key: value for key, value in given.items() if value is not None}
    if not terms.supported & (_REASONING | {"verbosity"}):
        config.pop("effort", None)
    if not terms.supported & _SCHEMA:
        config.pop("format", None)
    if config:
        sent["output_config"] = config
    _put_chat_only(sent, original, prompt, terms)
    if (edits := _fit_context_management(original, sent)) is not None:
        sent["context_management"] = edits
    put_common(sent, prompt, terms, original.get("service_tier"))
    return limit_marks(sent)


def _fit_thinking(original: JsonObject, supported: frozenset[str], limit: int) -> JsonObject | None:
    """As the caller wrote it, with a budget inside the endpoint's cap. None where the reasoning of
    another model was taken out of the conversation."""
    thinking: JsonObject | None = original.get("thinking")
    if thinking is None or not supported & _REASONING:
        return None
    if thinking.get("type") == "enabled" and lacks_thinking(original["messages"]):
        return None
    budget = thinking.get("budget_tokens")
    if budget is None or budget < limit:
        return thinking
    shortened = limit_budget(limit, int(budget))
    return None if shortened is None else {**thinking, "budget_tokens": shortened}


def _fit_context_management(original: JsonObject, sent: JsonObject) -> JsonObject | None:
    """Clearing thinking is refused where there is none."""
    management: JsonObject | None = original.get("context_management")
    edits = (management or {}).get("edits")
    if management is None or not isinstance(edits, list) or "thinking" in sent:
        return management
    remaining = [edit for edit in edits if edit.get("type") != "clear_thinking_20251015"]
    if not remaining:
        return None
    return {**management, "edits": remaining}


def _put_chat_only(sent: JsonObject, original: JsonObject, prompt: Prompt, terms: Terms) -> None:
    """What the request says in the words of chat only. The reasoning, the effort and the schema are
    added where the caller's own body has none. The mark of the cache is taken out where only marked
    blocks are to be cached."""
    config: JsonObject = original.get("output_config") or {}
    added: JsonObject = {}
    if "thinking" not in original and config.get("effort") is None:
        resolved = resolve_thinking(prompt, terms, sent["max_tokens"])
        if resolved.thinking is not None and not (resolved.is_on and refuses_thinking(sent)):
            sent["thinking"] = resolved.thinking
            if resolved.is_on:
                fit_to_thinking(sent)
        # The effort goes with the thinking or stands for how much is written.
        effort = resolved.effort
        if effort is None and "verbosity" in terms.supported and "verbosity" not in original:
            effort = prompt.body.get("verbosity")
        if effort is not None:
            added["effort"] = effort
    wanted = prompt.body.get("response_format") or {}
    if wanted.get("type") == "json_schema" and terms.supported & _SCHEMA:
        schema = wanted["json_schema"].get("schema")
        if config.get("format") is None and schema is not None:
            added["format"] = {"type": "json_schema", "schema": close_schema(schema)}
    if (prompt.body.get("prompt_cache_options") or {}).get("mode") == "explicit":
        sent.pop("cache_control", None)
    if added:
        sent["output_config"] = {**sent.get("output_config", {}), **added}
