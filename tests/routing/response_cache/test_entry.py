"""What the response cache keeps: under which name, for whom it opens, and how it is told again."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.response_cache import shelf
from routing.response_cache.entry import Entry, name_of, packed, unpacked
from routing.response_cache.retelling import retold, retold_events, zeroed

BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
IDS = {"chat": "gen-new", "message": "msg_new", "response": "resp_new"}


def name(key: str = "key", **changes: Any) -> str:
    said: dict[str, Any] = {
        "kind": "chat",
        "model": "m",
        "stream": False,
        "bodies": (BODY,),
    } | changes
    return name_of(key, **said)


def entry(content: bytes = b"{}", *, stored_at: float = 0.0, ttl_s: int = 60) -> Entry:
    at = stored_at or time.time()
    return Entry("gen-old", at, ttl_s, "m", "Acme", "acme", "stop", "end", content)


def test_everything_that_matters_is_in_the_name() -> None:
    names = [
        name(),
        name("other"),
        name(kind="messages"),
        name(model="n"),
        name(stream=True),
        name(bodies=(dict(reversed(BODY.items())),)),
        name(bodies=(BODY, BODY)),
        name(bodies=({**BODY, "seed": 1},)),
        name(beside="beta"),
    ]
    assert len(set(names)) == len(names)
    assert name() == name(bodies=(dict(BODY),))


@given(st.binary(max_size=2_000))
def test_what_is_kept_comes_back(content: bytes) -> None:
    kept = entry(content)
    assert unpacked(packed(kept, name()), name()) == kept


def test_it_opens_under_its_own_name_only() -> None:
    sealed = packed(entry(b"secret words" * 50), name())
    assert b"secret" not in sealed
    assert unpacked(sealed, name("other")) is None
    assert unpacked(sealed[:-1], name()) is None
    assert unpacked(b"", name()) is None


def test_what_has_run_out_is_gone() -> None:
    old = entry(stored_at=time.time() - 61)
    assert unpacked(packed(old, name()), name()) is None
    young = entry(stored_at=time.time() - 20)
    assert (young.age_s, young.left_s) == (20, 40)


def test_there_are_so_many_places(settings) -> None:
    settings.REDIS_URL = ""
    settings.ROUTER_RESPONSE_CACHE_ENTRIES = 3
    shelf.forget_all()
    names = [name(str(number)) for number in range(50)]
    for each in names:
        shelf.put(each, packed(entry(), each), ttl_s=60)
    found = [unpacked(value, each) for each in names if (value := shelf.find(each)) is not None]
    assert 1 <= sum(each is not None for each in found) <= 3
    shelf.forget_all()


def test_a_place_is_empty_once_its_time_has_passed() -> None:
    places = shelf.Shelf()
    places.put(1, b"a", -1)
    places.put(2, b"b", 60)
    assert places.find(1) is None
    assert places.find(2) == b"b"
    assert places.find(3) is None


def test_a_whole_answer_is_told_again() -> None:
    said = {
        "id": "gen-old",
        "object": "chat.completion",
        "created": 1,
        "choices": [{"message": {"content": "gen-old"}}],
        "usage": {
            "prompt_tokens": 5,
            "cost": 0.25,
            "is_byok": True,
            "details": {"a": 1, "b": None},
        },
        "router_metadata": {"attempt": 1},
    }

    made = json.loads(retold(json.dumps(said).encode(), ids=IDS, now=9))

    assert made == {
        "id": "gen-new",
        "object": "chat.completion",
        "created": 9,
        "choices": said["choices"],
        "usage": {"prompt_tokens": 0, "cost": 0, "is_byok": False, "details": {"a": 0, "b": None}},
    }


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (
            {"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "a"}},
            {"type": "message_start", "message": {"id": "msg_new", "type": "message", "role": "a"}},
        ),
        (
            {"type": "message_delta", "usage": {"output_tokens": 3, "service_tier": "standard"}},
            {"type": "message_delta", "usage": {"output_tokens": 0, "service_tier": "standard"}},
        ),
        ({"type": "message_stop", "router_metadata": {}}, {"type": "message_stop"}),
        (
            {
                "type": "response.completed",
                "response": {
                    "id": "r",
                    "object": "response",
                    "created_at": 1,
                    "completed_at": None,
                },
            },
            {
                "type": "response.completed",
                "response": {
                    "id": "resp_new",
                    "object": "response",
                    "created_at": 9,
                    "completed_at": None,
                },
            },
        ),
        (
            {"type": "response.output_item.done", "item": {"id": "msg_2", "type": "message"}},
            {"type": "response.output_item.done", "item": {"id": "msg_2", "type": "message"}},
        ),
    ],
)
def test_events_are_told_again(event: dict[str, Any], told: dict[str, Any]) -> None:
    sent = f": KEEP ALIVE\n\nevent: x\ndata: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode()
    made = retold_events(sent, ids=IDS, now=9).decode()
    first, data, rest = made.split("\n", 2)
    assert first == "event: x"
    assert json.loads(data.removeprefix("data: ")) == told
    assert rest == "\ndata: [DONE]\n\n"


def test_nothing_of_usage_is_left() -> None:
    assert zeroed([1, 2.5, "a", None, True]) == [0, 0, "a", None, False]
