"""The output filters of one request: what they find in answers, and what becomes of it.

Money is charged as without them: what the model said was made, whether or not anybody reads it.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Final, Protocol, TypeVar
from uuid import UUID

from accounts.external_guards import Side
from accounts.guard_rules import GuardrailFilter
from gateway.eventloop import run_in_thread
from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject
from routing.entities.identity_cache import IdentityCache
from routing.formats.caller import ToolActivity
from routing.formats.chat.facts import utf8_bytes
from routing.formats.chat.request import ChatRequest
from routing.guarding.answer_texts import collect_texts, map_activity, map_message
from routing.guarding.filters import (
    apply_filters,
    count_matches,
    join_spans,
    list_stages,
    redact_spans,
)
from routing.guarding.long_texts import decode
from routing.guarding.lookahead import NOTHING_KNOWN, find_lookahead
from routing.guarding.rules import Rule, rules_of
from routing.guarding.scanning import Deadline, Span, find_within

log = logging.getLogger("routing.guarding")
T = TypeVar("T")

# Searches of more steps would hold up other requests.
_STEPS_AT_ONCE: Final = 1_000_000
# The finish reason of an answer that was kept back, in words of chat.
WITHHELD: Final = "content_filter"


class External(Protocol):
    """Guards outside of these filters; see `routing.planning.external_guards`."""

    acts: bool
    watches: bool

    def find_refusal(
        self, side: Side, texts: Sequence[str], *, acting: bool | None = None
    ) -> object: ...

    def take_stages(self) -> list[JsonObject]: ...


_list_acting: IdentityCache[tuple[GuardrailFilter, ...], tuple[GuardrailFilter, ...]] = (
    IdentityCache(lambda filters: tuple(each for each in filters if each.filter.action != "flag"))
)


class OutputGuard:
    """`acts` tells whether any filter changes answers or keeps them back, `watches` whether any
    only counts; `withheld` says that one has kept this answer back."""

    def __init__(
        self, filters: tuple[GuardrailFilter, ...], chat: ChatRequest, account_id: UUID
    ) -> None:
        rules = rules_of(filters)
        self._filters, self._chat, self._account_id = filters, chat, account_id
        self._acting = tuple(rule for rule in rules.of_others if rule.action != "flag")
        self._watching = tuple(rule for rule in rules.of_others if rule.action == "flag")
        self._counts: dict[Rule, int] = {}
        self._stages: list[JsonObject] = []
        self.acts = bool(self._acting)
        self.watches = bool(self._watching)
        self.withheld = False
        self.lookahead = find_lookahead(_list_acting(filters))
        self._steps_per_byte = max(1, rules.weight)
        self._external: External | None = None

    def add_external(self, guards: External) -> None:
        """Ask these too, of texts as the filters leave them. Where one may keep an answer back,
        a stream is held until it has said so."""
        self._external = guards
        self.acts |= guards.acts
        self.watches |= guards.watches
        if guards.acts:
            self.lookahead = NOTHING_KNOWN

    @property
    def asks_others(self) -> bool:
        """Whether a look may take as long as guards outside of the gateway need."""
        return self._external is not None

    def take_stages(self) -> list[JsonObject]:
        """The stages of `router_metadata.pipeline` and of the trace for what was found since last
        time.
        """
        stages = [*self._stages, *list_stages(self._counts)]
        self._stages, self._counts = [], {}
        filtered = [{**stage, "name": "output_filter"} for stage in stages]
        return filtered + (self._external.take_stages() if self._external is not None else [])

    def ask_external(self, texts: Sequence[str], *, acting: bool | None = None) -> bool:
        """Whether external guards let these texts go on; `withheld` is set where one does not. With
        `acting` only those are asked that may keep something back, or only the others."""
        if self._external is not None and not self.withheld:
            self.withheld = bool(self._external.find_refusal("output", texts, acting=acting))
        return not self.withheld

    def ask_external_of(self, messages: Sequence[JsonObject]) -> bool:
        """The same of all texts of a whole answer."""
        if self._external is None:
            return True
        return self.ask_external(
            [text for each in messages for text in collect_texts(partial(map_message, each))]
        )

    def guard_message(self, message: JsonObject) -> JsonObject:
        """The message of a whole answer as its caller may read it; where it is kept back, one that
        says nothing, and `withheld` is set."""
        texts = collect_texts(partial(map_message, message))
        if not texts:
            return message
        found = self.guard_texts(texts)
        if found is None:
            return {"role": "assistant", "content": ""}
        left = iter(found)
        return map_message(message, lambda text: next(left))

    def guard_activity(self, activity: ToolActivity, fields: Sequence[str]) -> None:
        """Change what the caller may read of a server tool's call; `withheld` may be set."""
        texts = collect_texts(partial(map_activity, activity, fields))
        found = self.guard_texts(texts) if texts else None
        if found is not None:
            left = iter(found)
            map_activity(activity, fields, lambda text: next(left))

    def guard_stream_texts(self, texts: Sequence[str]) -> list[str] | None:
        """The same for texts of a stream, whose flags are counted at its end. External guards have
        looked at them, too."""
        found = self._filter_texts(texts, _list_acting(self._filters))
        return found if found is not None and self.ask_external(found, acting=True) else None

    def guard_texts(self, texts: Sequence[str]) -> list[str] | None:
        """The texts as they may be read; None where one of them keeps the answer back. What cannot
        be looked at is kept back too."""
        return self._filter_texts(texts, self._filters)

    def _filter_texts(
        self, texts: Sequence[str], filters: tuple[GuardrailFilter, ...]
    ) -> list[str] | None:
        messages = [{"role": "tool", "tool_call_id": "", "content": text} for text in texts]
        chat = replace(
            self._chat,
            body={"messages": messages},
            original=None,
            text_bytes=sum(map(utf8_bytes, texts)),
            message_count=len(messages),
            media_parts=0,
        )
        try:
            result = apply_filters(chat, filters, self._account_id)
        except GatewayError as error:
            log.warning("An answer is kept back, because its filters failed: %s", error.text)
            self.withheld = True
            return None
        self._stages += result.stages
        if result.refusal is not None:
            self.withheld = True
            return None
        return [each["content"] for each in result.chat.body["messages"]]

    def watch_texts(self, texts: Sequence[str]) -> None:
        """Count what filters that change nothing find in texts that have left, and have external
        guards look at them."""
        self.ask_external(texts, acting=False)
        for rule, number in count_matches(texts, self._watching, self._account_id).items():
            self._count(rule, number)

    def release(self, data: bytes, start: int, end: int) -> tuple[str, int]:
        """Of a text that is still coming: what may be read of `data[start:end]`, and how far that
        goes. It ends earlier where a match, or what looks like one, reaches over the end. The next
        is searched behind it, as in a whole text. What stands before is its context. Where a match
        keeps the answer back, `withheld` is set and nothing may be read."""
        spans = self._search(data, partial(self._find_spans, data, start))
        moved = True
        while moved:
            moved = False
            for span, _ in spans:
                if span.start < end < span.end:
                    end, moved = span.start, True
        leaving = [
            (span, rule)
            for span, rule in spans
            if span.end <= end and (rule.check is None or rule.check(data, *span))
        ]
        for _, rule in leaving:
            self._count(rule, 1)
            if rule.action == "block":
                self.withheld = True
                return "", end
        marked = [(Span(*span), rule.redaction.encode()) for span, rule in leaving]
        redacted = redact_spans(data, join_spans(marked), start, end)
        return decode(data[start:end]) if redacted is None else redacted, end

    def find_cut(self, data: bytes, start: int) -> int:
        """Up to which byte `data[start:]`, of a text that is still coming, may be released."""
        return self._search(data, partial(self.lookahead.find_cut, data, start))

    def _search(self, data: bytes, search: Callable[[], T]) -> T:
        if len(data) * self._steps_per_byte > _STEPS_AT_ONCE:
            return run_in_thread(search)
        return search()

    def _find_spans(self, data: bytes, start: int) -> list[tuple[Span, Rule]]:
        deadline = Deadline()
        found = [
            (span, rule)
            for rule in self._acting
            for each in rule.patterns
            for span in find_within(each, data, start, len(data), deadline)
        ]
        return sorted(found, key=itemgetter(0))

    def _count(self, rule: Rule, number: int) -> None:
        if number:
            self._counts[rule] = self._counts.get(rule, 0) + number
