"""Chat completions as a caller format: whole answers, and streams of one object per `data:` line.

The constant part of a chunk is serialised once per stream; per upstream event only the delta is.
Callers who offer `functions` get one `function_call`, without an id, in place of `tool_calls`."""

from typing import Any, Final

from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject, dumps
from gateway.http.responses import error_body
from routing.entities.exchange import Native
from routing.entities.ids import tool_call_id
from routing.formats.caller import (
    AnswerIdentity,
    CallerFormat,
    CompleteAnswer,
    Ending,
    StreamWriter,
    ToolActivity,
)
from routing.formats.chat.answer import build_tool_detail
from routing.formats.chat.request import ChatRequest, parse_chat

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": ROUTER PROCESSING\n\n"
_ROLE = b'{"role":"assistant","content":""}'
_NOTHING = b'{"content":""}'
# Clients put the elements of these lists together by their `index`, and fail without one.
_NUMBERED_LISTS = ("annotations", "images", "reasoning_details")
_OPEN_END = b',"finish_reason":null,"native_finish_reason":null'
_LONGEST_SHOWN_PAYLOAD = 256


class ChatStream:
    """Writes the chunks of one stream."""

    __slots__ = (
        "_after_delta",
        "_close",
        "_counts",
        "_hides_tools",
        "_open",
        "_served",
        "_thoughts_before",
        "keep_alive",
    )

    def __init__(self, served: AnswerIdentity, *, hides_tools: bool = False) -> None:
        """`hides_tools` is for callers who want to see no reasoning: it is among that."""
        self.keep_alive = KEEP_ALIVE
        self._hides_tools = hides_tools
        self._served = served
        self._open = self._head() + b',"choices":[{"index":0,"delta":'
        self._close = b"}]}\n\n"
        self._after_delta = _OPEN_END + self._close
        # The next `index` of each list.
        self._counts = dict.fromkeys(_NUMBERED_LISTS, 0)
        # How many details of reasoning came from upstreams that broke off.
        self._thoughts_before = 0

    def set_fingerprint(self, value: str) -> None:
        """Say the backend's fingerprint from now on."""
        self._close = b'}],"system_fingerprint":' + dumps(value) + b"}\n\n"
        self._after_delta = _OPEN_END + self._close

    def write_opening(self) -> bytes:
        return self._open + _ROLE + _OPEN_END + self._close

    def delta(self, delta: JsonObject, logprobs: object = None) -> bytes:
        if len(delta) > 1 or "content" not in delta:
            for name in _NUMBERED_LISTS:
                if isinstance(each := delta.get(name), list):
                    delta = delta | {name: [self._number_item(name, item) for item in each]}
        if logprobs is None:
            return b"%b%b%b" % (self._open, dumps(delta), self._after_delta)
        logprobs_field = b',"logprobs":' + dumps(logprobs)
        return self._open + dumps(delta) + _OPEN_END + logprobs_field + self._close

    def write_native(self, native: Native) -> bytes:
        """Never called: chat chunks are always written anew."""
        raise AssertionError("chat passes no events through")

    def begin_tool(self, activity: ToolActivity) -> bytes:
        """Chat shows a tool once it has ended."""
        return b""

    def end_tool(self, activity: ToolActivity) -> bytes:
        if self._hides_tools:
            return b""
        return self.delta({"reasoning_details": [build_tool_detail(activity)]})

    def mark_seam(self, seam: JsonObject) -> bytes:
        """A chunk without content; clients pass over fields that they do not know."""
        self._thoughts_before = self._counts["reasoning_details"]
        chunk = self._open + _NOTHING + _OPEN_END + self._close[: -len(b"}\n\n")]
        return chunk + b',"router_rescue":' + dumps(seam) + b"}\n\n"

    def write_ending(self, ending: Ending) -> bytes:
        """Terminal chunk, usage chunk, `[DONE]`. The finish is sent once, like the role: clients
        join what comes twice."""
        finish = (
            b',"finish_reason":'
            + dumps(ending.finish_reason)
            + b',"native_finish_reason":'
            + dumps(ending.native_finish)
        )
        if ending.beside is not None and ending.beside.choice:
            finish += b"," + dumps(ending.beside.choice)[1:-1]
        fields: JsonObject = {"usage": ending.usage, "service_tier": ending.service_tier}
        if ending.beside is not None:
            fields = ending.beside.answer | fields
        if ending.router_metadata is not None:
            fields["router_metadata"] = ending.router_metadata
        usage = _OPEN_END + self._close[: -len(b"}\n\n")] + b"," + dumps(fields)[1:] + b"\n\n"
        head = self._open + _NOTHING
        return head + finish + self._close + head + usage + DONE

    def error(self, error: JsonObject, *, router_metadata: JsonObject | None) -> bytes:
        """The error chunk, after which nothing follows."""
        value: JsonObject = {
            "error": error,
            "choices": [
                {
                    "index": 0,
                    "delta": {"content": ""},
                    "finish_reason": "error",
                    "native_finish_reason": None,
                }
            ],
        }
        if router_metadata is not None:
            value["router_metadata"] = router_metadata
        return self._head() + b"," + dumps(value)[1:] + b"\n\n"

    def debug(self, upstream_body: JsonObject) -> bytes:
        """The body an endpoint is sent, long base64 payloads left out."""
        value = {"choices": [], "debug": {"echo_upstream_body": redact_payloads(upstream_body)}}
        return self._head() + b"," + dumps(value)[1:] + b"\n\n"

    def _number_item(self, name: str, item: object) -> Any:
        if not isinstance(item, dict):
            return item
        index = self._counts[name]
        if name == "reasoning_details" and type(item.get("index")) is int:
            # Fragments of one detail share theirs.
            index = self._thoughts_before + item["index"]
        self._counts[name] = max(self._counts[name], index + 1)
        return {**item, "index": index}

    def _head(self) -> bytes:
        served = self._served
        head = {
            "id": served.generation_id,
            "object": "chat.completion.chunk",
            "created": served.created,
            "model": served.model,
            "provider": served.provider,
        }
        return b"data: " + dumps(head)[:-1]


def redact_payloads(value: object, key: str = "") -> Any:
    """The same JSON with base64 payloads over 256 characters replaced by their length."""
    if isinstance(value, dict):
        return {name: redact_payloads(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [redact_payloads(item, key) for item in value]
    is_payload = key in ("data", "file_data") or (isinstance(value, str) and value[:5] == "data:")
    if isinstance(value, str) and is_payload and len(value) > _LONGEST_SHOWN_PAYLOAD:
        return f"[redacted {len(value)} chars]"
    return value


_CALL: Final = "function_call"
_CALLS: Final = "tool_calls"


def build_legacy_message(message: JsonObject) -> JsonObject:
    """A message whose first call is its `function_call`. There is no place for others."""
    result = {name: each for name, each in message.items() if name not in (_CALL, _CALLS)}
    if calls := message.get(_CALLS):
        result[_CALL] = calls[0]["function"]
    return result


def convert_legacy_finish(finish_reason: str) -> str:
    return _CALL if finish_reason == _CALLS else finish_reason


class LegacyChatStream(ChatStream):
    """The chunks of such a caller."""

    __slots__ = ("_index",)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Of the call that the answer has room for.
        self._index: int | None = None

    def delta(self, delta: JsonObject, logprobs: object = None) -> bytes:
        if _CALLS not in delta and _CALL not in delta:
            return super().delta(delta, logprobs)
        fragments = [each for each in delta.get(_CALLS) or () if isinstance(each, dict)]
        if self._index is None and fragments:
            self._index = fragments[0].get("index")
        pieces = [each["function"] for each in fragments if each.get("index") == self._index]
        result = build_legacy_message({**delta, _CALLS: None})
        if pieces:
            texts = [each.get("arguments") or "" for each in pieces]
            result[_CALL] = {**pieces[0], "arguments": "".join(texts)}
        return super().delta(result, logprobs) if result or logprobs is not None else b""

    def write_ending(self, ending: Ending) -> bytes:
        return super().write_ending(
            ending._replace(finish_reason=convert_legacy_finish(ending.finish_reason))
        )


class ChatFormat:
    """See `CallerFormat`; what the others are translated into and from."""

    name = "chat"
    wire = "openai"
    id_prefix = "gen-"
    api_type = "completions"
    finishing_errors: frozenset[str] = frozenset()
    new_call_id = staticmethod(tool_call_id)

    def parse(
        self,
        body: JsonObject,
        *,
        session_header: str | None,
        models_max: int,
        beside: JsonObject | None = None,
    ) -> ChatRequest:
        assert not beside
        return parse_chat(body, session_header=session_header, models_max=models_max)

    def write_answer(self, answer: CompleteAnswer) -> JsonObject:
        ending = answer.ending
        message, finish_reason = answer.message, ending.finish_reason
        if answer.request.offers_functions:
            message = build_legacy_message(message)
            finish_reason = convert_legacy_finish(finish_reason)
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": finish_reason,
            "native_finish_reason": ending.native_finish,
            "logprobs": answer.logprobs,
        }
        if ending.failure is not None:
            # Generation broke after partial output.
            choice["error"] = ending.failure
        served = answer.served
        body = {
            "id": served.generation_id,
            "object": "chat.completion",
            "created": served.created,
            "model": served.model,
            "provider": served.provider,
            "system_fingerprint": answer.system_fingerprint,
            "service_tier": ending.service_tier,
            "choices": [choice],
            "usage": ending.usage,
        }
        if ending.router_metadata is not None:
            body["router_metadata"] = ending.router_metadata
        if ending.beside is not None:
            body["choices"] = [ending.beside.choice | choice]
            body = ending.beside.answer | body
        return body

    def writer(self, served: AnswerIdentity, request: ChatRequest) -> StreamWriter:
        reasoning = request.reasoning
        writer = LegacyChatStream if request.offers_functions else ChatStream
        return writer(served, hides_tools=reasoning is not None and reasoning.exclude)

    def error_body(
        self, error: GatewayError, *, generation_id: str | None, beside: JsonObject
    ) -> JsonObject:
        return error_body(error, **beside)


CHAT: Final[CallerFormat] = ChatFormat()
