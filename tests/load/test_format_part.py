"""The bench's part about formats: its arithmetic, and that it times what it says."""

import json
from collections.abc import Sequence

import orjson
import pytest

from tests.load.conversations import BYTES_MIN, conversation
from tests.load.crossings import BY_WIRE, CONTENT, CROSSINGS, FORMATS, Crossing
from tests.load.figures import REQUIRED, Interval, Pair
from tests.load.first_tokens import is_whole
from tests.load.format_samples import FirstTokens, Formats
from tests.load.report import regressions
from tests.load.samples import Samples
from tests.load.streams import ENDS, EventReader
from tests.load.translating import TRANSLATIONS, Translating, measured, parser_of, translator_of

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"\r\n0\r\n\r\n"
# The last events of each format; the end of a responses stream repeats the whole answer.
CLOSINGS = {
    "chat": b'data: {"choices": []}\n\ndata: [DONE]\n\n',
    "messages": b'event: message_stop\ndata: {"type": "message_stop"}\n\n',
    "responses": b'event: response.completed\ndata: {"text": "%b"}\n\ndata: [DONE]\n\n'
    % (b"word " * 100),
}
OPENINGS = {
    "chat": b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n',
    "messages": b'event: message_start\ndata: {"type":"message_start"}\n\n',
    "responses": b'event: response.created\ndata: {"type":"response.created"}\n\n',
}
FIRST_TEXTS = {
    "chat": b'data: {"choices":[{"delta":{"content":"one"}}]}\n\n',
    "messages": b'data: {"delta":{"type":"text_delta","text":"one"}}\n\n',
    "responses": b'data: {"type":"response.output_text.delta","delta":"one"}\n\n',
}


def formats(pairs: Sequence[Pair]) -> Formats:
    """The same pairs over every crossing; a plain request adds 2 ms, a stream's first text 1 ms."""
    first = FirstTokens(
        plain_ms=2.5,
        plain_direct_ms=0.5,
        governed_ms=dict.fromkeys((each.name for each in CROSSINGS), 4.0),
        direct_ms=3.0,
    )
    callers = {caller for caller, _ in TRANSLATIONS}
    once = Translating(
        dict.fromkeys(callers, 100_000),
        dict.fromkeys(callers, 200.0),
        {f"{caller}-{wire}": 700.0 for caller, wire in TRANSLATIONS},
    )
    return Formats(
        dict.fromkeys((each.name for each in CROSSINGS), pairs),
        {wire: [first] for wire in BY_WIRE},
        [once],
    )


def pair(governed_us: float, relay_us: float) -> Pair:
    return Pair(
        *(Interval(units=1000, seconds=1, cpu_s=us / 1e3) for us in (governed_us, relay_us))
    )


def test_every_crossing_is_held_to_a_bound_of_its_own() -> None:
    lines = Samples(formats=formats([pair(150, 60)])).figures()
    chunks = {line.required.name: line for line in lines if line.value == pytest.approx(2.5)}

    assert {name for name in chunks if name.startswith("chunk_")} == {
        f"chunk_{crossing.name}" for crossing in CROSSINGS
    }
    assert chunks["chunk_messages_over_anthropic"].as_json()["met"] is False
    assert chunks["chunk_chat_over_anthropic"].as_json()["met"] is True
    assert chunks["chunk_chat_over_responses"].note.startswith("150.0 us and 60.0 us")


def test_a_first_text_is_held_to_what_a_plain_request_adds() -> None:
    lines = Samples(formats=formats([pair(150, 60)])).figures()
    (line,) = (line for line in lines if line.required.name == "first_text_ratio")

    assert line.value == pytest.approx(0.5)
    assert line.as_json()["met"] is True
    assert line.note.startswith("1.00 ms and 2.00 ms")


def test_parsing_is_no_part_of_translating() -> None:
    values = {
        line.required.name: line.value for line in Samples(formats=formats([pair(1, 1)])).figures()
    }

    for caller, wire in TRANSLATIONS:
        assert values[f"translating_{caller}_{wire}"] == pytest.approx(2.5)


def test_all_its_ratios_are_compared() -> None:
    before, now = (
        {
            "figures": {
                line.required.name: line.as_json()
                for line in Samples(formats=formats([pair(governed_us, 60)])).figures()
            }
        }
        for governed_us in (100, 120)
    )

    assert len(regressions(before, now)) == len(CROSSINGS)
    compared = {one.name for one in REQUIRED if one.is_ratio}
    assert compared >= {f"translating_{caller}_{wire}" for caller, wire in TRANSLATIONS}


@pytest.mark.parametrize("format", sorted(ENDS))
@pytest.mark.parametrize("piece_bytes", [1, 7, 1000])
def test_each_format_ends_with_its_own_words(format: str, piece_bytes: int) -> None:
    data = HEAD + b"f\r\n" + OPENINGS[format] + FIRST_TEXTS[format] + CLOSINGS[format]
    reader = EventReader(ENDS[format])
    states = []
    # The first piece holds the status line, as the first read of a loopback socket does.
    for piece in (data[:20], *_pieces(data[20:], piece_bytes), LAST_CHUNK):
        reader.feed(piece)
        states.append(reader.is_whole)

    assert states == [False] * (len(states) - 1) + [True]
    assert reader.events == 2 + CLOSINGS[format].count(b"\n\n")


@pytest.mark.parametrize("format", sorted(ENDS))
def test_another_end_is_none(format: str) -> None:
    for other in ENDS.keys() - {format}:
        reader = EventReader(ENDS[format])
        reader.feed(HEAD + CLOSINGS[other] + LAST_CHUNK)

        assert reader.is_whole is (format == "chat" and other == "responses")


@pytest.mark.parametrize("format", sorted(CONTENT))
def test_an_opening_is_no_first_text(format: str) -> None:
    assert not CONTENT[format].search(OPENINGS[format])
    assert CONTENT[format].search(OPENINGS[format] + FIRST_TEXTS[format])


def test_an_answer_is_whole_by_its_length_or_its_last_chunk() -> None:
    sized = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    chunked = HEAD + b"2\r\nab" + LAST_CHUNK

    for answer in (sized, chunked):
        assert is_whole(answer)
        assert not is_whole(answer[:-1])


def test_the_relay_between_two_crossings_copies_their_wire() -> None:
    for wire, crossings in BY_WIRE.items():
        assert {crossing.wire for crossing in crossings} == {wire}
    assert Crossing("messages", "anthropic") in CROSSINGS
    assert set(BY_WIRE) == set(FORMATS)


@pytest.mark.parametrize("caller", ["chat", "messages", "responses"])
def test_a_conversation_is_long_and_passes_its_formats_check(caller: str) -> None:
    body = conversation(caller)

    assert BYTES_MIN < len(body) < 1.1 * BYTES_MIN
    assert parser_of(caller)(body) is not None


@pytest.mark.parametrize(("caller", "wire"), TRANSLATIONS)
def test_a_translation_loses_no_text(caller: str, wire: str) -> None:
    body = conversation(caller)
    sent = translator_of(caller, wire)(body)

    told = orjson.loads(sent)
    assert told["model"] == "bench"
    assert len(told["tools"]) == 3
    for text in _texts(orjson.loads(body)):
        assert json.dumps(text).encode() in sent


def test_every_translation_and_its_parsing_are_timed() -> None:
    (once,) = measured(1, 0.01)

    for caller, wire in TRANSLATIONS:
        assert once.parsing_us[caller] > 0
        assert once.translating_us(caller, wire) > -once.parsing_us[caller]


def _texts(value: object) -> list[str]:
    """Every text longer than a name."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) and len(value) > 140 else []


def _pieces(data: bytes, piece_bytes: int) -> list[bytes]:
    return [data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes)]
