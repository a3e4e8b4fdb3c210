"""Sharing while the hint store goes, comes back, or holds what nobody wrote."""

import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest
import redis

from routing.catalogue.entries import EndpointEntry
from routing.serving.long_windows import head_key
from routing.serving.shared_form import VERSION, stream
from tests.routing.serving.processes import Start
from tests.support.promptness import in_time
from tests.support.valkey import ValkeyServer

ODD: list[dict[str, Any]] = [
    {},
    {"p": "x"},
    {"p": "x", "d": b"\xff\x00"},
    {"p": "x", "d": b"[]"},
    {"p": "x", "d": orjson.dumps({"v": VERSION + 1, "t": [], "m": []})},
    {"p": "x", "d": orjson.dumps({"v": VERSION, "t": "x", "m": []})},
    {"p": "x", "d": orjson.dumps({"v": VERSION, "t": [[1, 2]], "m": []})},
    {"p": "x", "d": orjson.dumps({"v": VERSION, "t": [], "m": [["outage", "x", 0, 0]]})},
    {"p": "x", "d": orjson.dumps({"v": VERSION, "t": [], "m": [["outage", 1, 1e300, 0]]})},
    {"p": "x", "d": orjson.dumps({"v": VERSION, "t": [], "m": [["fire", 1, 0, 0]]})},
    {"p": "x", "d": orjson.dumps({"v": VERSION, "t": [], "m": [5]})},
]


@pytest.mark.parametrize("odd", [each for each in ODD if each])
def test_what_cannot_be_read_is_passed_over(
    start: Start, one: EndpointEntry, valkey: ValkeyServer, odd: dict[str, Any]
) -> None:
    first, second = start(), start()
    second.sync()
    with redis.Redis.from_url(valkey.url) as client:
        client.xadd(stream(), odd)
        client.set(head_key(), odd.get("d", b""))
    first.answers(one)
    first.sync()

    assert second.sync()
    assert second.figures(one).calls == 10
    third = start()
    assert third.sync()
    assert third.figures(one).calls == 10


HARMS: dict[str, tuple[Callable[[ValkeyServer], None], Callable[[ValkeyServer], None]]] = {
    "killed": (ValkeyServer.stop, ValkeyServer.start),
    "frozen": (ValkeyServer.pause, ValkeyServer.resume),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_store_that_is_gone_costs_nothing_but_the_others_words(
    start: Start, one: EndpointEntry, valkey: ValkeyServer, harm: str
) -> None:
    begin, end = HARMS[harm]
    first, second = start(), start()
    first.sync()
    second.sync()
    begin(valkey)
    try:
        first.answers(one, 10)
        begun = time.monotonic()
        assert not first.sync()
        in_time(time.monotonic() - begun, 1.5)
        assert first.figures(one).calls == 10
    finally:
        end(valkey)

    first.answers(one, 10)
    assert first.sync()
    assert second.sync()
    assert first.figures(one).calls == 20
    # What could not be told is not told later: it might have arrived.
    assert second.figures(one).calls in (10, 20)


def test_an_emptied_store_is_filled_again(
    start: Start, one: EndpointEntry, valkey: ValkeyServer
) -> None:
    first, second = start(), start()
    first.answers(one, 5)
    first.sync()
    second.sync()
    valkey.flush()
    first.answers(one, 5)

    first.sync()
    second.sync()

    assert second.figures(one).calls == 10


def test_a_process_that_began_without_the_store_joins_later(
    start: Start, one: EndpointEntry, valkey: ValkeyServer
) -> None:
    first = start()
    first.answers(one, 10)
    first.sync()
    valkey.pause()
    late = start()
    try:
        late.answers(one, 1)
        assert not late.sync()
    finally:
        valkey.resume()

    assert late.sync()
    assert late.figures(one).calls == 11
