"""What rules let requests take, made once for those that they cannot tell apart."""

from typing import Any

import pytest

from gateway.limits import allowances
from gateway.limits.allowances import NOTHING, RuleSet
from gateway.limits.concurrency import Bound
from gateway.limits.rules import Marks, build_rules


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


def test_names_that_callers_choose_never_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowances, "_ALLOWANCES_MAX", 2)
    rules = rule_set({"scope": {"user": "*"}, "requests_per_minute": 9})
    for number in range(7):
        rules.allow(Marks(f"user-{number}"))
    assert len(rules._known) <= 2
