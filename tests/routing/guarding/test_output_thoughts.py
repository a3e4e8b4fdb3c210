"""Output filters on streamed thoughts: where nothing matches, callers read them as without filters,
in every format."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from routing.guarding.stream_guard import GuardedWriter
from tests.routing.formats.messages import streams as messages
from tests.routing.formats.messages.stream_reader import Read
from tests.routing.formats.messages.test_stream_properties import deltas_of, items
from tests.routing.formats.responses import answers as responses
from tests.routing.formats.responses.reader import Reader
from tests.routing.formats.responses.test_stream_properties import answers
from tests.routing.guarding.filtering import place_filter
from tests.routing.guarding.test_output_streams import guard_of

Delta = dict[str, Any]
FILTERS = (place_filter("redact", "email"), place_filter("redact", "phone"))
# It holds a text to its end.
WHOLE = (place_filter("redact", pattern="BEGIN.*END"),)
filters = st.sampled_from([FILTERS, WHOLE])


def read_blocks(writer: Any, deltas: list[Delta]) -> list[Delta]:
    said = writer.write_opening() + b"".join(writer.delta(delta) for delta in deltas)
    return Read(said + writer.write_ending(messages.ending())).content


def read_items(writer: Any, deltas: list[Delta]) -> list[Delta]:
    said = writer.write_opening() + b"".join(writer.delta(delta) for delta in deltas)
    ended = said + writer.write_ending(responses.ending("stop"))
    return Reader().read(responses.read(ended, done=True)).items


@given(st.data(), items(), filters)
def test_callers_of_messages_read_each_thought_with_its_signature(
    data: st.DataObject, details: list[Delta], acting: Any
) -> None:
    deltas = [delta for item in details for delta in data.draw(deltas_of(item))]
    deltas.append({"content": "Done."})
    guarded = GuardedWriter(messages.stream(), guard_of(*acting), None)
    assert read_blocks(guarded, deltas) == read_blocks(messages.stream(), deltas)


@given(answers(), filters)
def test_callers_of_responses_read_each_item_as_it_was(
    answer: tuple[Delta, list[Delta]], acting: Any
) -> None:
    _, deltas = answer
    guarded = GuardedWriter(responses.stream(), guard_of(*acting), None)
    assert read_items(guarded, deltas) == read_items(responses.stream(), deltas)
