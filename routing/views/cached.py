"""One request and the response cache: what is answered from it, and what is stored in it."""

import time
from collections.abc import Iterable, Iterator

from django.http import HttpResponseBase

from gateway.http.jsonio import JsonObject
from gateway.http.responses import EventStream, raw_json_response
from gateway.live_settings import settings
from routing.entities.ids import message_id
from routing.formats.responses.write import derive_stem, response_id
from routing.response_cache.cache_options import CacheOptions
from routing.response_cache.cache_store import find, put
from routing.response_cache.entry import (
    Entry,
    build_entry_name,
    is_small,
    pack_entry,
    repeat_answer,
    repeat_events,
    unpack_entry,
)
from routing.serving.attempts.attempts import Attempts
from routing.serving.request.context import RequestProgress
from routing.serving.request.outcome import cached_outcome
from routing.serving.settlement.booking import settle

_WRITE_BYTES = 65_536


class Caching:
    """A request for which the cache is on."""

    def __init__(self, progress: RequestProgress, wish: CacheOptions, body: JsonObject) -> None:
        self._progress = progress
        self._wish = wish
        self._pieces: list[bytes] = []
        self._bytes_left = int(settings.ROUTER_RESPONSE_CACHE_ENTRY_BYTES)
        chat = progress.context.chat
        self._name = build_entry_name(
            progress.context.caller.key_id,
            kind=progress.context.format.name,
            model=progress.context.requested_model,
            stream=chat.stream,
            # What was sent, and what a preset, guardrails and plugins made of it.
            bodies=(body, chat.body),
            beside=progress.context.betas + _name_output_filters(progress),
        )

    def find_answer(self) -> HttpResponseBase | None:
        """The answer that is there, charged nothing and recorded; None where there is none."""
        stored = None if self._wish.clears else find(self._name)
        entry = None if stored is None else unpack_entry(stored, self._name)
        return None if entry is None else _answer_from_cache(self._progress, entry)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of an answer that is not from the cache."""
        return {"X-Router-Cache-Status": "MISS", "X-Router-Cache-TTL": str(self._wish.ttl_s)}

    def record(self, piece: bytes) -> None:
        """Record a piece of an answer, which is stored once it has ended."""
        self._bytes_left -= len(piece)
        if self._bytes_left >= 0:
            self._pieces.append(piece)

    def record_pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.record(piece)
            yield piece

    def store(self) -> None:
        """Store what was recorded, where it is a full answer and not too large."""
        progress, attempt = self._progress, self._progress.last_attempt
        pieces, self._pieces = self._pieces, []
        if progress.good_end is None or attempt is None or self._bytes_left < 0:
            return
        if progress.loop is not None and progress.loop.cut_unpaid:
            # A caller who has paid since gets the full answer.
            return
        finish, native_finish = progress.good_end
        entry = Entry(
            generation_id=progress.context.generation_id,
            stored_at=time.time(),
            ttl_s=self._wish.ttl_s,
            model=attempt.endpoint.model_id,
            provider_name=attempt.endpoint.provider.name,
            endpoint_tag=attempt.endpoint.tag,
            finish_reason=finish,
            native_finish=native_finish,
            content=b"".join(pieces),
        )
        put(self._name, pack_entry(entry, self._name), ttl_s=self._wish.ttl_s)


def _name_output_filters(progress: RequestProgress) -> str:
    """Answers that other guardrails have looked at are other answers."""
    guard = progress.context.caller.guard
    return repr(guard.output_filters) if guard is not None and guard.output_filters else ""


def start_caching(
    progress: RequestProgress, wish: CacheOptions, body: JsonObject
) -> Caching | None:
    """None where nothing of the request may be kept, where it is large, and where the caller wants
    to see what is sent upstream."""
    if progress.context.choice.retains_nothing or progress.context.chat.echo_upstream_body:
        return None
    if not (is_small(body) and is_small(progress.context.chat.body)):
        return None
    return Caching(progress, wish, body)


def _answer_from_cache(progress: RequestProgress, entry: Entry) -> HttpResponseBase:
    # No model was asked, so there is no content to log beside the first one's.
    progress.content = None
    progress.cached = entry
    # No endpoint is tried, so another request may probe the one that this request was to probe.
    Attempts(progress).end_probe()
    settle(progress, cached_outcome(entry))
    headers = {
        "X-Generation-Id": progress.context.generation_id,
        "X-Router-Cache-Status": "HIT",
        "X-Router-Cache-Age": str(entry.age_s),
        "X-Router-Cache-TTL": str(entry.left_s),
        "X-Router-Cache-Source-Id": entry.generation_id,
    }
    stem = derive_stem(progress.context.generation_id)
    ids = {
        "chat": progress.context.generation_id,
        "message": message_id(),
        "response": response_id(stem),
    }
    # Items of a response are named after its generation.
    content = entry.content.replace(derive_stem(entry.generation_id).encode(), stem.encode())
    if not progress.context.chat.stream:
        return raw_json_response(
            repeat_answer(content, ids=ids, now=progress.context.created), headers=headers
        )
    events = repeat_events(content, ids=ids, now=progress.context.created)
    parts = (events[start : start + _WRITE_BYTES] for start in range(0, len(events), _WRITE_BYTES))
    return EventStream(parts, [], headers=headers)
