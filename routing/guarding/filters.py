"""Content filters at work: a request is blocked, its texts are redacted, or it is only noted."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple
from uuid import UUID
from weakref import WeakValueDictionary

from gevent.lock import BoundedSemaphore
from gevent.threadpool import ThreadPool

from accounts.guard_rules import GuardrailFilter
from gateway.eventloop import run_in_thread
from gateway.http.body import pause_collector
from gateway.http.errors import PayloadTooLarge, PermissionDenied, Unavailable
from gateway.http.jsonio import JsonObject, Raw
from routing.formats.chat.request import ChatRequest
from routing.guarding.builtins import INJECTION
from routing.guarding.long_texts import append, decode, encode
from routing.guarding.rules import Rule, Rules, rules_of
from routing.guarding.scanning import Deadline, Span, TooSlow
from routing.guarding.texts import change_texts, plain_texts

log = logging.getLogger("routing.guarding")
# How many matches of a blocking filter a refusal names, and how much of each.
_SHOWN_MAX: Final = 10
_SHOWN_CHARS_MAX: Final = 100
# Matches that a flag counts in one text.
_COUNTED_MAX: Final = 1_000
# What is looked at without leaving the event loop: a few milliseconds at the worst.
_STEPS_AT_ONCE: Final = 1_000_000
_BYTES_AT_ONCE: Final = 65_536
_MESSAGES_AT_ONCE: Final = 100
_THREADS: Final = 4
_turns: "WeakValueDictionary[UUID, BoundedSemaphore]" = WeakValueDictionary()
_DONE: Final = {"block": "blocked", "redact": "redacted", "flag": "flagged"}


class Blocked(PermissionDenied):
    """A guardrail lets nobody say this; `found` are the matches, cut."""

    default_reason = "content_filter"

    def __init__(self, rule: Rule, found: list[str]) -> None:
        details: JsonObject = {"detected": [rule.name]}
        if rule.placed.filter.builtin == INJECTION:
            details["patterns"] = found
        super().__init__(rule.refusal, metadata=details)


class Filtered(NamedTuple):
    """The request as it goes on, what was done to it, and the making of why it does not go on."""

    chat: ChatRequest
    stages: list[JsonObject]
    refusal: Callable[[], Blocked] | None = None


class _BlockedMatch(Exception):
    """What a blocking filter found ends the work on a request."""

    def __init__(self, rule: Rule, found: list[str]) -> None:
        super().__init__()
        self.rule, self.found = rule, found


def apply_filters(
    chat: ChatRequest, filters: tuple[GuardrailFilter, ...], account_id: UUID
) -> Filtered:
    """The request after the content filters of its guardrails. Large ones of an account take turns.

    Raises `PayloadTooLarge` where they would take too long, and `Unavailable` where one fails.
    """
    rules = rules_of(filters)
    if not (rules.of_users or rules.of_others):
        return Filtered(chat, [])
    # Users' texts may have more filters, and none has more steps than these.
    is_quick = (
        not rules.detects
        and chat.text_bytes <= _BYTES_AT_ONCE
        and chat.message_count <= _MESSAGES_AT_ONCE
        and chat.media_parts == 0
        and chat.text_bytes * rules.weight <= _STEPS_AT_ONCE
    )
    if is_quick and rules.looks and _has_nothing(chat, rules):
        return Filtered(chat, [])
    work = _Work(chat, rules)
    try:
        if is_quick:
            return work.run()
        with _turns.setdefault(account_id, BoundedSemaphore(1)):
            return run_in_thread(work.run_in_turn, threads=_threads)
    except TooSlow:
        raise PayloadTooLarge(
            "Request payload too large: its content filters take too long"
        ) from None


def _has_nothing(chat: ChatRequest, rules: Rules) -> bool:
    """Whether it is an everyday request without anything that a filter looks for."""
    texts = plain_texts(chat)
    if texts is None:
        return False
    looks = rules.union if chat.text_bytes <= rules.union_bytes_max else rules.looks
    for text in texts:
        data = encode(text)
        for look in looks:
            if look.find(data, 0, len(data)) is not None:
                return False
    return True


@cache
def _threads() -> ThreadPool:
    """Of this process, made after it was forked."""
    return ThreadPool(_THREADS)


class _Work:
    """One request before its filters. Texts that stand in both of its bodies are looked at once."""

    def __init__(self, chat: ChatRequest, rules: Rules) -> None:
        self._chat = chat
        self._rules = rules
        self._deadline = Deadline()
        self._counts: dict[Rule, int] = {}

    def run_in_turn(self) -> Filtered:
        """`run`, once it is this request's turn. The many new objects of a large one would set off
        collections, which hold up every thread."""
        self._deadline = Deadline()
        with pause_collector():
            return self.run()

    def run(self) -> Filtered:
        chat = self._chat
        try:
            # Blocking comes first: nothing of a blocked request is worked on.
            if self._rules.blocks:
                _change_once(chat, self._block_text)
            if self._rules.works:
                chat = _change_once(chat, self._redact_text)
        except _BlockedMatch as end:
            rule, found = end.rule, end.found
            stage = _stage(rule, [rule.name], len(found))
            return Filtered(chat, [stage], partial(Blocked, rule, found))
        return Filtered(chat, list_stages(self._counts))

    def _block_text(self, text: str, by_user: bool) -> str:
        """The text where nothing blocks it. Raises `_BlockedMatch` with as many of the first
        matches as a refusal names."""
        rules = [rule for rule in self._rules.choose(by_user) if rule.action == "block"]
        data = encode(text) if rules else b""
        for rule in rules:
            found = []
            count = _SHOWN_MAX if rule.placed.filter.builtin == INJECTION else 1
            for start, end in islice(self._find(rule, data), count):
                match = data[start : min(end, start + 4 * _SHOWN_CHARS_MAX)]
                found.append(match.decode("utf-8", "ignore")[:_SHOWN_CHARS_MAX])
            if found:
                raise _BlockedMatch(rule, found)
        return text

    def _redact_text(self, text: str, by_user: bool) -> str:
        """The text with its redactions; flags are counted."""
        data = encode(text)
        rules = self._rules.choose(by_user)
        rules = tuple(rule for rule in rules if not rule.misses(data, self._deadline))
        if not rules:
            return text
        for rule in rules:
            if rule.action == "flag":
                flagged = sum(1 for _ in islice(self._find(rule, data), _COUNTED_MAX))
                self._count(rule, flagged)
        redacting = [rule for rule in rules if rule.action == "redact"]
        spans = [self._mark_spans(rule, data) for rule in redacting]
        marked = join_spans(merge(*spans, key=itemgetter(0)))
        redacted = redact_spans(data, marked, 0, len(data))
        return text if redacted is None else redacted

    def _mark_spans(self, rule: Rule, data: Raw) -> Iterator[tuple[Span, bytes]]:
        label = rule.redaction.encode()
        for span in self._find(rule, data):
            self._count(rule, 1)
            yield span, label

    def _count(self, rule: Rule, number: int) -> None:
        if number:
            self._counts[rule] = self._counts.get(rule, 0) + number

    def _find(self, rule: Rule, data: Raw) -> Iterator[Span]:
        try:
            yield from rule.find(data, self._deadline)
        except TooSlow:
            raise
        except Exception:
            # Somebody else's plug-in: what it was to keep back must not go on without it.
            log.exception("the detector of %s failed", rule.name)
            raise Unavailable("A content filter is not available") from None


class _Once:
    """A change, worked out once for each text: the two bodies of a request share theirs. They live
    as long as it does, and hashing a long one would hold up every thread."""

    def __init__(self, change: Callable[[str, bool], str]) -> None:
        self._change = change
        self._made: dict[tuple[int, bool], tuple[str, str]] = {}

    def __call__(self, text: str, by_user: bool) -> str:
        place = (id(text), by_user)
        if place not in self._made:
            self._made[place] = text, self._change(text, by_user)
        return self._made[place][1]

    def forget(self) -> None:
        """Texts by the million, let go one by one: all at once would hold up every thread too."""
        while self._made:
            self._made.popitem()


def _change_once(chat: ChatRequest, change: Callable[[str, bool], str]) -> ChatRequest:
    if chat.original is None:
        return change_texts(chat, change)
    once = _Once(change)
    try:
        return change_texts(chat, once)
    finally:
        once.forget()


# --- Redacting ------------------------------------------------------------------------------------


def join_spans(marked: Iterable[tuple[Span, bytes]]) -> Iterator[tuple[Span, bytes]]:
    """Spans in order as they come, those that overlap as one under the first one's label."""
    last: tuple[Span, bytes] | None = None
    for span, label in marked:
        if last is not None and span.start < last[0].end:
            last = Span(last[0].start, max(last[0].end, span.end)), last[1]
            continue
        if last is not None:
            yield last
        last = span, label
    if last is not None:
        yield last


def redact_spans(
    data: Raw, marked: Iterable[tuple[Span, bytes]], start: int, end: int
) -> str | None:
    """A part of the text with labels in place of the spans in it; None where there are none."""
    out, at = bytearray(), start
    for span, label in marked:
        append(out, data, at, span.start)
        out += label
        at = span.end
    if at == start:
        return None
    append(out, data, at, end)
    return decode(out)


# --- Only counting --------------------------------------------------------------------------------


def count_matches(texts: Sequence[str], rules: Sequence[Rule], account_id: UUID) -> dict[Rule, int]:
    """How often each rule matches in the texts, of an account whose large ones take turns. What
    takes too long or fails counts for nothing: it has changed nothing either."""

    def count() -> dict[Rule, int]:
        deadline, found = Deadline(), dict[Rule, int]()
        for text in texts:
            data = encode(text)
            for rule in rules:
                number = sum(1 for _ in islice(rule.find(data, deadline), _COUNTED_MAX))
                found[rule] = found.get(rule, 0) + number
        return found

    steps = sum(map(len, texts)) * sum(rule.weight for rule in rules)
    try:
        if steps <= _STEPS_AT_ONCE and not any(rule.detect is not None for rule in rules):
            return count()
        with _turns.setdefault(account_id, BoundedSemaphore(1)):
            return run_in_thread(count, threads=_threads)
    except Exception:  # Counting is no reason to lose an answer that is paid for.
        log.exception("an answer's filters could not count")
        return {}


# --- What callers see -----------------------------------------------------------------------------


def list_stages(counts: Mapping[Rule, int]) -> list[JsonObject]:
    """One stage for each guardrail and what its filters did, or would have done."""
    grouped: dict[tuple[Any, ...], list[Rule]] = {}
    for rule in counts:
        placed = rule.placed
        key = (placed.guardrail_id, placed.scope, rule.action, placed.filter.shadow)
        grouped.setdefault(key, []).append(rule)
    return [
        _stage(rules[0], [rule.name for rule in rules], sum(counts[rule] for rule in rules))
        for rules in grouped.values()
    ]


def _stage(rule: Rule, names: list[str], number: int) -> JsonObject:
    """A stage of `router_metadata.pipeline`."""
    detected, placed = list(dict.fromkeys(names)), rule.placed
    shadow = placed.filter.shadow
    done = f"would be {_DONE[shadow]}" if shadow else _DONE[rule.action]
    return {
        "type": "guardrail",
        "name": "content_filter",
        "guardrail_id": None if placed.guardrail_id is None else str(placed.guardrail_id),
        "guardrail_scope": placed.scope,
        "summary": f"{done}: {', '.join(detected)}",
        "data": {"action": done, "detected": detected, "matches": number},
    }
