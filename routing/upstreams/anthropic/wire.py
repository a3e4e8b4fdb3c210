"""Endpoints that speak the messages API: what to send, and how to read what they answer."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

import orjson

from gateway.http.jsonio import JsonObject, dumps
from routing.entities.exchange import Answer, ListedModel, Prompt, Terms, WireRequest
from routing.upstreams.anthropic.answer import KIND, read_answer
from routing.upstreams.anthropic.passthrough import build_passthrough
from routing.upstreams.anthropic.request import build_request
from routing.upstreams.anthropic.stream import MessagesReader
from routing.upstreams.bearer import MODELS_PATH

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
    takes_budgets = True
    needs_output_cap = True
    keeps_tools_when_off = True
    takes_prefill = True
    output_tokens_min = 1
    request_id_header: str | None = None
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

    def answer(self, body: bytes, content_type: str) -> Answer:
        """Read a whole answer. Raises `UpstreamFailure` where there is none in it."""
        return read_answer(body, content_type)

    def reader(self) -> MessagesReader:
        """For one stream."""
        return MessagesReader()

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


# --- Beta features --------------------------------------------------------------------------------

_LONG_CACHE: Final = "extended-cache-ttl-2025-04-11"
_CONTEXT: Final = "context-management-2025-06-27"
_FILES: Final = "files-api-2025-04-14"
_SYSTEM_TURNS: Final = "mid-conversation-system-2026-04-07"
_TOOL_CHANGES: Final = "mid-conversation-tool-changes-2026-07-01"
_TASK_BUDGET: Final = "task-budgets-2026-03-13"
_FAST: Final = "fast-mode-2026-02-01"
_THINKING_UPDATES: Final = "thinking-display-updates-2026-08-18"
# For models that think between calls only where they are told to; the others ignore it.
INTERLEAVED: Final = "interleaved-thinking-2025-05-14"
_EDITS: Final = {"compact_20260112": "compact-2026-01-12"}
_TOOLS: Final = {
    "advisor_20260301": "advisor-tool-2026-03-01",
    "computer_20250124": "computer-use-2025-01-24",
    "computer_20251124": "computer-use-2025-11-24",
}
_CHANGES: Final = ("tool_addition", "tool_removal")
# What a caller's header of beta names may hold; no SDK comes near.
_BETA_CHARS_MAX: Final = 1_000
_SEPARATORS: Final = re.compile(r"[,\s]+")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def parse_betas(headers: Iterable[str]) -> str:
    """The beta names of a caller's headers as one comma list, each once. What is no token of HTTP
    is left out, for it goes into another head; so is a header of more than 1000 characters."""
    names = [
        name
        for header in headers
        if len(header) <= _BETA_CHARS_MAX
        for name in _SEPARATORS.split(header)
        if _TOKEN.fullmatch(name)
    ]
    return ",".join(dict.fromkeys(names))


def list_required_betas(body: JsonObject) -> list[str]:
    """The names of the features that a body uses and that the API hides behind `anthropic-beta`,
    each once. Features that have since become part of the API need none."""
    return list(dict.fromkeys([*_list_setting_betas(body), *_list_block_betas(body)]))


def _list_setting_betas(body: JsonObject) -> Iterator[str]:
    edits = (body.get("context_management") or {}).get("edits")
    for edit in _list_objects(edits):
        yield _EDITS.get(str(edit.get("type")), _CONTEXT)
    if (body.get("output_config") or {}).get("task_budget") is not None:
        yield _TASK_BUDGET
    if body.get("speed") == "fast":
        yield _FAST
    if (body.get("thinking") or {}).get("display") == "updates":
        yield _THINKING_UPDATES
    if _has_long_ttl(body):
        yield _LONG_CACHE


def _list_block_betas(body: JsonObject) -> Iterator[str]:
    for tool in _list_objects(body.get("tools")):
        if (beta := _TOOLS.get(str(tool.get("type")))) is not None:
            yield beta
        if _has_long_ttl(tool):
            yield _LONG_CACHE
    for message in _list_objects(body.get("messages")):
        if message.get("role") == "system":
            yield _SYSTEM_TURNS
        if isinstance(content := message.get("content"), list):
            yield from _list_content_betas(content)
    yield from _list_content_betas(body.get("system"))


def _list_content_betas(content: object) -> list[str]:
    """A list, for most contents have none, and a generator for each costs more than the look."""
    betas: list[str] = []
    for block in _list_objects(content):
        if "cache_control" in block and _has_long_ttl(block):
            betas.append(_LONG_CACHE)
        source = block.get("source")
        if isinstance(source, dict) and source.get("type") == "file":
            betas.append(_FILES)
        if block.get("type") in _CHANGES:
            betas.append(_TOOL_CHANGES)
        if isinstance(inner := block.get("content"), list):
            betas += _list_content_betas(inner)
    return betas


def _list_objects(value: object) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _has_long_ttl(marked: JsonObject) -> bool:
    mark = marked.get("cache_control")
    return isinstance(mark, dict) and mark.get("ttl") == "1h"
