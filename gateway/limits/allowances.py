"""What rules let requests take, made once for all requests that the rules cannot tell apart."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from gateway.limits.concurrency import Bound
from gateway.limits.limits import DAY_S, MINUTE_S, Limit
from gateway.limits.rules import BURST, DAY, REQUESTS, TOKENS, Marks, RateRule

# Of one set of rules, of which a busy key has a new one each second. End users are anybody's to
# name, so that all go once there are so many.
_ALLOWANCES_MAX: Final = 64


class Allowance(NamedTuple):
    """The windows that a request of one call and one token takes from, which of them count tokens,
    and the bounds that it needs a place of."""

    windows: tuple[Limit, ...] = ()
    token_windows: tuple[int, ...] = ()
    bounds: tuple[Bound, ...] = ()

    def list_limits(self, tokens: int, calls: int = 1) -> Sequence[Limit]:
        """What a request of so many tokens at most, sent in so many calls, takes. One that may use
        more tokens than the whole limit waits for a minute that is all its own, and one of more
        calls than a burst for a part of a minute."""
        limits = list(self.windows)
        if calls != 1:
            limits = [
                Limit(*each[:3], min(calls, each.most) if each.scope.startswith(BURST) else calls)
                for each in limits
            ]
        for number in self.token_windows:
            scope, most, window_s, _ = limits[number]
            limits[number] = Limit(scope, most, window_s, min(tokens, most))
        return limits


NOTHING: Final = Allowance()


class RuleSet:
    """Rules that never change, and what they were found to let requests take."""

    def __init__(self, rules: Sequence[RateRule]) -> None:
        self._rules = rules
        self._reads_user = any(rule.user is not None for rule in rules)
        tags = {rule.tag.partition("=")[0] for rule in rules if rule.tag is not None}
        self._tag_names = tuple(sorted(tags))
        self._names_endpoints = any(rule.names_endpoints for rule in rules)
        self._known: dict[tuple[str | None, ...], Allowance] = {}

    def allow(
        self, marks: Marks, model: str | None = None, provider: str | None = None
    ) -> Allowance:
        """What requests with these marks take. Rules that name a model or provider count where it
        is this canonical slug and this provider's."""
        if not self._rules:
            return NOTHING
        endpoint = (model, provider) if self._names_endpoints else (None, None)
        user = marks.user if self._reads_user else None
        tags = [marks.tags.get(name) for name in self._tag_names]
        known = (*endpoint, user, *tags)
        allowance = self._known.get(known)
        if allowance is None:
            if len(self._known) >= _ALLOWANCES_MAX:
                self._known.clear()
            allowance = self._known[known] = build_allowance(
                [
                    rule
                    for rule in self._rules
                    if rule.counts(marks)
                    and rule.model in (None, model)
                    and rule.provider in (None, provider)
                ],
                marks,
            )
        return allowance


def build_allowance(rules: Sequence[RateRule], marks: Marks) -> Allowance:
    """Of rules that all count requests with these marks."""
    windows: list[Limit] = []
    token_windows: list[int] = []
    bounds: list[Bound] = []
    for rule in rules:
        name = rule.name_counter(marks)
        per_minute = rule.requests_per_minute
        if per_minute is not None:
            windows.append(Limit(f"{REQUESTS}:{name}", per_minute, MINUTE_S))
            if rule.burst is not None:
                window_s = max(1, MINUTE_S * rule.burst // per_minute)
                windows.append(Limit(f"{BURST}:{name}", rule.burst, window_s))
        if rule.requests_per_day is not None:
            windows.append(Limit(f"{DAY}:{name}", rule.requests_per_day, DAY_S))
        if rule.tokens_per_minute is not None:
            token_windows.append(len(windows))
            windows.append(Limit(f"{TOKENS}:{name}", rule.tokens_per_minute, MINUTE_S))
        if rule.concurrent is not None:
            bounds.append(Bound(f"places:{name}", rule.concurrent))
    return Allowance(tuple(windows), tuple(token_windows), tuple(bounds))
