"""Endpoints that speak the chat-completions wire format: hosted ones, vLLM, llama.cpp, Ollama.

Pure: what to send, how to read one answer, how to read one stream event.
"""

from collections.abc import Sequence
from typing import Any, Final

import orjson

from gateway.http.jsonio import JsonObject, dumps
from routing.entities.exchange import (
    Answer,
    Event,
    Prompt,
    ProviderExtras,
    Terms,
    Wire,
    WireRequest,
)
from routing.upstreams.bearer import BearerWire
from routing.upstreams.chat_shape import (
    StreamedCalls,
    needs_shape,
    normalize_message,
    normalize_usage,
)
from routing.upstreams.failures import from_error_object, malformed_answer
from routing.upstreams.payloads import DONE, parse_answer, read_word

CHAT_PATH = "/chat/completions"
# Words for the base tier, and for none.
_TIERS: Final[dict[str, str | None]] = {"on_demand": "default", "standard": "default", "": None}
# What the format or the gateway says itself, and padding that hides how long chunks are.
_KNOWN: Final = frozenset(
    {
        *("id", "object", "created", "model", "choices", "usage", "system_fingerprint"),
        *("service_tier", "error", "provider", "router_metadata", "debug", "obfuscation"),
    }
)
_KNOWN_OF_CHOICE: Final = frozenset(
    {
        *("index", "message", "delta", "finish_reason", "native_finish_reason", "logprobs"),
        "error",
    }
)


def read_answer(body: bytes, content_type: str) -> Answer:
    """Read a whole answer. Raises `UpstreamFailure` where there is none in it."""
    value = parse_answer(body, content_type)
    choice = _find_choice(value.get("choices"))
    if choice is None:
        if error := value.get("error"):
            raise from_error_object(error)
        raise malformed_answer("no choices", raw=body)
    message = choice.get("message")
    if not isinstance(message, dict):
        message = {}
    return Answer(
        message=normalize_message(message) if needs_shape(message) else message,
        native_finish=read_word(choice.get("finish_reason")),
        logprobs=choice.get("logprobs"),
        usage=normalize_usage(_find_usage(value)),
        error=choice.get("error") or value.get("error"),
        upstream_id=read_word(value.get("id")),
        system_fingerprint=read_word(value.get("system_fingerprint")),
        service_tier=_read_tier(value.get("service_tier")),
        beside=_read_extras(value, choice),
    )


def read_event(data: bytes, *, is_first: bool = False) -> Event:
    """Read one stream event other than `[DONE]`. Raises `UpstreamFailure` for what is no JSON."""
    try:
        value = orjson.loads(data)
    except ValueError:
        raise malformed_answer("a stream event is no JSON", raw=data) from None
    if not isinstance(value, dict):
        raise malformed_answer("a stream event is no object", raw=data)
    choice = _find_choice(value.get("choices"))
    has_choice = choice is not None
    if choice is None:
        choice = {}
    delta, usage, tier = choice.get("delta"), _find_usage(value), value.get("service_tier")
    finish = choice.get("finish_reason")
    event = Event(
        delta if isinstance(delta, dict) else {},
        finish,
        choice.get("logprobs"),
        normalize_usage(usage),
        value.get("error") or choice.get("error"),
        value.get("id"),
        value.get("system_fingerprint"),
        None if tier is None else _read_tier(tier),
        has_choice,
    )
    if finish or usage or is_first or not has_choice:
        # Providers say these things at both ends of a stream; others cost every chunk.
        event.beside = _read_extras(value, choice)
    return event


def _read_extras(value: JsonObject, choice: JsonObject) -> ProviderExtras | None:
    answer = {name: each for name, each in value.items() if name not in _KNOWN}
    choice_fields = {name: each for name, each in choice.items() if name not in _KNOWN_OF_CHOICE}
    return ProviderExtras(answer, choice_fields) if answer or choice_fields else None


def _read_tier(value: object) -> str | None:
    tier = read_word(value)
    return None if tier is None else _TIERS.get(tier, tier)


def _find_choice(choices: object) -> JsonObject | None:
    """The choice of index 0, for callers cannot ask for more than one."""
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and not choice.get("index"):
            return choice
    return None


def _find_usage(value: JsonObject) -> Any:
    """Groq's streams have it among words of its own."""
    usage = value.get("usage")
    if usage is None and isinstance(groq := value.get("x_groq"), dict):
        return groq.get("usage")
    return usage


class Reader:
    """Reads one stream; `[DONE]` is its end."""

    __slots__ = ("_calls", "_has_choice", "ended")

    def __init__(self) -> None:
        self.ended = False
        self._has_choice = False
        self._calls: StreamedCalls | None = None

    def events(self, payload: bytes) -> Sequence[Event]:
        if payload[:6] == DONE:
            if not self._has_choice:
                raise malformed_answer("a stream without choices")
            self.ended = True
            remainder = self._calls.complete({}) if self._calls is not None else None
            return (Event(remainder),) if remainder else ()
        event = read_event(payload, is_first=not self._has_choice)
        if event.has_choice:
            self._has_choice = True
        if needs_shape(event.delta):
            self._calls = self._calls or StreamedCalls()
            event.delta = self._calls.normalize(event.delta)
        if self._calls is not None and event.native_finish:
            event.delta = self._calls.complete(event.delta)
        return (event,)


class OpenAI(BearerWire):
    """See `Wire`. The chat format speaks this wire format itself: what it made for the endpoint is
    the prompt's body, which is sent as it stands."""

    kind = "openai"
    takes_budgets = True
    answer = staticmethod(read_answer)
    reader = Reader

    def request(self, prompt: Prompt, terms: Terms) -> WireRequest:
        headers = self.headers(terms.credential, stream=bool(prompt.body.get("stream")))
        return WireRequest(CHAT_PATH, headers, dumps(prompt.body))


OPENAI: Final[Wire] = OpenAI()
