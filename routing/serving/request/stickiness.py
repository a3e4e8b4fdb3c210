"""Keeping a conversation on the endpoint that served it last.

The record is a hint. It lives in the shared cache for all processes, and also in this one, for when
there is no store. It names the endpoint by model and tag, and says what that may have cached of the
conversation. Its time is the wall clock's: processes may differ by a second or two.
"""

import hashlib
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, NamedTuple

import orjson
from django.conf import settings

from gateway.http.jsonio import JsonObject
from gateway.shared_cache import Patience, shared_cache
from gateway.shared_cache import cache_key as hints_key
from routing.entities.entries import EndpointEntry, ModelEntry
from routing.formats.chat.request import ChatRequest
from routing.metering.usage import Usage
from routing.selection.types import WarmCache
from routing.serving.request import process
from routing.upstreams.wires import get_wire

VERSION: Final = 2
# What a prompt that asked for it is cached for.
_LONG_CACHE_S: Final = 3600.0
RECORDS_MAX: Final = 10_000
# Conversations that agree in this much of a message, and in its length, are as good as one.
_TEXT_CHARS: Final = 65_536
_PARTS_MAX: Final = 100
_SYSTEM_ROLES: Final = frozenset({"system", "developer"})
_UNIT: Final = 2.0**-53


@dataclass(frozen=True, slots=True)
class ConversationKey:
    """Account, model and conversation as one digest; `by_session` where the caller named it.
    `patience` is what its request has left for the shared cache; without one each call has its own.
    """

    digest: bytes
    by_session: bool
    patience: Patience | None = field(default=None, compare=False)


class StickyEndpoint(NamedTuple):
    """The endpoint that served a conversation last, when (Unix seconds), and what it may have
    cached of it: the fields of `WarmCache`."""

    model_id: str
    tag: str
    at: float = 0.0
    tokens: int = 0
    completion_tokens: int = 0
    lifetime_s: float = 0.0

    def endpoint_in(self, models: Iterable[ModelEntry]) -> EndpointEntry | None:
        """The endpoint among these models', if it is still one of theirs."""
        for model in models:
            if model.id == self.model_id:
                return next((each for each in model.endpoints if each.tag == self.tag), None)
        return None

    def warm_cache(self) -> WarmCache:
        """What is left of its cache at this moment."""
        age_s = max(0.0, time.time() - self.at)
        return WarmCache(self.tokens, self.completion_tokens, round(age_s, 1), self.lifetime_s)


def build_conversation_key(
    chat: ChatRequest,
    *,
    account_id: uuid.UUID,
    model: str,
    models: Iterable[ModelEntry] | None = None,
) -> ConversationKey | None:
    """The key of a request's conversation, or None where nobody can have kept it. Decisions
    and embeddings are no conversation.

    `model` is the reference that was asked for, so that a virtual router's choice is kept under the
    router's name. Without a session only endpoints whose cached input is cheaper are kept: `models`
    are those to look among, None where they are not known yet.
    """
    if not chat.is_conversation:
        return None
    if chat.session_id is None and models is not None:
        endpoints = (each for model in models for each in model.endpoints)
        if not any(map(caches_cheaper, endpoints)):
            return None
    digest = hashlib.sha256(account_id.bytes)
    _feed_value(digest, model)
    if chat.session_id is not None:
        digest.update(b"session")
        _feed_value(digest, chat.session_id)
    elif (cache_key := chat.body.get("prompt_cache_key")) and isinstance(cache_key, str):
        digest.update(b"cache")
        _feed_value(digest, cache_key)
    else:
        digest.update(b"messages")
        _feed_value(digest, list(_opening_messages(chat.body["messages"])))
    return ConversationKey(digest.digest(), chat.session_id is not None)


def seeded_random(key: bytes) -> Callable[[], float]:
    """Draws from 0 up to 1 that are the same wherever the same key is asked: processes that know of
    no record still choose alike."""
    state = key

    def draw() -> float:
        nonlocal state
        state = hashlib.blake2b(state, digest_size=32).digest()
        return (int.from_bytes(state[:8]) >> 11) * _UNIT

    return draw


def caches_cheaper(endpoint: EndpointEntry) -> bool:
    """Whether cached input costs less there than fresh input."""
    return endpoint.prices is not None and endpoint.prices.caches_cheaper


def recall(key: ConversationKey) -> StickyEndpoint | None:
    """The endpoint that served this conversation last, if known. Asks the shared cache once."""
    name = _name(key)
    stored = shared_cache().run(lambda store: store.get(name), None, patience=key.patience)
    if isinstance(stored, bytes):
        try:
            version, model_id, tag, *numbers = orjson.loads(stored)
            at, tokens, completion_tokens, lifetime_s = map(float, numbers)
        except (ValueError, TypeError):
            version = model_id = tag = None
        if version == VERSION and isinstance(model_id, str) and isinstance(tag, str):
            counts = int(tokens), int(completion_tokens)
            return StickyEndpoint(model_id, tag, at, *counts, lifetime_s)
    # A store that says nothing may have been emptied: what this process knows is as good.
    return _local_records().get(key.digest)


def remember(key: ConversationKey | None, endpoint: EndpointEntry, usage: Usage) -> None:
    """After an answer, before its last byte: keep the conversation where it is. It stays for
    ROUTER_STICKY_SECONDS from now, or as long as the provider's cache lasts. `usage` is that of the
    last call of the endpoint.

    Without a session that is worth it only where the provider's cache was used and is cheaper.
    """
    if key is None:
        return
    used_cache = usage.cached_tokens > 0 or usage.cache_write_tokens > 0
    if not (key.by_session or (used_cache and caches_cheaper(endpoint))):
        return
    # A provider that caches by itself has the whole prompt, however little of it was read.
    is_implicit = endpoint.supports_implicit_caching
    tokens = usage.cached_tokens + usage.cache_write_tokens
    sticky = StickyEndpoint(
        endpoint.model_id,
        endpoint.tag,
        round(time.time(), 1),
        usage.prompt_tokens if is_implicit else min(tokens, usage.prompt_tokens),
        usage.completion_tokens,
        find_lifetime_s(endpoint, usage),
    )
    lasts_s = max(settings.ROUTER_STICKY_SECONDS, sticky.lifetime_s if sticky.tokens else 0)
    _local_records().put(key.digest, sticky, lasts_s=lasts_s)
    name, lasts_ms = _name(key), max(1, int(lasts_s * 1000))
    record = orjson.dumps([VERSION, *sticky])
    shared_cache().run(
        lambda store: bool(store.set(name, record, px=lasts_ms)), False, patience=key.patience
    )


def find_lifetime_s(endpoint: EndpointEntry, usage: Usage) -> float:
    """How long the provider keeps what this call has cached. That is an hour where the call asked
    for it, else as the catalogue or the wire kind says, else ROUTER_STICKY_SECONDS."""
    if usage.cache_write_1h_tokens:
        return _LONG_CACHE_S
    provider = endpoint.provider
    usual_s = provider.cache_lifetime_s or get_wire(provider.kind).cache_lifetime_s
    return usual_s or float(settings.ROUTER_STICKY_SECONDS)


class Conversation:
    """The conversation that a request belongs to. Its last endpoint is looked up once, if at all.

    `model` is the reference that was asked for.
    """

    def __init__(self, chat: ChatRequest, *, account_id: uuid.UUID, model: str) -> None:
        self._chat = chat
        self._account_id = account_id
        self._model = model
        self._key: ConversationKey | None = None
        self._kept: StickyEndpoint | None = None
        self._has_key = self._has_asked = False
        self._patience: Patience | None = None

    @property
    def patience(self) -> Patience:
        """What is left of the time that the request may wait for the shared cache."""
        if self._patience is None:
            self._patience = Patience(settings.REDIS_TIMEOUT)
        return self._patience

    def key(self, models: Sequence[ModelEntry] | None = None) -> ConversationKey | None:
        """What it is kept under; None where it cannot be kept. `models` are the candidates, None
        while they are not known."""
        if not self._has_key:
            self._has_key = True
            key = build_conversation_key(
                self._chat, account_id=self._account_id, model=self._model, models=models
            )
            self._key = None if key is None else replace(key, patience=self.patience)
        return self._key

    def model_id(self) -> str | None:
        """The model that answered last: what a virtual router keeps to."""
        sticky = self.recall(None)
        return sticky.model_id if sticky is not None else None

    def random(self, purpose: bytes = b"") -> Callable[[], float]:
        """The source of its draws: for a session the same in every process, so that those that know
        of no record choose alike. Each purpose has another one: equal draws would tie a model to
        one of its endpoints."""
        if self._key is not None and self._key.by_session:
            return seeded_random(self._key.digest + purpose)
        return process.chance

    def recall(self, models: Sequence[ModelEntry] | None) -> StickyEndpoint | None:
        """The endpoint that answered last, whether or not it is one of these models'."""
        key = self.key(models)
        if key is not None and not self._has_asked:
            self._has_asked = True
            self._kept = recall(key)
        return self._kept


class ConversationRecords:
    """The latest `records_max` conversations of this process. `clock` is monotonic seconds."""

    def __init__(
        self,
        *,
        records_max: int = RECORDS_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records_max = records_max
        self._clock = clock
        self._kept: OrderedDict[bytes, tuple[float, StickyEndpoint]] = OrderedDict()

    def get(self, digest: bytes) -> StickyEndpoint | None:
        record = self._kept.get(digest)
        return record[1] if record is not None and self._clock() < record[0] else None

    def put(self, digest: bytes, endpoint: StickyEndpoint, *, lasts_s: float) -> None:
        self._kept[digest] = (self._clock() + lasts_s, endpoint)
        self._kept.move_to_end(digest)
        if len(self._kept) > self._records_max:
            self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)


@cache
def _local_records() -> ConversationRecords:
    return ConversationRecords()


def _opening_messages(messages: list[JsonObject]) -> Iterable[Any]:
    """The first system or developer message, and the first other one."""
    for is_system in (True, False):
        for message in messages:
            if (message["role"] in _SYSTEM_ROLES) is is_system:
                yield message["role"]
                yield message.get("content")
                break


def _feed_value(digest: Any, value: Any) -> None:
    """Any JSON into a digest, without a copy of it all: of long texts both ends and the length."""
    if isinstance(value, str):
        text = (
            value if len(value) <= 2 * _TEXT_CHARS else value[:_TEXT_CHARS] + value[-_TEXT_CHARS:]
        )
        digest.update(b"s%d:" % len(value))
        digest.update(text.encode("utf-8", "surrogatepass"))
    elif isinstance(value, list):
        digest.update(b"l%d:" % len(value))
        for item in value[:_PARTS_MAX]:
            _feed_value(digest, item)
    elif isinstance(value, dict):
        digest.update(b"d%d:" % len(value))
        for name in sorted(value)[:_PARTS_MAX]:
            _feed_value(digest, name)
            _feed_value(digest, value[name])
    else:
        digest.update(repr(value).encode())


def _name(key: ConversationKey) -> str:
    return f"{hints_key('sticky')}:{key.digest.hex()}"
