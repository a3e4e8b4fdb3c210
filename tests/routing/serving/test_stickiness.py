"""Who is kept where, by the rules of inference reference 7.8, over a real hint store."""

import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from gateway.hints import Hints
from routing.catalogue.entries import EndpointEntry
from routing.formats.chat.request import ChatRequest, parse_chat
from routing.metering.usage import Usage
from routing.serving import stickiness
from routing.serving.stickiness import (
    Kept,
    Key,
    Records,
    key_of,
    recall,
    remember,
    seeded_random,
)
from tests.routing.selection.entries import endpoint, model
from tests.routing.serving.learning import Clock
from tests.support.valkey import ValkeyServer

ACCOUNT = uuid.UUID(int=1)
CHEAP_CACHE = {"prompt": "0.000002", "completion": "0.000004", "input_cache_read": "0.0000002"}
DEAR_CACHE = CHEAP_CACHE | {"input_cache_read": "0.000002"}
PLAIN, CACHED = Usage(10, 10), Usage(10, 10, cached_tokens=5)
WROTE = Usage(10, 10, cache_write_tokens=5)


def chat(session_header: str | None = None, **body: Any) -> ChatRequest:
    given = {"model": "acme/small", "messages": [{"role": "user", "content": "Hello"}]} | body
    return parse_chat(given, session_header=session_header)


def key(request: ChatRequest, *, account: uuid.UUID = ACCOUNT, name: str = "acme/small") -> Key:
    found = key_of(request, account_id=account, model=name)
    assert found is not None
    return found


def messages(*pairs: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"role": role, "content": content} for role, content in pairs]


# --- Keys -----------------------------------------------------------------------------------------


def test_a_session_goes_before_a_cache_key_before_the_messages() -> None:
    plain, cached = chat(), chat(prompt_cache_key="k")
    named, headed = chat(session_id="s", prompt_cache_key="k"), chat("s")

    assert key(named) == key(headed) == key(chat(session_id="s", messages=messages(("user", "x"))))
    assert len({key(plain).digest, key(cached).digest, key(named).digest}) == 3
    assert [key(each).by_session for each in (plain, cached, named)] == [False, False, True]
    assert key(chat(session_id="k")) != key(cached)


def test_account_and_model_are_part_of_it() -> None:
    request = chat(session_id="s")

    assert key(request) != key(request, account=uuid.UUID(int=2))
    assert key(request) != key(request, name="acme/other")


OPENING = (("system", "Be kind"), ("user", "Hello"))
SAME: list[Any] = [
    (*OPENING, ("assistant", "Hi"), ("user", "More")),
    (OPENING[1], OPENING[0], ("user", "Later")),
    (*OPENING, ("system", "A second one")),
]
OTHER: list[Any] = [
    (("system", "Be brief"), OPENING[1]),
    (OPENING[0], ("user", "Goodbye")),
    (OPENING[1],),
    (("developer", "Be kind"), OPENING[1]),
    (OPENING[0], ("user", [{"type": "text", "text": "Hello"}])),
]


@pytest.mark.parametrize("pairs", SAME)
def test_a_conversation_is_known_by_how_it_began(pairs: Any) -> None:
    assert key(chat(messages=messages(*pairs))) == key(chat(messages=messages(*OPENING)))


@pytest.mark.parametrize("pairs", OTHER)
def test_another_beginning_is_another_conversation(pairs: Any) -> None:
    assert key(chat(messages=messages(*pairs))) != key(chat(messages=messages(*OPENING)))


def test_long_messages_are_told_apart_by_their_ends_and_length() -> None:
    long = "x" * 500_000
    variants = [long, long + "x", "y" + long[1:], long[:-1] + "y"]
    keys = {key(chat(messages=messages(("user", text)))).digest for text in variants}

    assert len(keys) == len(variants)


def test_parts_of_any_kind_are_part_of_it() -> None:
    def pictured(url: str) -> ChatRequest:
        part = {"type": "image_url", "image_url": {"url": url}}
        return chat(messages=messages(("user", [part])))

    assert key(pictured("http://a.test/1.png")) == key(pictured("http://a.test/1.png"))
    assert key(pictured("http://a.test/1.png")) != key(pictured("http://a.test/2.png"))


def test_there_is_no_key_where_nobody_can_have_kept_it() -> None:
    dear, cheap = model(endpoint(pricing=DEAR_CACHE)), model(endpoint(pricing=CHEAP_CACHE))

    def found(request: ChatRequest, *models: Any) -> Key | None:
        return key_of(request, account_id=ACCOUNT, model="acme/small", models=models)

    assert found(chat(), dear) is None
    assert found(chat(), model(endpoint())) is None
    assert found(chat(), dear, cheap) == key(chat())
    assert found(chat(session_id="s"), dear) == key(chat(session_id="s"))


# --- Draws ----------------------------------------------------------------------------------------


def test_draws_of_one_key_are_the_same_everywhere_and_even() -> None:
    digest = key(chat(session_id="s")).digest
    one, two = seeded_random(digest), seeded_random(digest)
    assert [one() for _ in range(5)] == [two() for _ in range(5)]

    draws = [seeded_random(key(chat(session_id=str(n))).digest)() for n in range(4000)]

    assert all(0 <= draw < 1 for draw in draws)
    tenths = Counter(int(draw * 10) for draw in draws)
    # 400 each; five standard deviations of a fair draw.
    assert all(300 < tenths[tenth] < 500 for tenth in range(10))


# --- Records --------------------------------------------------------------------------------------


class Process:
    """One process's records and way to the store; `use()` makes it this one's."""

    def __init__(self, patch: pytest.MonkeyPatch, url: str) -> None:
        self.hints = Hints(url, timeout_s=0.1)
        self.records = Records(lasts_s=600)
        self._patch = patch

    def use(self) -> "Process":
        self._patch.setattr(stickiness, "hints", lambda: self.hints)
        self._patch.setattr(stickiness, "_own", lambda: self.records)
        return self


@pytest.fixture
def two(valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Process]]:
    processes = [Process(monkeypatch, valkey.url) for _ in range(2)]
    yield processes
    for process in processes:
        process.hints.close()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Process:
    return Process(monkeypatch, "").use()


def kept_at(where: EndpointEntry) -> Kept:
    return Kept(where.model_id, where.tag)


def test_what_one_process_keeps_another_recalls(two: list[Process]) -> None:
    session, alpha, beta = key(chat(session_id="s")), endpoint("alpha"), endpoint("beta")
    two[0].use()
    remember(session, alpha, PLAIN)
    two[1].use()
    assert recall(session) == kept_at(alpha)
    remember(session, beta, PLAIN)

    two[0].use()

    assert recall(session) == kept_at(beta)


def test_it_lasts_as_long_as_the_setting_says(
    two: list[Process], valkey: ValkeyServer, settings: Any
) -> None:
    settings.ROUTER_STICKY_SECONDS = 123
    two[0].use()
    remember(key(chat(session_id="s")), endpoint("alpha"), PLAIN)

    with redis.Redis.from_url(valkey.url) as client:
        (name,) = client.keys("gateway:*:sticky:*")
        assert 120_000 < client.pttl(name) <= 123_000


def test_without_a_store_a_process_keeps_for_itself(alone: Process) -> None:
    session, alpha = key(chat(session_id="s")), endpoint("alpha")
    assert recall(session) is None

    remember(session, alpha, PLAIN)

    assert recall(session) == kept_at(alpha)


def test_a_store_that_forgot_or_froze_leaves_what_the_process_knows(
    two: list[Process], valkey: ValkeyServer
) -> None:
    session, alpha = key(chat(session_id="s")), endpoint("alpha")
    two[0].use()
    remember(session, alpha, PLAIN)
    valkey.flush()
    assert recall(session) == kept_at(alpha)
    valkey.pause()
    try:
        assert recall(session) == kept_at(alpha)
    finally:
        valkey.resume()


@pytest.mark.parametrize("odd", [b"", b"nonsense", b"5", b"[1]", b'[2,"a","b"]', b"[1,2,3]"])
def test_what_cannot_be_read_is_as_good_as_nothing(
    two: list[Process], valkey: ValkeyServer, odd: bytes
) -> None:
    session = key(chat(session_id="s"))
    two[0].use()
    remember(session, endpoint("alpha"), PLAIN)
    with redis.Redis.from_url(valkey.url) as client:
        (name,) = client.keys("gateway:*:sticky:*")
        client.set(name, odd)

    two[1].use()

    assert recall(session) is None


SET: list[tuple[dict[str, Any], dict[str, str], Usage, bool]] = [
    ({"session_id": "s"}, DEAR_CACHE, PLAIN, True),
    ({"session_id": "s"}, CHEAP_CACHE, PLAIN, True),
    ({}, CHEAP_CACHE, PLAIN, False),
    ({}, CHEAP_CACHE, CACHED, True),
    ({}, CHEAP_CACHE, WROTE, True),
    ({}, DEAR_CACHE, CACHED, False),
    ({"prompt_cache_key": "k"}, CHEAP_CACHE, CACHED, True),
    ({"prompt_cache_key": "k"}, CHEAP_CACHE, PLAIN, False),
]


@pytest.mark.parametrize(("body", "pricing", "usage", "is_kept"), SET)
def test_when_a_record_is_set(
    alone: Process, body: dict[str, Any], pricing: dict[str, str], usage: Usage, is_kept: bool
) -> None:
    found = key(chat(**body))
    where = endpoint("alpha", pricing=pricing)

    remember(found, where, usage)

    assert recall(found) == (kept_at(where) if is_kept else None)


def test_without_a_key_nothing_is_kept(alone: Process) -> None:
    remember(None, endpoint("alpha"), CACHED)

    assert len(alone.records) == 0


def test_the_endpoint_is_found_by_model_and_tag_or_not_at_all() -> None:
    first = model(endpoint("alpha"), endpoint("beta"), id="acme/first")
    second = model(endpoint("beta"), id="acme/second")

    assert Kept("acme/second", "beta").endpoint_in([first, second]) is second.endpoints[0]
    assert Kept("acme/first", "gone").endpoint_in([first, second]) is None
    assert Kept("acme/gone", "beta").endpoint_in([first, second]) is None


def test_a_process_keeps_so_many_and_so_long() -> None:
    clock = Clock()
    records = Records(lasts_s=10, records_max=3, clock=clock)
    for number in range(4):
        records.put(bytes([number]), Kept("m", str(number)))
    assert len(records) == 3
    assert records.get(b"\x00") is None

    clock.now += 9
    records.put(b"\x01", Kept("m", "again"))
    clock.now += 2

    assert records.get(b"\x01") == Kept("m", "again")
    assert records.get(b"\x02") is None
