"""Endpoints that speak the responses API.

The body of a caller who speaks this very format is passed on, but for the gateway's own fields."""

from typing import Any, Final

from gateway.http.jsonio import JsonObject, dumps
from routing.entities.exchange import Answer, Prompt, StreamReader, Terms, Wire, WireRequest
from routing.entities.ids import is_own_reasoning
from routing.upstreams.bearer import BearerWire
from routing.upstreams.responses.answer import KIND, read_answer
from routing.upstreams.responses.input_items import is_of_this_wire
from routing.upstreams.responses.request import (
    LOGPROBS,
    SEALED_REASONING,
    build_request,
    put_common,
    takes_reasoning,
)
from routing.upstreams.responses.stream import ResponsesReader

PATH: Final = "/responses"


class Responses(BearerWire):
    """See `Wire`. Nothing is stored upstream: every call brings its whole conversation."""

    kind = KIND
    takes_budgets = False
    output_tokens_min = 16
    usual_parameters: tuple[str, ...] = (
        *("temperature", "top_p", "max_tokens", "response_format", "structured_outputs"),
        *("tools", "tool_choice", "parallel_tool_calls", "reasoning", "reasoning_effort"),
    )

    def request(self, prompt: Prompt, terms: Terms) -> WireRequest:
        if prompt.original is not None:
            body = build_passthrough(prompt.original, prompt, terms)
        else:
            body = build_request(prompt, terms)
        headers = self.headers(terms.credential, stream=prompt.stream)
        return WireRequest(PATH, headers, dumps(body))

    def answer(self, body: bytes, content_type: str) -> Answer:
        return read_answer(body, content_type)

    def reader(self) -> StreamReader:
        return ResponsesReader()


RESPONSES: Final[Wire] = Responses()


# --- The caller's own body -----------------------------------------------------------------------

_TOOLS: Final = ("tools", "tool_choice", "parallel_tool_calls")
_TEXT: Final = {"format": "response_format", "verbosity": "verbosity"}
# What the gateway resolves into an effort.
_WISHES: Final = ("effort", "enabled", "max_tokens")


def build_passthrough(original: JsonObject, prompt: Prompt, terms: Terms) -> JsonObject:
    """The JSON object to send. Items, tools and what is in them go as they came."""
    supported = terms.supported
    sent: JsonObject = {
        "model": terms.upstream_model,
        "input": _filter_input(original["input"]),
        "store": False,
    }
    if original.get("instructions") is not None:
        sent["instructions"] = original["instructions"]
    put_common(sent, original, prompt, terms)
    kinds = [item.get("type") for item in original["input"] if isinstance(item, dict)]
    has_tools = original.get("tools") or "additional_tools" in kinds
    if "tools" in supported and has_tools:
        for name in _TOOLS:
            if original.get(name) is not None and name in supported:
                sent[name] = original[name]
    text = {
        name: value
        for name, value in (original.get("text") or {}).items()
        if value is not None and _TEXT.get(name, "response_format") in supported
    }
    if text:
        sent["text"] = text
    _put_reasoning(sent, original, prompt, terms)
    if original.get("top_logprobs") is not None and "top_logprobs" in supported:
        sent["top_logprobs"] = int(original["top_logprobs"])
    if include := _build_include(original, prompt, terms):
        sent["include"] = include
    return sent


def _has_tools(original: JsonObject) -> bool:
    return bool(original.get("tools")) or any(
        item.get("type") == "additional_tools"
        for item in original["input"]
        if isinstance(item, dict)
    )


def _filter_input(items: str | list[Any]) -> str | list[Any]:
    """The items without the gateway's own tools, and without reasoning that means nothing to this
    kind of upstream."""
    if isinstance(items, str):
        return items
    agents = {item["call_id"] for item in items if item.get("subagent_id")}
    sent: list[Any] = []
    for item in items:
        kind = item.get("type")
        is_own_tool = isinstance(kind, str) and kind.startswith("router:")
        if is_own_tool or (agents and item.get("call_id") in agents):
            continue
        if kind == "reasoning":
            if not _is_replayed(item):
                continue
            if "format" in item:
                # The gateway's own note of who wrote it.
                item = {name: value for name, value in item.items() if name != "format"}
        sent.append(item)
    return sent


def _is_replayed(item: JsonObject) -> bool:
    """Nothing is stored, so an item must hold its reasoning, sealed or as text; and text must be
    such an upstream's own, not that of another kind which the gateway made an item of."""
    format = item.get("format")
    if format not in (None, "unknown") and not is_of_this_wire(format):
        return False
    if item.get("encrypted_content") is not None:
        return True
    return (
        bool(item.get("content")) and format != "unknown" and not is_own_reasoning(item.get("id"))
    )


def _put_reasoning(sent: JsonObject, original: JsonObject, prompt: Prompt, terms: Terms) -> None:
    if not takes_reasoning(terms):
        return
    fields = original.get("reasoning") or {}
    reasoning: JsonObject = {}
    if prompt.effort is not None:
        reasoning["effort"] = prompt.effort
    for name, value in fields.items():
        if value is not None and name not in _WISHES:
            reasoning[name] = value
    if reasoning:
        sent["reasoning"] = reasoning


def _build_include(original: JsonObject, prompt: Prompt, terms: Terms) -> list[str]:
    """What the caller wants, and sealed reasoning from those who reason: items without it could not
    be sent again, for nothing is stored."""
    excluded = {SEALED_REASONING}
    if "logprobs" not in terms.supported:
        excluded.add(LOGPROBS)
    include = [name for name in original.get("include") or () if name not in excluded]
    if takes_reasoning(terms) and prompt.effort != "none":
        include.append(SEALED_REASONING)
    return include
