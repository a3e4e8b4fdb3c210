"""Output filters on a stream: a writer in front of the caller's, which holds back what may still
become a match."""

from typing import Any, Final, Protocol

from gateway.http.jsonio import JsonObject
from routing.entities.exchange import Native
from routing.formats.caller import Ending, StreamWriter, ToolActivity
from routing.guarding.answer_texts import DETAIL_FIELDS, TEXT_FIELDS, map_arguments
from routing.guarding.long_texts import decoded, encoded
from routing.guarding.output_guard import WITHHELD, OutputGuard

# Of what has left, as much stays as borders of words and checks of matches look back.
_CONTEXT_BYTES: Final = 64
# Characters of one stream that filters which change nothing look at.
_WATCHED_CHARS_MAX: Final = 1_000_000
# In which order an answer is made.
_STAGES: Final = {
    **dict.fromkeys(("reasoning", "reasoning_content", "reasoning_details"), 0),
    **dict.fromkeys(("content", "refusal"), 1),
    "tool_calls": 2,
}
_Place = tuple[str, ...] | tuple[str, Any, str]


class Keeps(Protocol):
    """Whoever keeps what the caller reads."""

    def add(self, delta: JsonObject) -> None: ...


class _HeldText:
    """One text of the stream, and what of it may leave."""

    def __init__(self, guard: OutputGuard) -> None:
        self._guard = guard
        self._context = b""
        self._held = ""

    def push(self, text: str) -> str:
        """What may leave once this has come."""
        self._held += text
        cut = self._guard.lookahead.find_cut(self._held)
        return self._release(cut) if cut else ""

    def flush(self) -> str:
        """All that is left, at the end of the text."""
        held, self._held = self._held, ""
        if not held:
            return ""
        if self._guard.lookahead.everything:
            found = self._guard.guard_texts([held])
            return "" if found is None else found[0]
        self._held = held
        return self._release(len(held))

    def _release(self, cut: int) -> str:
        data = self._context + bytes(encoded(self._held))
        start = len(self._context)
        end = start + len(encoded(self._held[:cut]))
        text, reached = self._guard.release(data, start, end)
        self._held = decoded(data[reached:])
        before = data[:reached][-_CONTEXT_BYTES:]
        # It begins with a whole character.
        self._context = before.lstrip(bytes(range(0x80, 0xC0)))
        return text


class GuardedWriter:
    """See `StreamWriter`. Texts of one kind end where another kind begins, a tool, or the stream.

    Arguments of tools leave as a whole, because only then can they be read. Log-probabilities are
    left out where filters act: they spell the text. `kept` hears what the caller reads.
    """

    def __init__(self, writer: StreamWriter, guard: OutputGuard, kept: Keeps | None) -> None:
        self._writer = writer
        self._guard = guard
        self._kept = kept
        self._texts: dict[_Place, _HeldText] = {}
        self._details: dict[Any, JsonObject] = {}
        self._arguments: dict[Any, str] = {}
        self._watched: dict[_Place, list[str]] = {}
        self._watched_chars_left = _WATCHED_CHARS_MAX
        self.keep_alive = writer.keep_alive

    def set_fingerprint(self, value: str) -> None:
        self._writer.set_fingerprint(value)

    def debug(self, upstream_body: JsonObject) -> bytes:
        return self._writer.debug(upstream_body)

    def write_opening(self) -> bytes:
        return self._writer.write_opening()

    def write_native(self, native: Native) -> bytes:
        raise AssertionError("a stream with output filters is written anew")

    def delta(self, delta: JsonObject, logprobs: Any = None) -> bytes:
        if self._guard.withheld:
            return b""
        if self._guard.watches:
            self._watch(delta)
        if not self._guard.acts:
            return self._write(delta, logprobs)
        out = self._flush_others(delta)
        made = self._hold_texts(delta)
        return out + self._write(made) if made else out

    def begin_tool(self, activity: ToolActivity) -> bytes:
        return self.flush() + self._writer.begin_tool(activity)

    def end_tool(self, activity: ToolActivity) -> bytes:
        return self._writer.end_tool(activity)

    def write_ending(self, ending: Ending) -> bytes:
        out = self.flush()
        if self._guard.withheld:
            ending = ending._replace(finish_reason=WITHHELD, native_finish=None)
        return out + self._writer.write_ending(ending)

    def error(self, error: JsonObject, *, router_metadata: JsonObject | None) -> bytes:
        return self._writer.error(error, router_metadata=router_metadata)

    def flush(self) -> bytes:
        """What is left of all texts, looked at to their ends."""
        out = b"".join([self._flush_text(place) for place in list(self._texts)])
        out += b"".join([self._flush_arguments(index) for index in list(self._arguments)])
        if self._watched:
            watched, self._watched = self._watched, {}
            self._guard.watch_texts(["".join(pieces) for pieces in watched.values()])
        return out

    def _write(self, delta: JsonObject, logprobs: Any = None) -> bytes:
        if self._kept is not None:
            self._kept.add(delta)
        return self._writer.delta(delta, logprobs)

    # --- Holding back ---------------------------------------------------------------------------

    def _hold_texts(self, delta: JsonObject) -> JsonObject:
        """The delta with what may leave of its texts; empty where that is nothing."""
        made: JsonObject = {}
        for name, value in delta.items():
            if name in TEXT_FIELDS and isinstance(value, str):
                if text := self._push((name,), value):
                    made[name] = text
            elif name == "reasoning_details" and isinstance(value, list):
                if details := [each for part in value if (each := self._hold_detail(part))]:
                    made[name] = details
            elif name == "tool_calls" and isinstance(value, list):
                if calls := [each for call in value if (each := self._hold_call(call))]:
                    made[name] = calls
            else:
                made[name] = value
        return {} if self._guard.withheld else made

    def _push(self, place: _Place, text: str) -> str:
        held = self._texts.get(place)
        if held is None:
            held = self._texts[place] = _HeldText(self._guard)
        return held.push(text)

    def _hold_detail(self, part: Any) -> Any:
        if not isinstance(part, dict):
            return part
        made = dict(part)
        for name in DETAIL_FIELDS:
            if isinstance(part.get(name), str):
                index = part.get("index")
                self._details[index] = {
                    key: value for key, value in part.items() if key in ("type", "format", "index")
                }
                made[name] = self._push(("reasoning_details", index, name), part[name])
        texts = [name for name in DETAIL_FIELDS if isinstance(part.get(name), str)]
        is_empty = bool(texts) and not any(made[name] for name in texts)
        return None if is_empty and not made.get("signature") else made

    def _hold_call(self, call: Any) -> Any:
        function: Any = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
            return call
        arguments = function["arguments"]
        index = call.get("index")
        self._arguments[index] = self._arguments.get(index, "") + arguments
        if not (call.get("id") or function.get("name")):
            return None
        return {**call, "function": {**function, "arguments": ""}}

    def _flush_others(self, delta: JsonObject) -> bytes:
        """End the texts that come before what this delta brings: thoughts before the answer, both
        before calls of tools. Nothing else ends a text, whose next piece may complete a match."""
        calls = [call for call in delta.get("tool_calls") or () if isinstance(call, dict)]
        stages = [_STAGES[name] for name in delta if name in _STAGES and delta[name]]
        if not stages:
            return b""
        ended = [place for place in self._texts if _STAGES[place[0]] < max(stages)]
        out = b"".join([self._flush_text(place) for place in ended])
        going_on = {call.get("index") for call in calls}
        over = [index for index in self._arguments if index not in going_on]
        return out + b"".join([self._flush_arguments(index) for index in over])

    def _flush_text(self, place: _Place) -> bytes:
        if self._guard.withheld:
            return b""
        text = self._texts.pop(place).flush()
        if not text or self._guard.withheld:
            return b""
        if place[0] == "reasoning_details":
            _, index, name = place
            return self._write({"reasoning_details": [{**self._details[index], name: text}]})
        return self._write({place[0]: text})

    def _flush_arguments(self, index: Any) -> bytes:
        arguments = self._arguments.pop(index)
        if self._guard.withheld or not arguments:
            return b""
        texts: list[str] = []

        def collect(text: str) -> str:
            texts.append(text)
            return text

        map_arguments(arguments, collect)
        if texts:
            found = self._guard.guard_texts(texts)
            if found is None:
                return b""
            left = iter(found)
            arguments = map_arguments(arguments, lambda text: next(left))
        return self._write({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})

    def _watch(self, delta: JsonObject) -> None:
        for name in TEXT_FIELDS:
            text = delta.get(name)
            if isinstance(text, str) and text:
                self._note((name,), text)
        for call in delta.get("tool_calls") or ():
            function = call.get("function") or {}
            if isinstance(function.get("arguments"), str):
                self._note(("arguments", call.get("index"), ""), function["arguments"])

    def _note(self, place: _Place, text: str) -> None:
        if self._watched_chars_left > 0:
            self._watched_chars_left -= len(text)
            self._watched.setdefault(place, []).append(text)
