"""One request and the answers of others: what comes from the response cache or from the same
request under way, and what is stored for the next ones."""

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
from routing.response_cache.flights import Flight, flights
from routing.serving.attempts.attempts import Attempts
from routing.serving.request.context import RequestProgress
from routing.serving.request.outcome import cached_outcome
from routing.serving.settlement.booking import settle

_WRITE_BYTES = 65_536


class AnswerReuse:
    """A request whose answer may come from the cache or from the same request under way, and go to
    the next ones."""

    def __init__(
        self, progress: RequestProgress, wish: CacheOptions | None, body: JsonObject
    ) -> None:
        self._progress = progress
        self._wish = wish
        self._flight: Flight | None = None
        self._pieces: list[bytes] = []
        self._bytes_left = int(settings.ROUTER_RESPONSE_CACHE_ENTRY_BYTES)
        # What was sent, and what a preset, guardrails and plugins made of it.
        self._bodies = (body, progress.context.chat.body)
        self._name = "" if wish is None else self._build_name()

    def _build_name(self) -> str:
        context = self._progress.context
        return build_entry_name(
            context.caller.key_id,
            kind=context.format.name,
            model=context.requested_model,
            stream=context.chat.stream,
            bodies=self._bodies,
            beside=context.betas + _name_output_filters(self._progress),
        )

    def find_answer(self) -> HttpResponseBase | None:
        """The answer that is there or on its way, charged nothing and recorded; None where this
        request has to make it, which it then does for others too."""
        if self._wish is not None and not self._wish.clears:
            stored = find(self._name)
            entry = None if stored is None else unpack_entry(stored, self._name)
            if entry is not None:
                return _answer_from_cache(self._progress, entry)
        if not self._progress.context.shares_answer or self._progress.loop is not None:
            return None
        entry = self._await_flight()
        return None if entry is None else _answer_from_cache(self._progress, entry, is_shared=True)

    def _await_flight(self) -> Entry | None:
        """The answer of the same request under way. Where there is none, or it came to nothing,
        this request is the next that others wait for."""
        context = self._progress.context
        index = (
            *(context.caller.key_id, context.format.name, context.requested_model),
            *(context.chat.stream, context.region, len(context.chat.body["messages"])),
            context.betas + _name_output_filters(self._progress),
        )
        while time.monotonic() < context.deadline:
            flight, is_own = flights.join(index, self._bodies)
            if is_own:
                self._flight = flight
                return None
            flight.has_landed.wait(context.deadline - time.monotonic())
            if flight.entry is not None:
                return flight.entry
        return None

    @property
    def headers(self) -> dict[str, str]:
        """Headers of an answer that this request made."""
        if self._wish is None:
            return {}
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
        """Store what was recorded for those who come and those who wait, where it is a full answer
        and not too large."""
        entry = self._build_entry()
        if entry is not None and self._wish is not None:
            put(self._name, pack_entry(entry, self._name), ttl_s=self._wish.ttl_s)
        if self._flight is not None:
            self._flight.entry = entry
        self.end()

    def end(self) -> None:
        """Let nobody wait for this request any longer."""
        if self._flight is not None:
            flights.land(self._flight)

    def _build_entry(self) -> Entry | None:
        progress, attempt = self._progress, self._progress.last_attempt
        pieces, self._pieces = self._pieces, []
        if progress.good_end is None or attempt is None or self._bytes_left < 0:
            return None
        if progress.loop is not None and progress.loop.cut_unpaid:
            # A caller who has paid since gets the full answer.
            return None
        finish, native_finish = progress.good_end
        return Entry(
            generation_id=progress.context.generation_id,
            stored_at=time.time(),
            ttl_s=0 if self._wish is None else self._wish.ttl_s,
            model=attempt.endpoint.model_id,
            provider_name=attempt.endpoint.provider.name,
            endpoint_tag=attempt.endpoint.tag,
            finish_reason=finish,
            native_finish=native_finish,
            content=b"".join(pieces),
        )


def _name_output_filters(progress: RequestProgress) -> str:
    """Answers that other guardrails have looked at are other answers."""
    guard = progress.context.caller.guard
    return repr(guard.output_filters) if guard is not None and guard.output_filters else ""


def start_reuse(
    progress: RequestProgress, wish: CacheOptions | None, body: JsonObject
) -> AnswerReuse | None:
    """None where nothing of the request may be kept, where it is large, and where the caller wants
    to see what is sent upstream."""
    if progress.context.choice.retains_nothing or progress.context.chat.echo_upstream_body:
        return None
    if not (is_small(body) and is_small(progress.context.chat.body)):
        return None
    return AnswerReuse(progress, wish, body)


def _answer_from_cache(
    progress: RequestProgress, entry: Entry, *, is_shared: bool = False
) -> HttpResponseBase:
    # No model was asked, so there is no content to log beside the first one's.
    progress.content = None
    progress.cached = entry
    # No endpoint is tried, so another request may probe the one that this request was to probe.
    Attempts(progress).end_probe()
    settle(progress, cached_outcome(entry))
    headers = {
        "X-Generation-Id": progress.context.generation_id,
        "X-Router-Cache-Status": "SHARED" if is_shared else "HIT",
        "X-Router-Cache-Source-Id": entry.generation_id,
    }
    if not is_shared:
        headers["X-Router-Cache-Age"] = str(entry.age_s)
        headers["X-Router-Cache-TTL"] = str(entry.left_s)
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
