"""A thought that an upstream broke off, and that of the one that goes on: two, in every format,
though both number theirs alike."""

import json
from typing import Any

import pytest

from routing.formats.chat.format import ChatStream
from routing.guarding.stream_guard import GuardedWriter
from tests.routing.formats.messages import streams as messages
from tests.routing.formats.messages.stream_reader import Read
from tests.routing.formats.responses import answers as responses
from tests.routing.formats.responses.reader import Reader
from tests.routing.guarding.filtering import place_filter
from tests.routing.guarding.test_output_streams import guard_of

THOUGHT = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
UNNUMBERED = {"type": "reasoning.text", "format": "anthropic-claude-v1"}
# It holds a text to its end.
WHOLE = place_filter("redact", pattern="BEGIN.*END")

both_ways = pytest.mark.parametrize("is_guarded", [False, True])
each_numbering = pytest.mark.parametrize("fields", [THOUGHT, UNNUMBERED])


def write(writer: Any, fields: dict[str, Any], *, is_guarded: bool) -> tuple[Any, bytes]:
    """The writer, and what it wrote of the two thoughts."""
    if is_guarded:
        writer = GuardedWriter(writer, guard_of(WHOLE), None)
    said = writer.write_opening() + writer.delta({"reasoning_details": [{**fields, "text": "A"}]})
    said += writer.mark_seam({"said_chars": 0})
    thought = [{**fields, "text": "B"}, {**fields, "signature": "sig"}]
    for detail in thought:
        said += writer.delta({"reasoning_details": [detail]})
    return writer, said + writer.delta({"content": "Done."})


@both_ways
def test_chat_numbers_them_apart(is_guarded: bool) -> None:
    _, said = write(ChatStream(responses.SERVED), THOUGHT, is_guarded=is_guarded)
    values = [json.loads(chunk[len("data: ") :]) for chunk in said.decode().split("\n\n")[:-1]]
    deltas = [value["choices"][0]["delta"] for value in values]
    details = [each for delta in deltas for each in delta.get("reasoning_details", ())]
    assert [(each["index"], each.get("text")) for each in details] == [
        (0, "A"),
        (1, "B"),
        (1, None),
    ]


@both_ways
@each_numbering
def test_messages_signs_the_whole_one_alone(fields: dict[str, Any], is_guarded: bool) -> None:
    writer, said = write(messages.stream(), fields, is_guarded=is_guarded)
    content = Read(said + writer.write_ending(messages.ending())).content
    assert [(each.get("thinking"), each.get("signature")) for each in content] == [
        ("A", ""),
        ("B", "sig"),
        (None, None),
    ]


@both_ways
@each_numbering
def test_responses_has_an_item_for_each(fields: dict[str, Any], is_guarded: bool) -> None:
    writer, said = write(responses.stream(), fields, is_guarded=is_guarded)
    ended = said + writer.write_ending(responses.ending())
    events = [each for each in responses.read(ended, done=True) if "rescue" not in each["type"]]
    for number, event in enumerate(events):
        event["sequence_number"] = number
    items = Reader().read(events).items
    assert [each["type"] for each in items] == ["reasoning", "reasoning", "message"]
    assert [each.get("signature") for each in items] == [None, "sig", None]
