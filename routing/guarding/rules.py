"""The content filters of a request: which hold for a text, and what happens on a match."""

from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.utils.module_loading import import_string

from accounts.guard_rules import Action, FilterEntry, GuardrailFilter
from accounts.patterns import CompiledPattern, InvalidPattern, is_quick_to_compile, join_patterns
from gateway.eventloop import run_in_thread
from gateway.http.jsonio import Raw
from routing.entities.identity_cache import IdentityCache
from routing.guarding.builtins import (
    BUILTINS,
    INJECTION,
    Builtin,
    Check,
    compile_as_one,
    compile_builtin,
)
from routing.guarding.long_texts import decode
from routing.guarding.scanning import Deadline, Span, matches, patterns

_STRENGTH: Final[dict[Action, int]] = {"flag": 0, "redact": 1, "block": 2}
_LOOKED_AT_ONCE: Final = 65_536
_LIGHT_BYTES: Final = 3 << 20
# The automata of our own patterns are small.
_BUILTIN_STEPS: Final = 2
# One of ours beside one of a caller's may cost a step for each instruction of both at every byte.
_STEPS_OF_UNION: Final = 1_000_000


class Rule(NamedTuple):
    """A filter in force. `detect` is a plug-in in place of patterns, and `look` the pattern that
    matches wherever one of them does."""

    placed: GuardrailFilter
    patterns: tuple[CompiledPattern, ...]
    builtin: Builtin | None
    detect: Any
    look: CompiledPattern | None

    @property
    def action(self) -> Action:
        return self.placed.filter.action

    @property
    def check(self) -> Check | None:
        """What must be true of a match of its patterns."""
        return self.builtin.check if self.builtin is not None else None

    @property
    def name(self) -> str:
        """What a record says was found; nothing of the text, and of a pattern its label at most."""
        return self.placed.filter.builtin or self.placed.filter.label or "custom"

    @property
    def redaction(self) -> str:
        if self.builtin is not None:
            return self.builtin.redaction
        return f"[{self.placed.filter.label or 'REDACTED'}]"

    @property
    def refusal(self) -> str:
        """The refusal that the caller of a blocked request gets."""
        builtin = self.builtin
        if builtin is None:
            label = self.placed.filter.label or "[BLOCKED]"
            return f"Request blocked by content filter: {label}"
        if builtin.slug == INJECTION:
            return "Request blocked: prompt injection patterns detected"
        if builtin.entity:
            return f"Blocked PII detected: {builtin.entity}"
        return f"Request blocked by content filter: {builtin.title}"

    @property
    def weight(self) -> int:
        """Steps that a byte of text costs: at the worst for a pattern of the caller's own."""
        if self.builtin is not None:
            return _BUILTIN_STEPS * len(self.patterns)
        return sum(pattern.size for pattern in self.patterns)

    def misses(self, data: Raw, deadline: Deadline) -> bool:
        """Whether one quick look tells that a text has no match, as nearly all have none. Raises
        `TooSlow`."""
        if self.look is None or len(data) > _LOOKED_AT_ONCE:
            return False
        deadline.check()
        return self.look.find(data, 0, len(data)) is None

    def find(self, data: Raw, deadline: Deadline) -> Iterator[Span]:
        """The matches in UTF-8 text, in order; those of two patterns may overlap."""
        if self.detect is not None:
            return _detect_spans(self.detect, data)
        check = self.check
        if len(self.patterns) == 1:
            return matches(self.patterns[0], data, deadline, check)
        assert self.look is not None
        # Nearly all texts have no match at all, which one search can tell.
        if next(matches(self.look, data, deadline), None) is None:
            return iter(())
        return merge(*[matches(pattern, data, deadline, check) for pattern in self.patterns])


class Rules(NamedTuple):
    """What holds for what users say, and for all other messages."""

    of_users: tuple[Rule, ...]
    of_others: tuple[Rule, ...]
    # Whether there are any that block, and any that do something else.
    blocks: bool
    works: bool
    # Whether there are plug-ins, and the steps that a byte of a user's text costs.
    detects: bool
    weight: int
    # Where none of these matches no rule has a match; empty where patterns cannot show that.
    looks: tuple[CompiledPattern, ...] = ()
    # The same as one pattern, for texts of at most this many bytes.
    union: tuple[CompiledPattern, ...] = ()
    union_bytes_max: int = -1

    def choose(self, by_user: bool) -> tuple[Rule, ...]:
        return self.of_users if by_user else self.of_others


def _is_light(rules: Rules) -> bool:
    """Whether they may be kept beside the patterns' own memory, which is bounded."""
    own = [pattern for rule in rules.of_users if not rule.builtin for pattern in rule.patterns]
    found = {id(each): each.memory_bytes for each in (*own, *rules.union)}
    return sum(found.values()) <= _LIGHT_BYTES


def _build_rules(placed: tuple[GuardrailFilter, ...]) -> Rules:
    """The rules of all filters together: of the same one in several guardrails the strongest action
    counts. Detectors that nobody installed are left out."""
    others = [each for each in placed if not each.filter.user_only]
    compiled = compile_patterns([each.filter.pattern for each in placed if not each.filter.builtin])
    of_users = tuple(
        _build_rule(each, compiled) for each in _find_strongest(placed) if _runs(each.filter)
    )
    of_others = tuple(
        _build_rule(each, compiled) for each in _find_strongest(others) if _runs(each.filter)
    )
    every = of_users + of_others
    found = {id(rule.look): rule.look for rule in every if rule.look is not None}
    looks = () if any(rule.look is None for rule in every) else tuple(found.values())
    union = _unite_patterns(looks)
    return Rules(
        of_users,
        of_others,
        blocks=any(rule.action == "block" for rule in every),
        works=any(rule.action != "block" for rule in every),
        detects=any(rule.detect is not None for rule in every),
        weight=sum(rule.weight for rule in of_users),
        looks=looks,
        union=union,
        union_bytes_max=_STEPS_OF_UNION // union[0].size if union else -1,
    )


rules_of: IdentityCache[tuple[GuardrailFilter, ...], Rules] = IdentityCache(
    _build_rules, may_keep=_is_light
)


def _unite_patterns(looks: tuple[CompiledPattern, ...]) -> tuple[CompiledPattern, ...]:
    """One, or none where there is nothing to unite or it would be too large."""
    union = join_patterns(looks) if len(looks) > 1 else None
    if union is None:
        return ()
    try:
        return (compile_patterns([union])[union],)
    except InvalidPattern:  # Each of them was small enough, and all together are not.
        return ()


def _find_strongest(placed: Iterable[GuardrailFilter]) -> list[GuardrailFilter]:
    found: dict[tuple[str, str], GuardrailFilter] = {}
    for each in placed:
        what = (each.filter.builtin, each.filter.pattern)
        known = found.get(what)
        if known is None or _STRENGTH[each.filter.action] > _STRENGTH[known.filter.action]:
            found[what] = each
    return list(found.values())


def _build_rule(placed: GuardrailFilter, compiled: dict[str, CompiledPattern]) -> Rule:
    slug = placed.filter.builtin
    if not slug:
        pattern = compiled[placed.filter.pattern]
        return Rule(placed, (pattern,), None, None, pattern)
    detector = _find_detector(slug)
    look = compile_as_one(slug) if detector is None else None
    return Rule(placed, compile_builtin(slug), BUILTINS[slug], detector, look)


def _runs(filter: FilterEntry) -> bool:
    slug = filter.builtin
    return not slug or bool(BUILTINS[slug].patterns) or _find_detector(slug) is not None


def _find_detector(slug: str) -> Any:
    """The plug-in: a function from a text to the matches in it, (beginning, end) in characters."""
    path = settings.GUARDRAIL_DETECTORS.get(slug)
    return import_string(path) if path else None


def compile_patterns(wanted: list[str]) -> dict[str, CompiledPattern]:
    known = {pattern: found for pattern in wanted if (found := patterns.get(pattern))}
    missing = [pattern for pattern in dict.fromkeys(wanted) if pattern not in known]
    if is_quick_to_compile(missing):
        compiled = list(map(CompiledPattern, missing))
    else:
        compiled = run_in_thread(lambda: list(map(CompiledPattern, missing)))
    for pattern, one in zip(missing, compiled, strict=True):
        patterns.put(pattern, one)
        known[pattern] = one
    return known


def _detect_spans(detect: Any, data: Raw) -> Iterator[Span]:
    """What a plug-in finds, in bytes."""
    text = decode(data)
    at, at_bytes = 0, 0
    for start, end in sorted(detect(text)):
        if 0 <= start < end <= len(text):
            at_bytes += len(text[at:start].encode())
            at = start
            yield Span(at_bytes, at_bytes + len(text[start:end].encode()))
