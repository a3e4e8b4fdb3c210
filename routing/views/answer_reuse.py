"""One request and the answers of others. It handles what comes from the response cache or from the
same request under way, and what is stored for the next ones."""

import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from django.http import HttpResponseBase

from accounts.caller import Caller
from gateway.http.jsonio import JsonObject
from gateway.http.responses import EventStream, raw_json_response
from gateway.live_settings import settings
from routing.entities.ids import message_id
from routing.formats.responses.write import derive_stem, response_id
from routing.plugins.interface import AnswerSearch, Embed
from routing.response_cache.cache_options import CacheOptions
from routing.response_cache.cached_answers import (
    BODY_CHARS_MAX,
    Entry,
    Flight,
    build_entry_name,
    find,
    flights,
    is_small,
    pack_entry,
    put,
    repeat_answer,
    repeat_events,
    unpack_entry,
)
from routing.serving.attempts.attempts import Attempts
from routing.serving.request.context import RequestProgress
from routing.serving.request.outcome import cached_outcome
from routing.serving.settlement.booking import settle
from routing.serving.settlement.router_metadata import build_wanted_metadata

_WRITE_BYTES: Final = 65_536
# Proxies and clients give up a connection on which nothing comes for a minute.
_WAIT_S_MAX: Final = 30.0
_FLIGHTS_MAX: Final = 2
_SHARED_CHARS_MAX: Final = 131_072


class AnswerReuse:
    """A request whose answer may come from the cache or from the same request under way, and go to
    the next ones."""

    def __init__(
        self,
        progress: RequestProgress,
        wish: CacheOptions | None,
        body: JsonObject,
        embed: Embed | None = None,
    ) -> None:
        self._progress = progress
        self._wish = wish
        self._flight: Flight | None = None
        self._pieces: list[bytes] = []
        self._bytes_left = int(settings.ROUTER_RESPONSE_CACHE_ENTRY_BYTES)
        context, guard = progress.context, progress.context.caller.guard
        # Other guardrails on the output make another answer.
        rules = guard and (guard.output_filters, guard.external_guards, guard.enforces_schema)
        filters = repr(rules) if rules and any(rules) else ""
        # Whose content is to be logged gets only what was logged when it was made.
        is_logged = progress.content is not None and progress.content.is_logged
        # Without a cache, a workspace that wants it gets nothing by that.
        is_shared = context.caller.shares_cache and bool(settings.ROUTER_RESPONSE_CACHE_ENABLED)
        self._build_name = partial(
            build_entry_name,
            _name_owner(context.caller) if is_shared else context.caller.key_id,
            is_sorted=is_shared,
            kind=context.format.name,
            model=context.requested_model,
            stream=context.chat.stream,
            beside=repr((context.betas, context.region, filters, is_logged)),
        )
        # What was sent, and what a preset, guardrails and plugins made of it.
        self._name = self._build_name(bodies=(body, context.chat.body))
        self._body = body
        self._embed = embed
        self._plugins = [each for each in context.plugins if each.may_answer]

    def find_answer(self, headers: dict[str, str]) -> HttpResponseBase | None:
        """The answer that is there or on its way, charged nothing and recorded; None where this
        request has to make it, perhaps for others too. `headers` are those of any answer."""
        clears = self._wish is not None and self._wish.clears
        if self._wish is not None and not clears:
            entry = self.find_stored()
            if entry is not None:
                status = {
                    "X-Router-Cache-Status": "HIT",
                    "X-Router-Cache-Age": str(entry.age_s),
                    "X-Router-Cache-TTL": str(entry.left_s),
                }
                return _answer_from_cache(self._progress, entry, headers | status)
        if self._progress.loop is not None:
            return None
        if (answer := self._ask_plugins(headers)) is not None:
            return answer
        if clears or not self._progress.context.shares_answer:
            return None
        entry = self._await_flights()
        if entry is None:
            return None
        if self._wish is not None:
            self._put(entry._replace(ttl_s=self._wish.ttl_s))
        status = {"X-Router-Cache-Status": "SHARED"}
        return _answer_from_cache(self._progress, entry, headers | status)

    def _ask_plugins(self, headers: dict[str, str]) -> HttpResponseBase | None:
        """An answer that a plugin finds in an upstream's place."""
        progress = self._progress
        if self._embed is None:
            return None
        is_anew = self._wish is not None and self._wish.clears
        search = AnswerSearch(self._body, self._name_bodies, self._embed, is_anew)
        for plugin in self._plugins:
            before = len(plugin.stages)
            entry = plugin.find_answer(progress.context.chat, search)
            progress.stages += plugin.stages[before:]
            if entry is not None:
                status = {"X-Router-Cache-Age": str(entry.age_s), **plugin.answer_headers()}
                metadata = build_wanted_metadata(progress, selected=None)
                return _answer_from_cache(progress, entry, headers | status, metadata)
        return None

    def _name_bodies(self, *bodies: JsonObject) -> str:
        # What other filters would make of a text that these bodies lack is not known from them.
        guard = self._progress.context.caller.guard
        filters = repr(guard.filters) if guard is not None and guard.filters else ""
        return self._build_name(bodies=(*bodies, {"filters": filters}))

    def find_stored(self) -> Entry | None:
        """The answer in the cache."""
        stored = find(self._name)
        return None if stored is None else unpack_entry(stored, self._name)

    def _await_flights(self) -> Entry | None:
        """The answer of the same request under way. Where there is none, others wait for this
        request; where two have come to nothing or it takes long, it goes on by itself."""
        attempts = Attempts(self._progress)
        until = min(time.monotonic() + _WAIT_S_MAX, self._progress.context.deadline)
        for _ in range(_FLIGHTS_MAX):
            flight, is_own = flights.join(self._name)
            if is_own:
                self._flight = flight
                return None
            # While it waits, another request may probe the endpoint that it was to probe.
            attempts.end_probe()
            context = self._progress.context
            self._progress.context = context._replace(plan=context.plan._replace(probe=None))
            try:
                flight.has_landed.wait(max(0.0, until - time.monotonic()))
            except BaseException:
                attempts.release()
                raise
            if flight.entry is not None or flight.is_private:
                return flight.entry
        return None

    @property
    def headers(self) -> dict[str, str]:
        """Headers of an answer that this request made."""
        headers: dict[str, str] = {}
        for plugin in self._plugins:
            headers |= plugin.answer_headers()
        if self._wish is None:
            return headers
        return headers | {
            "X-Router-Cache-Status": "MISS",
            "X-Router-Cache-TTL": str(self._wish.ttl_s),
        }

    def record(self, piece: bytes) -> None:
        """Record a piece of an answer, which is stored once it has ended."""
        self._bytes_left -= len(piece)
        if self._bytes_left >= 0:
            self._pieces.append(piece)
        elif self._pieces:
            self._pieces = []
            self.end(is_private=True)

    def record_pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.record(piece)
            yield piece

    def store(self) -> None:
        """Store what was recorded for those who come and those who wait, where it is a full answer
        and not too large."""
        try:
            entry = self._build_entry()
            if entry is not None and self._wish is not None:
                self._put(entry)
            if entry is not None:
                for plugin in self._plugins:
                    plugin.keep_answer(entry)
            if self._flight is not None:
                self._flight.entry = entry
        finally:
            self.end(is_private=self._progress.good_end is not None)

    def end(self, *, is_private: bool = False) -> None:
        """Let no request wait for this one any longer. With `is_private` the answer is for its
        caller alone, and making it again would give another such answer."""
        if self._flight is not None:
            self._flight.is_private |= is_private
            flights.land(self._flight)

    def _put(self, entry: Entry) -> None:
        put(self._name, pack_entry(entry, self._name), ttl_s=entry.ttl_s)

    def _build_entry(self) -> Entry | None:
        progress, attempt = self._progress, self._progress.last_attempt
        pieces, self._pieces = self._pieces, []
        if progress.good_end is None or attempt is None or self._bytes_left < 0:
            return None
        if any("failure" in check for check in progress.guard_checks):
            # A guard that answers again may think otherwise of it.
            return None
        if progress.loop is not None and progress.loop.cut_unpaid:
            # A caller who has paid since gets the full answer.
            return None
        if progress.rescue is not None and progress.rescue.legs:
            # A caller who shares the answer may not want one of several parts.
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


def _name_owner(caller: Caller) -> object:
    """Whose answers they are where the workspace's keys share them. Keys that other guardrails
    govern might not have had the same answer."""
    governing = [(each.id, sorted(each.allowed_models or ())) for each in caller.guardrails]
    return caller.workspace_id, governing


def start_reuse(
    progress: RequestProgress,
    wish: CacheOptions | None,
    body: JsonObject,
    embed: Embed | None = None,
) -> AnswerReuse | None:
    """None where nothing of the request may be kept, where it is large, and where the caller wants
    to see what is sent upstream."""
    chat = progress.context.chat
    if progress.context.choice.retains_nothing or chat.echo_upstream_body:
        return None
    # A caller who did not ask for it does not pay for long bodies.
    chars_max = _SHARED_CHARS_MAX if wish is None else BODY_CHARS_MAX
    bodies = [body] if chat.body is body else [body, chat.body]
    if not all(is_small(each, chars_max) for each in bodies):
        return None
    return AnswerReuse(progress, wish, body, embed)


def has_stored_answer(progress: RequestProgress, body: JsonObject) -> bool:
    """Whether the response cache answers a request, which is only planned and does not go on."""
    wish = progress.context.cache_options
    if wish is None or wish.clears or progress.context.refusal is not None:
        return False
    reuse = start_reuse(progress, wish, body)
    return reuse is not None and reuse.find_stored() is not None


def _answer_from_cache(
    progress: RequestProgress,
    entry: Entry,
    headers: dict[str, str],
    metadata: JsonObject | None = None,
) -> HttpResponseBase:
    # No model was asked, and the content of the first one is logged where this one's were to be.
    progress.content = None
    progress.cached = entry
    # No endpoint is tried, so another request may probe the one that this request was to probe.
    Attempts(progress).end_probe()
    settle(progress, cached_outcome(entry))
    headers["X-Router-Cache-Source-Id"] = entry.generation_id
    stem = derive_stem(progress.context.generation_id)
    ids = {
        "chat": progress.context.generation_id,
        "message": message_id(),
        "response": response_id(stem),
    }
    # Items of a response are named after its generation.
    content = entry.content.replace(derive_stem(entry.generation_id).encode(), stem.encode())
    if not progress.context.chat.stream:
        repeated = repeat_answer(
            content, ids=ids, now=progress.context.created_s, router_metadata=metadata
        )
        return raw_json_response(repeated, headers=headers)
    events = repeat_events(
        content, ids=ids, now=progress.context.created_s, router_metadata=metadata
    )
    parts = (events[start : start + _WRITE_BYTES] for start in range(0, len(events), _WRITE_BYTES))
    return EventStream(parts, [], headers=headers)
