"""Answers to texts that are near each other: nearness, groups and how much is kept."""

import time
from typing import Any

import pytest

from routing.response_cache import near_answers
from routing.response_cache.cached_answers import Entry, LocalStore, find, forget_all, put
from routing.response_cache.near_answers import (
    NOT_NEAR,
    find_near_answer,
    normalize,
    split_last_text,
    store_near_answer,
)

GROUP, OTHER = "a" * 64, "b" * 64
EAST, NORTH = (1.0, 0.0), (0.0, 1.0)


@pytest.fixture(autouse=True)
def no_store(settings: Any) -> None:
    settings.REDIS_URL = ""
    forget_all()


def entry(name: str) -> Entry:
    return Entry(name, 4e9, 60, "m/m", "P", "p", "stop", "stop", b"{}")


def test_the_nearest_answer_of_the_group_is_found_where_it_is_near_enough() -> None:
    store_near_answer(GROUP, EAST, entry("east"))
    store_near_answer(GROUP, NORTH, entry("north"))
    between = normalize((3.0, 1.0))
    assert between is not None
    found = find_near_answer(GROUP, between, 0.9)
    assert found.entry is not None
    assert (found.entry.generation_id, round(found.similarity, 3)) == ("east", 0.949)
    assert find_near_answer(GROUP, between, 0.95).entry is None
    assert find_near_answer(OTHER, EAST, 0.1) == (None, -1.0)
    # Another model's vectors are compared with none of these.
    assert find_near_answer(GROUP, (1.0, 0.0, 0.0), 0.1).entry is None


def test_a_group_keeps_so_many_and_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    # A bound that three entries reach.
    monkeypatch.setattr(near_answers, "ENTRIES_MAX", 2)
    for name, vector in (("first", EAST), ("second", NORTH), ("third", (-1.0, 0.0))):
        store_near_answer(GROUP, vector, entry(name))
    assert find_near_answer(GROUP, EAST, 0.9).entry is None
    assert find_near_answer(GROUP, NORTH, 0.9).entry is not None


def test_the_same_vector_s_next_answer_takes_the_place_of_the_first() -> None:
    for name in ("first", "second"):
        store_near_answer(GROUP, EAST, entry(name))
    found = find_near_answer(GROUP, EAST, 0.9).entry
    assert found is not None
    assert found.generation_id == "second"
    # Sealed for its group.
    put(OTHER, find(GROUP) or b"", ttl_s=60)
    assert find_near_answer(OTHER, EAST, 0.1) == NOT_NEAR


def test_an_answer_ends_with_its_time() -> None:
    store_near_answer(GROUP, EAST, entry("past")._replace(stored_at=time.time() - 60))
    assert find_near_answer(GROUP, EAST, 0.9).entry is None


def test_a_process_keeps_as_much_as_so_many_answers_may_take(settings: Any) -> None:
    settings.ROUTER_RESPONSE_CACHE_ENTRIES, settings.ROUTER_RESPONSE_CACHE_ENTRY_BYTES = 3, 100
    store = LocalStore()
    for place in range(3):
        store.put(place, b"x" * 100, 60)
    store.put(1, b"x" * 150, 60)
    assert [store.find(place) is not None for place in range(3)] == [False, True, True]


def test_a_vector_of_nothing_has_no_direction_and_one_too_long_is_not_compared() -> None:
    assert normalize((1.0,) * (near_answers.DIMENSIONS_MAX + 1)) is None
    assert normalize((0.0, 0.0)) is None
    assert normalize((0.0, 2.0)) == NORTH


def build_chat(content: Any, role: str = "user") -> Any:
    return {
        "messages": [{"role": "system", "content": "Be brief"}, {"role": role, "content": content}]
    }


@pytest.mark.parametrize(
    "body",
    [
        build_chat("Hello"),
        build_chat([{"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}]),
        {"input": "Hello", "model": "m/m"},
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}]},
    ],
)
def test_what_may_differ_is_the_last_text_of_the_user(body: Any) -> None:
    split = split_last_text(body)
    assert split is not None
    text, rest = split
    assert text == "Hello"
    assert "Hello" not in str(rest)
    assert "cache_control" in str(rest) or "cache_control" not in str(body)
    assert rest.keys() == body.keys()


@pytest.mark.parametrize(
    "body",
    [
        build_chat("Hello", "assistant"),
        build_chat([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        build_chat([{"type": "image_url", "image_url": {"url": "https://a.test/b.png"}}]),
        {"input": []},
    ],
)
def test_other_ends_have_no_text_that_may_differ(body: Any) -> None:
    assert split_last_text(body) is None
