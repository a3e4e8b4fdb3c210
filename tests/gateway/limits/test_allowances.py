"""What rules let requests take, made once for those that they cannot tell apart."""

from collections.abc import Iterable
from typing import Any

import pytest

from gateway.limits.allowances import (
    ALLOWANCES_MAX,
    NAME_CHARS_MAX,
    NOTHING,
    RuleSet,
    find_allowance,
)
from gateway.limits.concurrency import Bound
from gateway.limits.rules import Marks, RateRule, build_rules
from gateway.limits.weights import ModelUse
from routing.entities.identity_cache import IdentityCache


def rule_set(*limits: dict[str, Any]) -> RuleSet:
    return RuleSet(build_rules("key:1", limits))


def test_requests_that_rules_cannot_tell_apart_share_what_was_made() -> None:
    rules = rule_set(
        {"requests_per_minute": 9, "burst": 3, "requests_per_day": 20, "concurrent": 2},
        {"scope": {"tag": "team=*"}, "tokens_per_minute": 100},
    )
    blue = rules.allow(Marks("ada", {"team": "blue", "job": "1"}))
    assert rules.allow(Marks("bob", {"team": "blue", "job": "2"})) is blue
    assert [(each.most, each.window_s) for each in blue.windows] == [
        *((9, 60), (3, 20), (20, 86_400), (100, 60))
    ]
    assert blue.bounds == (Bound("places:key:1||||", 2),)
    assert [each.cost for each in blue.list_limits(tokens=40)] == [1, 1, 1, 40]
    assert [each.cost for each in blue.list_limits(tokens=400, calls=5)] == [5, 3, 5, 100]

    red, none = rules.allow(Marks(None, {"team": "red"})), rules.allow(Marks())
    assert red.windows[:3] == blue.windows[:3] == none.windows
    assert red.windows[3].scope != blue.windows[3].scope


def test_dear_models_count_more_than_once() -> None:
    large, small = ModelUse("acme/large", "acme/large-1", 40), ModelUse("acme/small", "acme/s", 30)
    weights = {"acme/large-1": 5, "Acme/*": 2, "*": 3}
    rules = rule_set(
        {"requests_per_minute": 9, "burst": 3, "tokens_per_minute": 100, "weights": weights},
        {"requests_per_minute": 8, "weights": {"*large": 4, "acme/*": 1}},
        {"scope": {"model": "acme/large-1"}, "requests_per_day": 7},
    )
    allowance = rules.allow(Marks(), "acme/large-1")

    def list_costs(*uses: ModelUse, calls: int = 1) -> list[int]:
        tokens = max((each.tokens for each in uses), default=1)
        return [each.cost for each in allowance.list_limits(tokens, calls, uses)]

    # Of two patterns the longer one holds; of two limits of one scope the larger weight.
    assert list_costs(small) == [2, 2, 60, 1]
    assert list_costs(ModelUse("other", "other", 30)) == [3, 3, 90, 1]
    # No weight makes a request larger than a whole limit: it waits for a window of its own.
    assert list_costs(large) == [5, 3, 100, 1]
    assert list_costs(small, large) == [5, 3, 100, 1]
    assert list_costs(small, calls=3) == [6, 3, 60, 3]
    # What is refused without weights is refused with them.
    assert list_costs(small, calls=9) == [9, 3, 60, 9]
    assert list_costs() == [1, 1, 1, 1]


def test_each_end_user_and_each_endpoint_has_counters_of_its_own() -> None:
    rules = rule_set(
        {"scope": {"user": "*"}, "requests_per_minute": 9},
        {"scope": {"user": "ada", "model": "acme/small"}, "requests_per_minute": 5},
        {"scope": {"provider": "acme"}, "requests_per_minute": 7},
    )

    def most(user: str, model: str, provider: str) -> list[int]:
        return [each.most for each in rules.allow(Marks(user), model, provider).windows]

    assert most("ada", "acme/small", "acme") == [9, 5, 7]
    assert most("ada", "acme/large", "acme") == [9, 7]
    assert most("bob", "acme/small", "other") == [9]
    names = {rules.allow(Marks(user), "m", "p").windows[0].scope for user in ("ada", "bob")}
    assert len(names) == 2
    assert rule_set().allow(Marks("ada")) is NOTHING


def count_new_allowances(rules: RuleSet, marks: Iterable[Marks], model: str = "m") -> int:
    """How many allowances are kept that were not there before."""
    find_allowance.cache_clear()
    for each in marks:
        rules.allow(each, model, "p")
    return find_allowance.cache_info().currsize


def test_what_no_rule_counts_makes_no_allowance_of_its_own() -> None:
    fixed = rule_set(
        {"scope": {"user": "ada", "tag": "team=blue"}, "requests_per_minute": 9},
        {"scope": {"tag": "team=red"}, "requests_per_minute": 7},
        {"scope": {"model": "acme/small", "provider": "acme"}, "requests_per_minute": 5},
    )
    strangers = [Marks(f"user-{number}", {"team": f"{number}"}) for number in range(50)]
    assert count_new_allowances(fixed, strangers) == 1
    assert count_new_allowances(fixed, [*strangers, Marks(), Marks("*", {"team": "*"})]) == 1
    assert count_new_allowances(fixed, [Marks("ada", {"team": "blue"}), Marks("ada"), Marks()]) == 3
    assert fixed.allow(Marks(), "acme/small", "p") is fixed.allow(Marks(), "acme/small", "q")
    assert (
        count_new_allowances(rule_set({"scope": {"tag": "team=*"}, "concurrent": 1}), strangers)
        == 50
    )


@pytest.mark.parametrize("scope", [{"user": "*"}, {"tag": "team=*"}])
def test_long_names_are_counted_and_not_kept(scope: dict[str, str]) -> None:
    rules = rule_set({"scope": scope, "requests_per_minute": 9})
    short, long = "x" * NAME_CHARS_MAX, "x" * (NAME_CHARS_MAX + 1)
    marks = Marks(long, {"team": long})
    assert count_new_allowances(rules, [marks]) == 0
    assert rules.allow(marks) == rules.allow(marks) != rules.allow(Marks())
    assert len(rules.allow(marks).windows) == 1
    assert count_new_allowances(rules, [Marks(short, {"team": short})]) == 1


def test_users_and_keys_that_are_read_again_leave_only_so_many_allowances() -> None:
    find_rules: IdentityCache[tuple[RateRule, ...], RuleSet] = IdentityCache(RuleSet)
    find_allowance.cache_clear()
    sets = set()
    for number in range(100_000):
        if number % 80 == 0:
            rules = build_rules("key:1", [{"scope": {"user": "*"}, "requests_per_minute": 9}])
            sets.add(find_rules(rules))
        find_rules(rules).allow(Marks(f"user-{number}"))
    assert len(sets) == 1
    kept = find_allowance.cache_info()
    assert kept.currsize == kept.maxsize == ALLOWANCES_MAX
