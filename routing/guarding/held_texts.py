"""What a stream holds back of an answer: its texts, its thoughts and what tools are called with."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from gateway.http.jsonio import JsonObject, dumps
from routing.formats.messages.block_writer import ObjectScanner
from routing.guarding.answer_texts import DETAIL_FIELDS, collect_texts, map_arguments
from routing.guarding.long_texts import decode, encode
from routing.guarding.output_guard import OutputGuard
from routing.upstreams.responses.input_items import CONTINUES, is_of_this_wire

# Of what has left, as much stays as borders of words and checks of matches look back.
_CONTEXT_BYTES: Final = 64
# A longer text that is held is looked at again only once it has grown by an eighth.
_LOOKED_AT_CHARS_MAX: Final = 512
# What each piece of a thought says of the thought.
_THOUGHT_FIELDS: Final = ("type", "format", "index", "id")


class HeldText:
    """One text of the stream, and what of it may leave."""

    def __init__(self, guard: OutputGuard) -> None:
        self._guard = guard
        self._context = b""
        self._held = ""
        self._next_look_chars = 0
        # Whether what has left is not what came.
        self.is_changed = False

    def push(self, text: str) -> str:
        """What may leave once this has come."""
        self._held += text
        is_known = self._guard.lookahead.beginnings is not None
        if not is_known or len(self._held) < self._next_look_chars:
            return ""
        data = self._context + bytes(encode(self._held))
        cut = self._guard.find_cut(data, len(self._context))
        text = self._release(data, cut) if cut > len(self._context) else ""
        held_chars = len(self._held)
        is_long = held_chars > _LOOKED_AT_CHARS_MAX
        self._next_look_chars = held_chars + held_chars // 8 if is_long else 0
        return text

    def flush(self) -> str:
        """All that is left, at the end of the text."""
        if not self._held:
            return ""
        if self._guard.lookahead.beginnings is None:
            held, self._held = self._held, ""
            found = self._guard.guard_stream_texts([held])
            self.is_changed |= found != [held]
            return "" if found is None else found[0]
        data = self._context + bytes(encode(self._held))
        return self._release(data, len(data))

    def _release(self, data: bytes, cut: int) -> str:
        start = len(self._context)
        text, reached = self._guard.release(data, start, cut)
        self.is_changed |= text != decode(data[start:reached])
        self._held = decode(data[reached:])
        before = data[:reached][-_CONTEXT_BYTES:]
        # It begins with a whole character.
        self._context = before.lstrip(bytes(range(0x80, 0xC0)))
        return text


class HeldSpeech:
    """A spoken answer: its transcript, and its sound, which waits for the transcript's end. Where
    that was changed or kept back nobody hears it."""

    def __init__(self, guard: OutputGuard) -> None:
        self._text = HeldText(guard)
        self._sounds: list[JsonObject] = []

    def push(self, audio: JsonObject) -> JsonObject:
        """What may leave of a piece."""
        rest = {name: value for name, value in audio.items() if name not in ("data", "transcript")}
        if isinstance(sound := audio.get("data"), str) and sound and not self._text.is_changed:
            self._sounds.append({**rest, "data": sound})
        if isinstance(transcript := audio.get("transcript"), str) and (
            text := self._text.push(transcript)
        ):
            rest["transcript"] = text
        return rest

    def flush(self) -> list[JsonObject]:
        """The pieces that are left."""
        text = self._text.flush()
        sounds, self._sounds = self._sounds, []
        spoken: list[JsonObject] = [{"transcript": text}] if text else []
        return spoken if self._text.is_changed else [*spoken, *sounds]


class _HeldThought:
    """One text among the reasoning details. `separator` stands before it in `reasoning`, which is
    None where that does not say the same."""

    def __init__(self, guard: OutputGuard, piece: JsonObject, separator: str | None) -> None:
        self._text = HeldText(guard)
        self._fields = _list_fields(piece)
        self._has_begun = False
        self.separator = separator

    def continues_with(self, piece: JsonObject) -> bool:
        """Whether the piece is of the same text."""
        ids = piece.get("id"), self._fields.get("id")
        if None not in ids and ids[0] != ids[1]:
            return False
        return all(piece.get(name) in (None, self._fields.get(name)) for name in ("type", "index"))

    def push(self, piece: JsonObject, name: str) -> JsonObject | None:
        if self._has_begun:
            self._fields = _list_fields(piece)
        return self._build_piece(name, self._text.push(piece[name]))

    def flush(self, name: str) -> JsonObject | None:
        if self._has_begun:
            self._fields = {each: self._fields.get(each) for each in _THOUGHT_FIELDS}
        return self._build_piece(name, self._text.flush())

    def _build_piece(self, name: str, text: str) -> JsonObject | None:
        if not text:
            return None
        piece = {**self._fields, name: text}
        if self._has_begun and is_of_this_wire(piece.get("format")):
            piece[CONTINUES] = True
        self._has_begun = True
        return piece


class HeldThoughts:
    """The thoughts of a stream, one after the other.

    A thought ends where another one begins, and where something comes that is no text of it: its
    signature, or what is sealed. What is left of it leaves before that. `reasoning` says what the
    details say, in the same delta, wherever the upstream has it so: readers know it by that.
    """

    def __init__(self, guard: OutputGuard) -> None:
        self._guard = guard
        # What stands in `reasoning` alone, and whether that says anything else than the details.
        self._plain = HeldText(guard)
        self._says_other = False
        self._open: tuple[str, _HeldThought] | None = None
        self._texts: list[str] = []
        self._details: list[Any] = []

    def push(self, delta: JsonObject, *, is_end: bool) -> JsonObject:
        """What may leave of the thoughts of a delta, which may be their end."""
        plain, details = delta.get("reasoning"), delta.get("reasoning_details")
        plain = plain if isinstance(plain, str) else ""
        details = details if isinstance(details, list) else []
        separators = _find_separators(plain, details)
        if plain and (separators is None or self._says_other):
            self._says_other, separators = True, None
            self._texts.append(self._plain.push(plain))
        left = iter(separators or ())
        for detail in details:
            if isinstance(detail, dict):
                self._push_detail(detail, left)
        if is_end:
            self._end()
        text, details = "".join(self._texts), self._details
        self._texts, self._details = [], []
        released: JsonObject = {"reasoning": text} if text else {}
        return {**released, "reasoning_details": details} if details else released

    def _push_detail(self, detail: JsonObject, separators: Iterator[str]) -> None:
        names = list(_list_texts(detail))
        for name in names:
            separator = next(separators, None)
            known = self._open
            if (
                known is None
                or known[0] != name
                or separator
                or not known[1].continues_with(detail)
            ):
                self._end_thought()
                self._open = name, _HeldThought(self._guard, detail, separator)
                self._says_other |= separator is None
            assert self._open is not None
            self._say(self._open[1], self._open[1].push(detail, name), name)
        is_empty = any(isinstance(detail.get(name), str) for name in DETAIL_FIELDS)
        if detail.get("signature") or not (names or is_empty):
            self._end()
            rest = {key: value for key, value in detail.items() if key not in DETAIL_FIELDS}
            self._details.append(rest)

    def _end(self) -> None:
        self._end_thought()
        self._texts.append(self._plain.flush())
        self._says_other = False

    def _end_thought(self) -> None:
        if self._open is not None:
            (name, thought), self._open = self._open, None
            self._say(thought, thought.flush(name), name)

    def _say(self, thought: _HeldThought, piece: JsonObject | None, name: str) -> None:
        if piece is None:
            return
        self._details.append(piece)
        if thought.separator is not None:
            self._texts.append(thought.separator + piece[name])
            thought.separator = ""


def _list_texts(detail: JsonObject) -> Iterator[str]:
    """The names of its texts."""
    return (name for name in DETAIL_FIELDS if isinstance(detail.get(name), str) and detail[name])


def _list_fields(piece: JsonObject) -> JsonObject:
    """What it says beside its texts and its signature."""
    return {
        name: value
        for name, value in piece.items()
        if name not in DETAIL_FIELDS and name != "signature"
    }


def _find_separators(plain: str, details: list[Any]) -> list[str] | None:
    """What stands in `plain` before each text of the details, which is nothing or an empty line.
    None where it says anything else than these texts."""
    separators, at = [], 0
    for detail in details:
        for name in _list_texts(detail) if isinstance(detail, dict) else ():
            found = plain.find(detail[name], at)
            if found < 0 or plain[at:found] not in ("", "\n\n"):
                return None
            separators.append(plain[at:found])
            at = found + len(detail[name])
    return separators if separators and at == len(plain) else None


class HeldArguments:
    """What tools are called with, call by call: it leaves as a whole, for only then can it be
    read. A call whose arguments are no complete object goes on, whatever comes between."""

    def __init__(self, guard: OutputGuard) -> None:
        self._guard = guard
        self._held: dict[Any, tuple[list[str], ObjectScanner]] = {}
        self._ids: dict[Any, Any] = {}

    def push(self, call: JsonObject) -> JsonObject | None:
        """What may leave of a piece of a call, which is what names it."""
        function: Any = call.get("function")
        if not isinstance(function, dict) or not isinstance(
            arguments := function.get("arguments"), str | dict
        ):
            return call
        pieces, scanner = self._held.setdefault(call.get("index"), ([], ObjectScanner()))
        text = arguments if isinstance(arguments, str) else dumps(arguments).decode()
        pieces.append(text)
        scanner.feed_text(text)
        if not (call.get("id") or function.get("name")):
            return None
        return {**call, "function": {**function, "arguments": ""}}

    def flush(self, calls: list[JsonObject], *, is_end: bool = False) -> list[JsonObject]:
        """The arguments that are over where `calls` come next; at the end, all of them. Upstreams
        that number no calls, or all alike, begin one by its name and another id."""
        going_on = set()
        for call in calls:
            index, call_id = call.get("index"), call.get("id")
            if call_id is None or self._ids.get(index, call_id) == call_id:
                going_on.add(index)
            self._ids[index] = call_id or self._ids.get(index)
        begun = {call.get("index") for call in calls} - going_on
        over = [
            index
            for index, (_, scanner) in self._held.items()
            if is_end or index in begun or (scanner.complete and index not in going_on)
        ]
        found = [(index, self._filter("".join(self._held.pop(index)[0]))) for index in over]
        return [
            {"index": index, "function": {"arguments": arguments}}
            for index, arguments in found
            if arguments
        ]

    def _filter(self, arguments: str) -> str:
        texts = collect_texts(partial(map_arguments, arguments))
        if not texts or self._guard.withheld:
            return arguments
        found = self._guard.guard_stream_texts(texts)
        left = iter(found or ())
        return "" if found is None else map_arguments(arguments, lambda text: next(left))
