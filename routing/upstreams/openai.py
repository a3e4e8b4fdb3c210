"""Endpoints that speak the chat-completions wire format: hosted ones, vLLM, llama.cpp, Ollama.

Pure: what to send, how to read one answer, how to read one stream event. Answers are made whole:
what callers, the tool loop and the books rely on is there, in one shape, whatever the provider left
out. Most events need none of this (`needs_shape`). Missing ids are for the caller's format to make.
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
from routing.upstreams.base import DONE, BearerWire, parse_answer, read_word
from routing.upstreams.failures import from_error_object, malformed_answer

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


_NO_ARGUMENTS: Final = "{}"


def needs_shape(delta: JsonObject) -> bool:
    """Whether a message or delta has what providers spell in their own way."""
    return (
        "tool_calls" in delta
        or type(delta.get("content")) is list
        or type(delta.get("function_call")) is dict
    )


def normalize_message(message: JsonObject) -> JsonObject:
    """A message whose calls have a type and arguments as text, and whose content is text."""
    shaped = _convert_function_call(_flatten_content(message))
    calls = shaped.get("tool_calls")
    if isinstance(calls, list):
        shaped["tool_calls"] = [_normalize_call(call) for call in calls if isinstance(call, dict)]
    return shaped


def _normalize_call(call: JsonObject) -> JsonObject:
    shaped = {**call, "type": call.get("type") or "function"}
    function = call.get("function")
    if isinstance(function, dict):
        text = _arguments_text(function.get("arguments")) or _NO_ARGUMENTS
        shaped["function"] = {**function, "arguments": text}
    return shaped


def _arguments_text(arguments: object) -> str | None:
    """Arguments as the text they should be; None where there are none."""
    return (
        arguments
        if arguments is None or isinstance(arguments, str)
        else orjson.dumps(arguments).decode()
    )


def _flatten_content(message: JsonObject) -> JsonObject:
    """Content in parts as text, its thinking as reasoning (Mistral)."""
    content = message.get("content")
    shaped = dict(message)
    if not isinstance(content, list):
        return shaped
    texts: list[str] = []
    thoughts: list[str] = []
    for part in content:
        if isinstance(part, dict):
            texts.append(_read_text(part))
            thinking = part.get("thinking")
            if isinstance(thinking, list):
                thoughts += [_read_text(each) for each in thinking if isinstance(each, dict)]
            elif isinstance(thinking, str):
                thoughts.append(thinking)
    shaped["content"] = "".join(texts) or None
    if (thought := "".join(thoughts)) and not message.get("reasoning"):
        shaped["reasoning"] = thought
    return shaped


def _convert_function_call(message: JsonObject) -> JsonObject:
    """The call of a function, as providers said it before there were tools, as that of a tool.
    Some fill it in with a call of nothing."""
    function = message.get("function_call")
    is_call = isinstance(function, dict) and (function.get("name") or function.get("arguments"))
    if not is_call or message.get("tool_calls"):
        return message
    return {**message, "function_call": None, "tool_calls": [{"function": function}]}


def _read_text(part: JsonObject) -> str:
    text = part.get("text")
    return text if isinstance(text, str) else ""


class StreamedCalls:
    """The tool calls of one stream. The first delta of each has an index, an id (empty where the
    provider gave none), a type and a name. Later ones have the index and more arguments. Where the
    name comes late the id comes with it."""

    __slots__ = ("_by_index", "_ids", "_nameless", "_silent")

    def __init__(self) -> None:
        self._ids: list[str] = []
        # The provider's index of the calls that are under way.
        self._by_index: dict[int, int] = {}
        # Those that have said no arguments yet.
        self._silent: set[int] = set()
        self._nameless: set[int] = set()

    def normalize(self, delta: JsonObject) -> JsonObject:
        shaped = _convert_function_call(_flatten_content(delta))
        calls = shaped.get("tool_calls")
        if isinstance(calls, list):
            shaped["tool_calls"] = [
                self._normalize_call(call) for call in calls if isinstance(call, dict)
            ]
        return shaped

    def complete(self, delta: JsonObject) -> JsonObject:
        """With the finish: calls that had no arguments get empty ones."""
        if not self._silent:
            return delta
        empty = {"arguments": _NO_ARGUMENTS}
        more = [{"index": number, "function": empty} for number in sorted(self._silent)]
        self._silent.clear()
        return {**delta, "tool_calls": [*(delta.get("tool_calls") or ()), *more]}

    def _normalize_call(self, call: JsonObject) -> JsonObject:
        function = call.get("function")
        is_named = isinstance(function, dict) and bool(function.get("name"))
        number = self._find_number(call, is_named)
        is_new = number is None
        if number is None:
            number = len(self._ids)
            self._ids.append(str(call.get("id") or ""))
            self._nameless.add(number)
            index = call.get("index")
            self._by_index[index if type(index) is int else number] = number
            if isinstance(function, dict):
                self._silent.add(number)
        # Clients add up what comes twice.
        shaped = {**call, "index": number}
        shaped.pop("id", None)
        shaped.pop("type", None)
        if is_new:
            shaped["type"] = call.get("type") or "function"
        is_named_now = is_named and number in self._nameless
        if is_named_now:
            self._nameless.discard(number)
            shaped["id"] = self._ids[number]
        if isinstance(function, dict):
            text = _arguments_text(function.get("arguments"))
            if text:
                self._silent.discard(number)
            shaped_function = {**function, "arguments": text or ""}
            if not is_named_now:
                shaped_function.pop("name", None)
            shaped["function"] = shaped_function
        return shaped

    def _find_number(self, call: JsonObject, is_named: bool) -> int | None:
        """Which call a delta goes on with; None for a new one."""
        index, call_id = call.get("index"), call.get("id") or None
        if type(index) is int:
            number = self._by_index.get(index)
            # Some number all their calls alike.
            is_another = (
                number is not None and is_named and call_id and call_id != self._ids[number]
            )
            return None if is_another else number
        if call_id in self._ids:
            return self._ids.index(str(call_id))
        return None if call_id or is_named or not self._ids else len(self._ids) - 1


# --- Usage ----------------------------------------------------------------------------------------

_PROMPT_DETAILS: Final = "prompt_tokens_details"
_COMPLETION_DETAILS: Final = "completion_tokens_details"
# Other words for tokens read from the prompt cache, beside the counts (DeepSeek, Moonshot,
# Mistral), and for those written to it, among the details (Alibaba).
_CACHED: Final = ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens")
_WRITTEN: Final = ("cache_creation_input_tokens", "cache_creation_tokens")
_CACHED_ELSEWHERE: Final = frozenset(_CACHED)
_WRITTEN_ELSEWHERE: Final = frozenset(_WRITTEN)


def normalize_usage(reported: object) -> Any:
    """The same object where it is usual already, or no usage at all."""
    if not isinstance(reported, dict):
        return reported
    usage = _add_cached_tokens(reported)
    return _add_reasoning_tokens(usage)


def _add_cached_tokens(usage: JsonObject) -> JsonObject:
    details = usage.get(_PROMPT_DETAILS)
    details = details if isinstance(details, dict) else {}
    if _CACHED_ELSEWHERE.isdisjoint(usage) and _WRITTEN_ELSEWHERE.isdisjoint(details):
        return usage
    counts = {
        "cached_tokens": _find_count(details, ("cached_tokens",)) or _find_count(usage, _CACHED),
        "cache_write_tokens": _find_count(details, ("cache_write_tokens", *_WRITTEN)),
    }
    more = {name: count for name, count in counts.items() if count and not details.get(name)}
    return {**usage, _PROMPT_DETAILS: {**details, **more}} if more else usage


def _add_reasoning_tokens(usage: JsonObject) -> JsonObject:
    """Some leave reasoning out of the completion and count it into the total alone. xAI says how
    much it was, Gemini does not."""
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    total = usage.get("total_tokens")
    if not (type(prompt) is type(completion) is type(total) is int):
        return usage
    uncounted = total - prompt - completion
    if uncounted <= 0 or prompt < 0 or completion < 0:
        return usage
    prompt_details = usage.get(_PROMPT_DETAILS)
    cached = prompt_details.get("cached_tokens") if isinstance(prompt_details, dict) else None
    if type(cached) is int and cached > prompt:
        # More was read from the cache than the prompt has: the total holds that as well.
        return usage
    details = usage.get(_COMPLETION_DETAILS)
    details = details if isinstance(details, dict) else {}
    if (reasoning_tokens := details.get("reasoning_tokens")) and reasoning_tokens != uncounted:
        # The total holds something else.
        return usage
    more = {"completion_tokens": completion + uncounted}
    return {**usage, **more, _COMPLETION_DETAILS: {**details, "reasoning_tokens": uncounted}}


def _find_count(owner: JsonObject, names: tuple[str, ...]) -> Any:
    return next((owner[name] for name in names if owner.get(name)), None)
