"""Probes of a model's parameters: one small call each for log-probabilities, tools and a JSON
schema. If a call is inconclusive, the assumed parameters stay."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

from gateway.http.errors import MalformedJson
from gateway.http.jsonio import loads
from gateway.outbound.errors import OutboundError
from routing.entities.exchange import Answer, Prompt, Terms
from routing.providers.discovery import FoundModel, KnownProvider
from routing.upstreams.failures import UpstreamFailure
from routing.upstreams.wires import call_once, get_wire

# Models of one provider; their calls take this long together at most.
MODELS_MAX: Final = 20
TOTAL_S: Final = 180.0
AT_ONCE: Final = 4
# A server of one's own may have to load the model first.
_CALL_S: Final = 60.0
_OUTPUT_TOKENS_MAX: Final = 64
# Statuses that mean that the parameter is not supported; other failures may pass.
_REFUSALS: Final = frozenset({400, 404, 405, 415, 422, 500, 501})


class ProbeOutcome(Enum):
    """What a model did with a parameter."""

    DONE = "yes"
    IGNORED = "ignored"
    REFUSED = "no"
    UNTOLD = "untold"


class Probe(NamedTuple):
    """A call that uses the parameters `proves`. If the answer does not satisfy `heeded`, only
    those in `ignored` count as supported."""

    name: str
    proves: tuple[str, ...]
    ignored: tuple[str, ...]
    question: str
    body: Mapping[str, Any]
    heeded: Callable[[Answer], bool]


class ProbeResult(NamedTuple):
    """A model's parameters, the outcomes by probe, and whether it chats at all."""

    parameters: list[str]
    outcomes: dict[str, str]
    chats: bool


def _has_logprobs(answer: Answer) -> bool:
    content = answer.logprobs.get("content") if isinstance(answer.logprobs, dict) else None
    first = content[0] if isinstance(content, list) and content else None
    return isinstance(first, dict) and bool(first.get("top_logprobs"))


def _fits_schema(answer: Answer) -> bool:
    text = answer.message.get("content")
    try:
        value = loads(text.encode()) if isinstance(text, str) else None
    except MalformedJson:
        return False
    return isinstance(value, dict) and type(value.get("blue")) is bool


_SCHEMA: Final = {
    "type": "object",
    "properties": {"blue": {"type": "boolean"}},
    "required": ["blue"],
    "additionalProperties": False,
}
_TOOL: Final = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
PROBES: Final = (
    Probe(
        "logprobs",
        ("logprobs", "top_logprobs"),
        (),
        "Is the sky blue? Say yes or no.",
        # As many as decisions ask for.
        {"logprobs": True, "top_logprobs": 20},
        _has_logprobs,
    ),
    Probe(
        "tools",
        ("tools", "tool_choice"),
        ("tools",),
        "What is the weather in Oslo?",
        {"tools": [_TOOL], "tool_choice": "required"},
        lambda answer: bool(answer.message.get("tool_calls")),
    ),
    Probe(
        "json_schema",
        ("response_format", "structured_outputs"),
        (),
        # Nothing in it asks for JSON.
        "Is the sky blue? Say yes or no.",
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "sky", "strict": True, "schema": _SCHEMA},
            }
        },
        _fits_schema,
    ),
)
_PLAIN: Final = Probe("plain", (), (), "Say hello.", {}, lambda answer: True)


def probe_models(
    provider: KnownProvider,
    key: str | None,
    models: Sequence[FoundModel],
    *,
    within_s: float = TOTAL_S,
) -> dict[str, ProbeResult]:
    """What the first of these models take, by id. Raises nothing: who does not answer tells
    nothing."""
    deadline = time.monotonic() + within_s
    probed = models[:MODELS_MAX]
    work = partial(_probe_model, provider, key, deadline)
    with ThreadPoolExecutor(max_workers=AT_ONCE) as threads:
        results = list(threads.map(work, probed))
    return {model.id: result for model, result in zip(probed, results, strict=True)}


def _probe_model(
    provider: KnownProvider, key: str | None, deadline: float, model: FoundModel
) -> ProbeResult:
    parameters = list(model.supported_parameters)
    outcomes: dict[str, ProbeOutcome] = {}
    for probe in PROBES:
        outcome = outcomes[probe.name] = _run_probe(provider, key, deadline, model, probe)
        if outcome is ProbeOutcome.UNTOLD:
            continue
        parameters = [each for each in parameters if each not in probe.proves]
        if outcome is ProbeOutcome.DONE:
            parameters += probe.proves
        elif outcome is ProbeOutcome.IGNORED:
            parameters += probe.ignored
    chats = True
    if set(outcomes.values()) == {ProbeOutcome.REFUSED}:
        # It refuses every probe: perhaps it does not chat.
        chats = _run_probe(provider, key, deadline, model, _PLAIN) is not ProbeOutcome.REFUSED
    return ProbeResult(parameters, {name: each.value for name, each in outcomes.items()}, chats)


def _run_probe(
    provider: KnownProvider, key: str | None, deadline: float, model: FoundModel, probe: Probe
) -> ProbeOutcome:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        return ProbeOutcome.UNTOLD
    messages = [{"role": "user", "content": probe.question}]
    capped = {} if probe is _PLAIN else {"max_tokens": _OUTPUT_TOKENS_MAX}
    body = {"model": model.upstream_model, "messages": messages, **capped, **probe.body}
    prompt = Prompt(body, None, False, capped.get("max_tokens"), None, None, False)
    takes = frozenset((*model.supported_parameters, *probe.proves))
    terms = Terms(model.upstream_model, takes, None, key, None, _OUTPUT_TOKENS_MAX)
    try:
        with call_once(
            provider.base_url, provider.kind, prompt, terms, total_s=min(_CALL_S, left_s)
        ) as reply:
            status, content_type = reply.status, reply.headers.get("content-type", "")
            content = reply.read_all()
    except (OutboundError, ValueError):
        return ProbeOutcome.UNTOLD
    if not 200 <= status < 300:
        return ProbeOutcome.REFUSED if status in _REFUSALS else ProbeOutcome.UNTOLD
    try:
        answer = get_wire(provider.kind).answer(content, content_type)
    except UpstreamFailure:
        return ProbeOutcome.UNTOLD
    if answer.error is not None:
        return ProbeOutcome.REFUSED
    if probe.heeded(answer):
        return ProbeOutcome.DONE
    # An answer that was cut off says nothing.
    is_cut_off = answer.native_finish in ("length", "max_tokens")
    return ProbeOutcome.UNTOLD if is_cut_off else ProbeOutcome.IGNORED
