"""What rules let requests take, made once for all requests that the rules cannot tell apart."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from gateway.limits.concurrency import Bound
from gateway.limits.limits import DAY_S, MINUTE_S, Limit
from gateway.limits.rules import BURST, DAY, EACH, REQUESTS, TOKENS, Marks, RateRule
from gateway.limits.weights import ModelUse, Weights, weigh_requests

# Of all rules in the process, because end users are anybody's to name. The 64 rules of a key and
# its workspace make at most 70 KB of one.
ALLOWANCES_MAX: Final = 1024
# Of end user and tags together. What longer ones take is not kept: `user` has no bound of its own.
NAME_CHARS_MAX: Final = 512


class Allowance(NamedTuple):
    """What a request of one call and one token takes: room in `windows`, a place of each bound.
    `token_windows` are the indexes of those windows that count tokens, `weights` those of windows
    that count some models more than once."""

    windows: tuple[Limit, ...] = ()
    token_windows: tuple[int, ...] = ()
    bounds: tuple[Bound, ...] = ()
    weights: tuple[tuple[int, Weights], ...] = ()

    def list_limits(
        self, tokens: int, calls: int = 1, uses: Sequence[ModelUse] = ()
    ) -> Sequence[Limit]:
        """What a request takes: so many tokens at most, sent in so many calls. One that may use
        more tokens than the whole limit waits for a minute that is all its own. One of more calls
        than a burst waits so for a part of a minute. So does one of a model that weighs more than a
        limit. `uses` is for weights: what may be asked of each model."""
        if calls == 1 and not (self.token_windows or self.weights):
            return self.windows
        limits = list(self.windows)
        if calls != 1:
            limits = [
                each._replace(cost=min(calls, each.most) if each.scope.startswith(BURST) else calls)
                for each in limits
            ]
        for number in self.token_windows:
            scope, most, window_s, _, _ = limits[number]
            limits[number] = Limit(scope, most, window_s, min(tokens, most), counts_tokens=True)
        for number, weights in self.weights if uses else ():
            limit = limits[number]
            if number in self.token_windows:
                weighed = max(each.weigh(weights) * each.tokens for each in uses)
            else:
                weighed = weigh_requests(weights, uses) * calls
            limits[number] = limit._replace(cost=max(limit.cost, min(weighed, limit.most)))
        return limits


NOTHING: Final = Allowance()


class RuleSet:
    """Rules that never change. It is small: what they let requests take is kept elsewhere."""

    def __init__(self, rules: Sequence[RateRule]) -> None:
        self.rules = rules
        self._models = {rule.model for rule in rules if rule.model is not None}
        self._providers = {rule.provider for rule in rules if rule.provider is not None}
        self._users = {rule.user for rule in rules if rule.user is not None}
        tags = [rule.tag.partition("=") for rule in rules if rule.tag is not None]
        self.tag_names = tuple(sorted({name for name, _, _ in tags}))
        self._tag_values = [
            (name, {value for other, _, value in tags if other == name}) for name in self.tag_names
        ]

    def allow(
        self, marks: Marks, model: str | None = None, provider: str | None = None
    ) -> Allowance:
        """What requests with these marks take. Rules that name a model or provider count where it
        is this canonical slug and this provider's."""
        if not self.rules:
            return NOTHING
        # What no rule tells from nothing is nothing: only the rest makes another allowance.
        user = marks.user
        if user is not None and not (EACH in self._users or user in self._users):
            user = None
        model = model if model in self._models else None
        provider = provider if provider in self._providers else None
        if user is None and not self.tag_names:
            return find_allowance(self, model, provider, None)
        tags = [
            value if EACH in values or value in values else None
            for name, values in self._tag_values
            for value in (marks.tags.get(name),)
        ]
        find: Callable[..., Allowance] = find_allowance
        if (user or tags) and len("".join(filter(None, (user, *tags)))) > NAME_CHARS_MAX:
            find = find_allowance.__wrapped__
        return find(self, model, provider, user, *tags)


@lru_cache(ALLOWANCES_MAX)
def find_allowance(
    rule_set: RuleSet,
    model: str | None,
    provider: str | None,
    user: str | None,
    *tags: str | None,
) -> Allowance:
    """What requests take that these rules count alike. `tags` are values, in the order of the set's
    names; None stands for all that no rule counts."""
    values = zip(rule_set.tag_names, tags, strict=True)
    marks = Marks(user, {name: value for name, value in values if value is not None})
    return build_allowance(
        [
            rule
            for rule in rule_set.rules
            if rule.counts(marks)
            and rule.model in (None, model)
            and rule.provider in (None, provider)
        ],
        marks,
    )


def build_allowance(rules: Sequence[RateRule], marks: Marks) -> Allowance:
    """Of rules that all count requests with these marks."""
    windows: list[Limit] = []
    token_windows: list[int] = []
    bounds: list[Bound] = []
    weights: list[tuple[int, Weights]] = []
    for rule in rules:
        first = len(windows)
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
            most = rule.tokens_per_minute
            windows.append(Limit(f"{TOKENS}:{name}", most, MINUTE_S, counts_tokens=True))
        if rule.concurrent is not None:
            bounds.append(Bound(f"places:{name}", rule.concurrent))
        if rule.weights:
            weights += [(number, rule.weights) for number in range(first, len(windows))]
    return Allowance(tuple(windows), tuple(token_windows), tuple(bounds), tuple(weights))
