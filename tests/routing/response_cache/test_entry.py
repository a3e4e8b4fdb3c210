"""What the response cache keeps: under which name, for whom it opens, and how it is told again."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.response_cache import cached_answers
from routing.response_cache.cached_answers import (
    Entry,
    build_entry_name,
    pack_entry,
    repeat_answer,
    repeat_events,
    unpack_entry,
)

BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
IDS = {"chat": "gen-new", "message": "msg_new", "response": "resp_new"}


def name(key: str = "key", **changes: Any) -> str:
    said: dict[str, Any] = {"kind": "chat", "model": "m", "stream": False, "bodies": (BODY,)}
    return build_entry_name(key, **said | changes)


def entry(content: bytes = b"{}", *, stored_at: float = 0.0, ttl_s: int = 60) -> Entry:
    at = stored_at or time.time()
    return Entry("gen-old", at, ttl_s, "m", "Acme", "acme", "stop", "end", content)


def test_everything_that_matters_is_in_the_name() -> None:
    bodies = [(dict(reversed(BODY.items())),), (BODY, BODY), ({**BODY, "seed": 1},)]
    changes: list[dict[str, Any]] = [{"kind": "messages"}, {"model": "n"}, {"stream": True}]
    changes += [{"beside": "beta"}, *({"bodies": each} for each in bodies)]
    names = {name(), name("other"), *(name(**change) for change in changes)}
    assert len(names) == 2 + len(changes)
    assert name() == name(bodies=(dict(BODY),))


def test_sorted_bodies_have_one_name_whatever_the_order_of_their_properties() -> None:
    schema = {"b": {"y": 1, "x": 2**70}, "a": [{"d": 1, "c": 2}, "e"]}
    turned = {"a": [{"c": 2, "d": 1}, "e"], "b": {"x": 2**70, "y": 1}}
    assert name(bodies=(schema,), is_sorted=True) == name(bodies=(turned,), is_sorted=True)
    assert name(bodies=(schema,)) != name(bodies=(turned,))
    # The order of a list is another request.
    other = {**schema, "a": ["e", {"d": 1, "c": 2}]}
    assert name(bodies=(schema,), is_sorted=True) != name(bodies=(other,), is_sorted=True)


@given(st.binary(max_size=2_000))
def test_what_is_kept_comes_back(content: bytes) -> None:
    kept = entry(content)
    assert unpack_entry(pack_entry(kept, name()), name()) == kept


def test_it_opens_under_its_own_name_only_and_in_its_time() -> None:
    sealed = pack_entry(entry(b"secret words" * 50), name())
    assert b"secret" not in sealed
    old = pack_entry(entry(stored_at=time.time() - 61), name())
    for value, under in [
        (sealed, name("other")),
        (sealed[:-1], name()),
        (b"", name()),
        (old, name()),
    ]:
        assert unpack_entry(value, under) is None
    young = entry(stored_at=time.time() - 20)
    assert (young.age_s, young.left_s) == (20, 40)


def test_there_are_so_many_places(settings) -> None:
    settings.REDIS_URL = ""
    settings.ROUTER_RESPONSE_CACHE_ENTRIES = 3
    cached_answers.forget_all()
    names = [name(str(number)) for number in range(50)]
    for each in names:
        cached_answers.put(each, pack_entry(entry(), each), ttl_s=60)
    found = [
        unpack_entry(value, each)
        for each in names
        if (value := cached_answers.find(each)) is not None
    ]
    assert 1 <= sum(each is not None for each in found) <= 3
    cached_answers.forget_all()


def test_a_place_is_empty_once_its_time_has_passed() -> None:
    places = cached_answers.LocalStore()
    places.put(1, b"a", -1)
    places.put(2, b"b", 60)
    assert [places.find(number) for number in (1, 2, 3)] == [None, b"b", None]


def test_a_whole_answer_is_told_again() -> None:
    usage = {
        "prompt_tokens": 5,
        "cost": 0.25,
        "is_byok": True,
        "details": {"a": 1.5, "b": None, "c": ["d", True]},
    }
    kept = {"object": "chat.completion", "choices": [{"message": {"content": "gen-old"}}]}
    said = {**kept, "id": "gen-old", "created": 1, "usage": usage, "router_metadata": {"a": 1}}
    none = {
        "prompt_tokens": 0,
        "cost": 0,
        "is_byok": False,
        "details": {"a": 0, "b": None, "c": ["d", False]},
    }
    made = json.loads(repeat_answer(json.dumps(said).encode(), ids=IDS, now=9))
    assert made == {**kept, "id": "gen-new", "created": 9, "usage": none}


def response_event(id: str, created_at: int) -> dict[str, Any]:
    kept = {"object": "response", "completed_at": None}
    return {"type": "response.completed", "response": {**kept, "id": id, "created_at": created_at}}


def message_event(id: str) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": id, "type": "message", "role": "a"}}


def usage_event(tokens: int) -> dict[str, Any]:
    return {"type": "message_delta", "usage": {"output_tokens": tokens, "service_tier": "standard"}}


ITEM = {"type": "response.output_item.done", "item": {"id": "msg_2", "type": "message"}}


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (message_event("msg_1"), message_event("msg_new")),
        (usage_event(3), usage_event(0)),
        ({"type": "message_stop", "router_metadata": {}}, {"type": "message_stop"}),
        (response_event("r", 1), response_event("resp_new", 9)),
        (ITEM, ITEM),
    ],
)
def test_events_are_told_again(event: dict[str, Any], told: dict[str, Any]) -> None:
    sent = f": KEEP ALIVE\n\nevent: x\ndata: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode()
    first, data, rest = repeat_events(sent, ids=IDS, now=9).decode().split("\n", 2)
    assert (first, rest) == ("event: x", "\ndata: [DONE]\n\n")
    assert json.loads(data.removeprefix("data: ")) == told
