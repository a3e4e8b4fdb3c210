"""That the bench times what it says: real streams, choices, translations and steps."""

import json

import orjson
import pytest

from routing.catalogue.assembly import assemble
from tests.load import observing, toolless, translating
from tests.load.apart import timed_us
from tests.load.crossings import CONTENT
from tests.load.selecting import AUTO, ENDPOINTS, MODEL, chooser, rows_of
from tests.load.streams import ENDS, EventReader
from tests.load.targets import LAST_CHUNK
from tests.load.translating import BYTES_MIN, TRANSLATIONS, conversation, translator_of

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
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


@pytest.mark.parametrize("format", sorted(ENDS))
@pytest.mark.parametrize("piece_bytes", [1, 2, 7, 1000])
def test_events_are_counted_however_the_bytes_are_cut_until_the_formats_own_end(
    format: str, piece_bytes: int
) -> None:
    data = HEAD + b"f\r\n" + OPENINGS[format] + FIRST_TEXTS[format] + CLOSINGS[format]
    reader = EventReader(ENDS[format])
    # The first piece holds the status line, as the first read of a loopback socket does.
    pieces = [data[:20]]
    pieces += [data[at : at + piece_bytes] for at in range(20, len(data), piece_bytes)]
    states = []
    for piece in (*pieces, LAST_CHUNK):
        reader.feed(piece)
        states.append(reader.is_whole)

    assert states == [False] * (len(states) - 1) + [True]
    assert reader.events == 2 + CLOSINGS[format].count(b"\n\n")


@pytest.mark.parametrize("format", sorted(ENDS))
def test_another_formats_end_or_a_refusal_is_no_end(format: str) -> None:
    for other in ENDS.keys() - {format}:
        reader = EventReader(ENDS[format])
        reader.feed(HEAD + CLOSINGS[other] + LAST_CHUNK)

        assert reader.is_whole is (format == "chat" and other == "responses")

    refused = EventReader(ENDS[format])
    refused.feed(HEAD.replace(b"200", b"503") + CLOSINGS[format] + LAST_CHUNK)
    assert not refused.is_whole


@pytest.mark.parametrize("format", sorted(CONTENT))
def test_an_opening_is_no_first_text(format: str) -> None:
    assert not CONTENT[format].search(OPENINGS[format])
    assert CONTENT[format].search(OPENINGS[format] + FIRST_TEXTS[format])


@pytest.mark.parametrize(("caller", "wire"), TRANSLATIONS)
def test_a_translation_loses_no_text(caller: str, wire: str) -> None:
    body = conversation(caller)
    assert BYTES_MIN < len(body) < 1.1 * BYTES_MIN
    sent = translator_of(caller, wire)(body)

    told = orjson.loads(sent)
    assert (told["model"], len(told["tools"])) == ("bench", 3)
    texts = _texts(orjson.loads(body))
    assert len(texts) > 100
    assert [text for text in texts if json.dumps(text).encode() not in sent] == []


def test_every_translation_its_parsing_and_the_steps_of_tools_are_timed() -> None:
    found = translating.measure_translating(0.01)

    for caller, wire in TRANSLATIONS:
        assert found.parsing_us[caller] > 0
        assert found.translating_us(caller, wire) > -found.parsing_us[caller]
    assert 0 < toolless.measure_toolless(0.02).steps_us < 1000
    observed = observing.measure_observing(0.3)
    assert 0 < observed.untraced_us < observed.metrics_us < observed.traced_us


def test_every_endpoint_of_the_catalogue_can_be_chosen() -> None:
    snapshot = assemble(rows_of(3, 2))

    assert snapshot.problems == ()
    assert len(snapshot.models[MODEL].by_price) == ENDPOINTS
    assert [len(model.endpoints) for model in snapshot.models.values()] == [ENDPOINTS, 2, 2, 2]
    for reference in (MODEL, AUTO):
        assert timed_us(chooser(snapshot, reference), seconds=0.001) > 0


def _texts(value: object) -> list[str]:
    """Every text longer than a name."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) and len(value) > 140 else []
