"""Who is kept where, by the rules of inference reference 7.8, over a real shared cache."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.shared_cache import SharedCache
from routing.entities.entries import EndpointEntry
from routing.formats.chat.request import ChatRequest, parse_chat
from routing.metering.usage import Usage
from routing.serving.request import stickiness
from routing.serving.request.stickiness import (
    ConversationKey,
    ConversationRecords,
    StickyEndpoint,
    build_conversation_key,
    recall,
    remember,
)
from tests.routing.selection.entries import endpoint, model, provider
from tests.routing.serving.learning import Clock
from tests.support.valkey import ValkeyServer

ACCOUNT, OTHER_ACCOUNT = uuid.UUID(int=1), uuid.UUID(int=2)
CHEAP_CACHE = {"prompt": "0.000002", "completion": "0.000004", "input_cache_read": "0.0000002"}
DEAR_CACHE = CHEAP_CACHE | {"input_cache_read": "0.000002"}
PLAIN, CACHED = Usage(10, 10), Usage(10, 10, cached_tokens=5)
WROTE = Usage(10, 10, cache_write_tokens=5)
ALPHA, BETA = endpoint("alpha"), endpoint("beta")


def chat(session_header: str | None = None, **body: Any) -> ChatRequest:
    given = {"model": "acme/small", "messages": [{"role": "user", "content": "Hello"}]} | body
    return parse_chat(given, session_header=session_header)


def key(
    request: ChatRequest, *, account: uuid.UUID = ACCOUNT, name: str = "acme/small"
) -> ConversationKey:
    found = build_conversation_key(request, account_id=account, model=name)
    assert found is not None
    return found


def saying(*pairs: tuple[str, Any]) -> ConversationKey:
    """The key of a conversation of these messages."""
    return key(chat(messages=[{"role": role, "content": content} for role, content in pairs]))


# --- Keys -----------------------------------------------------------------------------------------


def test_a_session_goes_before_a_cache_key_before_the_messages() -> None:
    plain, cached = key(chat()), key(chat(prompt_cache_key="k"))
    named = key(chat(session_id="s", prompt_cache_key="k"))
    others = [{"role": "user", "content": "x"}]
    assert named == key(chat("s")) == key(chat(session_id="s", messages=others))
    assert len({plain.digest, cached.digest, named.digest}) == 3
    assert [each.by_session for each in (plain, cached, named)] == [False, False, True]
    assert key(chat(session_id="k")) != cached


def test_account_and_model_are_part_of_it() -> None:
    request = chat(session_id="s")
    assert key(request) != key(request, account=OTHER_ACCOUNT)
    assert key(request) != key(request, name="acme/other")


def picture(url: str) -> list[Any]:
    return [{"type": "image_url", "image_url": {"url": url}}]


KIND, HELLO, LONG = ("system", "Be kind"), ("user", "Hello"), "x" * 500_000
SAME: list[Any] = [
    [(KIND, HELLO, ("assistant", "Hi"), ("user", "More")), (KIND, HELLO)],
    [(HELLO, KIND, ("user", "Later")), (KIND, HELLO)],
    [(KIND, HELLO, ("system", "A second one")), (KIND, HELLO)],
    [[("user", picture("http://a.test/1.png"))]] * 2,
]
OTHERS: list[list[Any]] = [
    [
        (KIND, HELLO),
        (("system", "Be brief"), HELLO),
        (KIND, ("user", "Goodbye")),
        (HELLO,),
        (("developer", "Be kind"), HELLO),
        (KIND, ("user", [{"type": "text", "text": "Hello"}])),
    ],
    # Long messages are told apart by their ends and length.
    [[("user", text)] for text in (LONG, LONG + "x", "y" + LONG[1:], LONG[:-1] + "y")],
    [[("user", picture(f"http://a.test/{n}.png"))] for n in (1, 2)],
]


def test_a_conversation_is_known_by_how_it_began_and_another_beginning_is_another() -> None:
    for one, other in SAME:
        assert saying(*one) == saying(*other)
    for beginnings in OTHERS:
        assert len({saying(*each).digest for each in beginnings}) == len(beginnings)


def test_there_is_no_key_where_nobody_can_have_kept_it() -> None:
    dear, cheap = model(endpoint(pricing=DEAR_CACHE)), model(endpoint(pricing=CHEAP_CACHE))

    def find_key(request: ChatRequest, *models: Any) -> ConversationKey | None:
        return build_conversation_key(
            request, account_id=ACCOUNT, model="acme/small", models=models
        )

    assert find_key(chat(), dear) is None
    assert find_key(chat(), model(endpoint())) is None
    assert find_key(chat(), dear, cheap) == key(chat())
    assert find_key(chat(session_id="s"), dear) == key(chat(session_id="s"))


# --- Draws ----------------------------------------------------------------------------------------


# --- Records --------------------------------------------------------------------------------------

SESSION = key(chat(session_id="s"))


class Process:
    """One process's records and way to the store; `use()` makes it this one's."""

    def __init__(self, patch: pytest.MonkeyPatch, url: str) -> None:
        self.hints = SharedCache(url, timeout_s=0.1)
        self.records = ConversationRecords()
        self._patch = patch

    def use(self) -> "Process":
        self._patch.setattr(stickiness, "shared_cache", lambda: self.hints)
        self._patch.setattr(stickiness, "_local_records", lambda: self.records)
        return self


@pytest.fixture
def two(valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Process]]:
    """The first is this one."""
    processes = [Process(monkeypatch, valkey.url) for _ in range(2)]
    processes[0].use()
    yield processes
    for process in processes:
        process.hints.close()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Process:
    return Process(monkeypatch, "").use()


def sticky_at(where: EndpointEntry) -> tuple[str, str]:
    return where.model_id, where.tag


def name_recalled(key: ConversationKey) -> tuple[str, str] | None:
    found = recall(key)
    return None if found is None else (found.model_id, found.tag)


def test_what_one_process_keeps_another_recalls(two) -> None:
    remember(SESSION, ALPHA, PLAIN)
    two[1].use()
    assert name_recalled(SESSION) == sticky_at(ALPHA)
    remember(SESSION, BETA, PLAIN)
    two[0].use()
    assert name_recalled(SESSION) == sticky_at(BETA)


def test_it_lasts_as_long_as_the_setting_says(two, client, settings) -> None:
    settings.ROUTER_STICKY_SECONDS = 123
    remember(SESSION, ALPHA, PLAIN)
    (name,) = client.keys("gateway:*:sticky:*")
    assert 120_000 < client.pttl(name) <= 123_000


LASTS: list[tuple[Usage, dict[str, Any], int, float]] = [
    # What was read and written is cached, in one that caches by itself all of the prompt.
    (Usage(10, 7, cached_tokens=5, cache_write_tokens=3), {}, 8, 600),
    (Usage(10, 7), {"supports_implicit_caching": True}, 10, 600),
    (WROTE, {"kind": "anthropic"}, 5, 300),
    (WROTE._replace(cache_write_1h_tokens=5), {"kind": "anthropic"}, 5, 3600),
    (WROTE, {"provider": provider(cache_lifetime_s=1200.0)}, 5, 1200),
]


@pytest.mark.parametrize(("usage", "facts", "tokens", "lifetime_s"), LASTS)
def test_it_says_what_is_cached_and_for_how_long(
    two, client, usage: Usage, facts: dict[str, Any], tokens: int, lifetime_s: float
) -> None:
    remember(SESSION, endpoint("alpha", **facts), usage)

    two[1].use()
    found = recall(SESSION)
    assert found is not None
    cache = found.warm_cache()
    assert (cache.tokens, cache.completion_tokens) == (tokens, usage.completion_tokens)
    assert (cache.lifetime_s, cache.age_s < 60) == (lifetime_s, True)
    (name,) = client.keys("gateway:*:sticky:*")
    lasts_s = max(600.0, lifetime_s)
    assert lasts_s - 60 < client.pttl(name) / 1000 <= lasts_s


def test_without_a_store_a_process_keeps_for_itself(alone) -> None:
    assert recall(SESSION) is None
    remember(SESSION, ALPHA, PLAIN)
    remember(None, BETA, CACHED)
    assert (name_recalled(SESSION), len(alone.records)) == (sticky_at(ALPHA), 1)


def test_a_store_that_forgot_or_froze_leaves_what_the_process_knows(two, valkey) -> None:
    remember(SESSION, ALPHA, PLAIN)
    valkey.flush()
    assert name_recalled(SESSION) == sticky_at(ALPHA)
    valkey.pause()
    try:
        assert name_recalled(SESSION) == sticky_at(ALPHA)
    finally:
        valkey.resume()


ODD = [b"", b"nonsense", b"5", b"[1]", b'[1,"a","b"]', b"[2,3,4,5,6,7,8]"]


@pytest.mark.parametrize("odd", ODD)
def test_what_cannot_be_read_is_as_good_as_nothing(two, client, odd: bytes) -> None:
    remember(SESSION, ALPHA, PLAIN)
    (name,) = client.keys("gateway:*:sticky:*")
    client.set(name, odd)
    two[1].use()
    assert recall(SESSION) is None


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
def test_when_a_record_is_set(alone, body, pricing, usage: Usage, is_kept: bool) -> None:
    found, where = key(chat(**body)), endpoint("alpha", pricing=pricing)
    remember(found, where, usage)
    assert name_recalled(found) == (sticky_at(where) if is_kept else None)


def test_the_endpoint_is_found_by_model_and_tag_or_not_at_all() -> None:
    first = model(endpoint("alpha"), endpoint("beta"), id="acme/first")
    second = model(endpoint("beta"), id="acme/second")
    assert StickyEndpoint("acme/second", "beta").endpoint_in([first, second]) is second.endpoints[0]
    assert StickyEndpoint("acme/first", "gone").endpoint_in([first, second]) is None
    assert StickyEndpoint("acme/gone", "beta").endpoint_in([first, second]) is None


def test_a_process_keeps_so_many_and_so_long() -> None:
    clock = Clock()
    records = ConversationRecords(records_max=3, clock=clock)
    for number in range(4):
        records.put(bytes([number]), StickyEndpoint("m", str(number)), lasts_s=10)
    assert (len(records), records.get(b"\x00")) == (3, None)

    clock.now += 9
    records.put(b"\x01", StickyEndpoint("m", "again"), lasts_s=10)
    clock.now += 2

    assert records.get(b"\x01") == StickyEndpoint("m", "again")
    assert records.get(b"\x02") is None
