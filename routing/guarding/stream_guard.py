"""Output filters on a stream: a writer in front of the caller's, which holds back what may still
become a match."""

from typing import Any, Final, Protocol

from gateway.http.jsonio import JsonObject
from routing.entities.exchange import Native
from routing.formats.caller import Ending, StreamWriter, ToolActivity
from routing.formats.chat.answer import read_text
from routing.guarding.answer_texts import CALLED, CAME_TO, TEXT_FIELDS
from routing.guarding.held_texts import HeldArguments, HeldSpeech, HeldText, HeldThoughts
from routing.guarding.output_guard import WITHHELD, OutputGuard

# Characters of one stream that filters which change nothing look at.
_WATCHED_CHARS_MAX: Final = 1_000_000
_ANSWER_FIELDS: Final = ("content", "refusal")
# By now `reasoning_content` has the name of `reasoning`.
_HELD: Final = frozenset({*TEXT_FIELDS, "reasoning_details", "audio", "tool_calls"})
_NO_TEXT: Final = frozenset({"role", "images"})
_Place = tuple[str, ...] | tuple[str, Any, str]


class Keeps(Protocol):
    """The keeper of what the caller reads."""

    def add(self, delta: JsonObject) -> None: ...


class GuardedWriter:
    """See `StreamWriter`. Texts of one kind end where another kind begins, a tool, or the stream.

    Log-probabilities are left out where filters act: they spell the text. `kept` hears what the
    caller reads.
    """

    def __init__(self, writer: StreamWriter, guard: OutputGuard, kept: Keeps | None) -> None:
        self._writer = writer
        self._guard = guard
        self._kept = kept
        self._texts = {name: HeldText(guard) for name in _ANSWER_FIELDS}
        self._thoughts, self._speech = HeldThoughts(guard), HeldSpeech(guard)
        self._arguments = HeldArguments(guard)
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

    def delta(self, delta: JsonObject, logprobs: object = None) -> bytes:
        if self._guard.withheld:
            return b""
        if self._guard.watches:
            for name in TEXT_FIELDS:
                text = delta.get(name)
                if isinstance(text, str) and text:
                    self._note((name,), text)
            for call in delta.get("tool_calls") or ():
                function = call.get("function") or {}
                if isinstance(function.get("arguments"), str):
                    self._note(("arguments", call.get("index"), ""), function["arguments"])
        if not self._guard.acts:
            return self._write(delta, logprobs)
        released = self._hold_texts(delta)
        return self._write(released) if released else b""

    def begin_tool(self, activity: ToolActivity) -> bytes:
        out = self.flush()
        self._guard.guard_activity(activity, CALLED)
        return out if self._guard.withheld else out + self._writer.begin_tool(activity)

    def end_tool(self, activity: ToolActivity) -> bytes:
        if not self._guard.withheld:
            self._guard.guard_activity(activity, CAME_TO)
        return b"" if self._guard.withheld else self._writer.end_tool(activity)

    def mark_seam(self, seam: JsonObject) -> bytes:
        # The next upstream thinks anew; what it says goes on.
        released = self._thoughts.push({}, is_end=True)
        out = self._write(released) if released and not self._guard.withheld else b""
        return out + self._writer.mark_seam(seam)

    def write_ending(self, ending: Ending) -> bytes:
        out = self.flush()
        if self._guard.acts:
            # Nobody knows what it says.
            ending = ending._replace(beside=None)
        if self._guard.withheld:
            ending = ending._replace(finish_reason=WITHHELD, native_finish=None)
        return out + self._writer.write_ending(ending)

    def error(self, error: JsonObject, *, router_metadata: JsonObject | None) -> bytes:
        return self._writer.error(error, router_metadata=router_metadata)

    def flush(self) -> bytes:
        """What is left of all texts, looked at to their ends."""
        released = self._thoughts.push({}, is_end=True)
        released |= {name: text for name, held in self._texts.items() if (text := held.flush())}
        if calls := self._arguments.flush([], is_end=True):
            released["tool_calls"] = calls
        deltas = [released, *({"audio": each} for each in self._speech.flush())]
        out = b""
        if not self._guard.withheld:
            out = b"".join([self._write(each) for each in deltas if each])
        if self._watched:
            watched, self._watched = self._watched, {}
            self._guard.watch_texts(["".join(pieces) for pieces in watched.values()])
        return out

    def _write(self, delta: JsonObject, logprobs: object = None) -> bytes:
        if self._kept is not None:
            self._kept.add(delta)
        return self._writer.delta(delta, logprobs)

    # --- Holding back ---------------------------------------------------------------------------

    def _hold_texts(self, delta: JsonObject) -> JsonObject:
        """The delta with what may leave of its texts; empty where that is nothing. Thoughts end
        where the answer begins, the answer where a refusal does, and all where tools are called.
        Nothing else ends a text, whose next piece may complete a match."""
        calls: list[JsonObject] = [
            call for call in delta.get("tool_calls") or () if isinstance(call, dict)
        ]
        begins_answer = any(delta.get(name) for name in _ANSWER_FIELDS)
        released = self._thoughts.push(delta, is_end=begins_answer or bool(calls))
        for name in _ANSWER_FIELDS:
            text = self._texts[name].push(read_text(delta.get(name)))
            if calls or (name == "content" and delta.get("refusal")):
                text += self._texts[name].flush()
            if text:
                released[name] = text
        if isinstance(audio := delta.get("audio"), dict) and (spoken := self._speech.push(audio)):
            released["audio"] = spoken
        if over := self._arguments.flush(calls) if begins_answer or calls else []:
            released["tool_calls"] = over
        if begun := [each for call in calls if (each := self._arguments.push(call))]:
            released["tool_calls"] = [*over, *begun]
        others = {name: value for name, value in delta.items() if name not in _HELD}
        # Quotes, and what is the provider's own, come whole.
        released |= others if others.keys() <= _NO_TEXT else self._guard.guard_message(others)
        return {} if self._guard.withheld else released

    def _note(self, place: _Place, text: str) -> None:
        if self._watched_chars_left > 0:
            self._watched_chars_left -= len(text)
            self._watched.setdefault(place, []).append(text)
