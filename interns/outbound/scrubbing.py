"""Takes secrets out of what sites answer. Their values are replaced by their names, in the
spellings that an echo may have, wherever the pieces of an answer are cut."""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

from gateway.eventloop import yield_control

# Fewer bytes than these are too many other things in base64 or hexadecimal.
_ENCODED_BYTES_MIN: Final = 6
_STEP_BYTES: Final = 256 * 1024
_BOTH: Final = (True, False)
# Longer values, such as certificates, are looked for in fewer spellings.
_TWICE_CHARS_MAX: Final = 4_096
Patterns = dict[bytes, bytes]
_LOOKS_BEFORE_OTHERS: Final = 10_000
# Going through a whole step takes as long as this many places found.
_LOOKS_PER_PASS: Final = 200


class Scrubber:
    """Feed it the pieces of one answer; what it gives back holds none of the values.

    Bytes that may be the beginning of a value are held back until it is known whether they are.
    At the end of an answer `finish` gives them out; where it is cut, `cut` does not.
    """

    def __init__(self, patterns: Patterns, *, step_bytes: int = _STEP_BYTES) -> None:
        self._patterns = patterns
        self._hold_bytes = max(map(len, self._patterns), default=1) - 1
        # What is held back is searched again, so a step is no smaller than that.
        self._step_bytes = max(step_bytes, self._hold_bytes)
        self._held = b""
        # So many bytes of what is held belong to a value that was replaced already.
        self._covered = 0

    def feed_bytes(self, piece: bytes) -> bytes:
        """What is known to be harmless by now."""
        self._held += piece
        if len(self._held) < self._hold_bytes + self._step_bytes:
            return b""
        return self._step(len(self._held) - self._hold_bytes)

    def finish(self) -> bytes:
        """The rest of a whole answer."""
        return self._step(len(self._held))

    def cut(self) -> bytes:
        """The rest of one that is cut here: without what may be half a value."""
        return self._step(max(0, len(self._held) - self._hold_bytes))

    def _step(self, until: int) -> bytes:
        """Everything before `until`; a value that begins there is held whole."""
        data, at, out = self._held, self._covered, list[bytes]()
        for start, end, name in self._find_places(data):
            if start >= until:
                break
            if start >= at:
                out += (data[at:start], name)
            at = max(at, end)
        if at < until:
            out.append(data[at:until])
            at = until
        self._held, self._covered = data[until:], at - until
        return b"".join(out)

    def _find_places(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """Every place of every value, in order; of those that begin together the longest first."""
        places: list[tuple[int, int, bytes]] = []
        looks = 0
        for pattern, name in self._patterns.items():
            at = data.find(pattern)
            while at >= 0:
                places.append((at, at + len(pattern), name))
                at = data.find(pattern, at + 1)
                looks = _yield_after(looks + 1)
            looks = _yield_after(looks + _LOOKS_PER_PASS)
        places.sort(key=lambda place: (place[0], -place[1]))
        return places


def _yield_after(looks: int) -> int:
    """Let others run after some milliseconds' worth of looking."""
    if looks < _LOOKS_BEFORE_OTHERS:
        return looks
    yield_control()
    return 0


def scrub_bytes(data: bytes, patterns: Patterns) -> bytes:
    """All of it at once."""
    scrubber = Scrubber(patterns)
    return scrubber.feed_bytes(data) + scrubber.finish()


def scrub_text(text: str, patterns: Patterns) -> str:
    return scrub_bytes(text.encode("utf-8", "surrogatepass"), patterns).decode("utf-8", "replace")


def build_patterns(values: Mapping[str, str]) -> Patterns:
    """What to look for, and what stands there instead."""
    found: Patterns = {}
    for name, value in values.items():
        found |= dict.fromkeys(list_spellings(value), f"[secret:{name}]".encode())
        yield_control()
    found.pop(b"", None)
    return found


def list_spellings(value: str) -> set[bytes]:
    """How a site may write the value back."""
    texts = {value, value.strip("\r\n")}
    spelled_texts = set(texts)
    if len(value) <= _TWICE_CHARS_MAX:
        # Read as the wrong charset; and a body in JSON that stands within another one.
        texts |= {text.encode().decode("latin-1") for text in texts}
        spelled_texts = {
            json.dumps(text, ensure_ascii=each)[1:-1] for text in texts for each in _BOTH
        }
        spelled_texts |= texts
    found: set[bytes] = set()
    for text in {spelled for each in spelled_texts for spelled in (each, *_escape(each))}:
        found.add(text.encode())
        if all(char <= "\xff" for char in text):
            found.add(text.encode("latin-1"))
    for text in texts:
        raw = text.encode()
        if len(raw) >= _ENCODED_BYTES_MIN:
            found.update(_encode_base64(raw))
            found.update((raw.hex().encode(), raw.hex().upper().encode()))
            found.update((text.encode("utf-16-le"), text.encode("utf-16-be")))
    return found


def _escape(value: str) -> Iterator[str]:
    """In JSON, URLs, forms and HTML."""
    for ascii_only in _BOTH:
        text = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield text
        yield text.replace("/", "\\/")
    for text in (
        quote(value, safe=""),
        quote(value),
        quote_plus(value),
        quote(value, safe="~()*!'"),
    ):
        yield text
        yield re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), text)
    text = html.escape(value)
    yield text
    yield html.escape(value, quote=False)
    yield text.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    yield text.replace("&#x27;", "&apos;")


def _encode_base64(raw: bytes) -> Iterable[bytes]:
    """The characters that only the value itself decides, at each of three places in a text."""
    for before in range(3):
        text = base64.b64encode(bytes(before) + raw)
        first = -(-before * 8 // 6)
        sure = text[first : (before + len(raw)) * 8 // 6]
        yield sure
        yield sure.translate(bytes.maketrans(b"+/", b"-_"))
