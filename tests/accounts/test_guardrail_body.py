"""What no guardrail may have, and how callers are told."""

from collections.abc import Iterator
from typing import Any

import pytest

from accounts.patterns import compile_at_once
from accounts.views.guardrail_body import read_changes
from gateway.http.errors import SchemaInvalid
from routing.catalogue.snapshot import catalogue
from tests.support.management import Manager

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_known(db: None) -> Iterator[None]:
    """A catalogue without any model."""
    catalogue.forget()
    catalogue.current()
    yield
    catalogue.forget()


def flag(**changes: Any) -> dict[str, Any]:
    """A guardrail with one pattern of its own; `...` leaves a field out."""
    said = {"pattern": "x", "action": "flag"} | changes
    return {"content_filters": [{name: each for name, each in said.items() if each is not ...}]}


def builtin(**changes: Any) -> dict[str, Any]:
    return {"content_filter_builtins": [{"slug": "ssn", "action": "flag"} | changes]}


def daily(limit: Any) -> dict[str, Any]:
    return {"limit_usd": limit, "reset_interval": "daily"}


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({"name": ""}, "name"),
        ({"name": "n" * 201}, "name"),
        ({"description": "d" * 1001}, "description"),
        (daily(0), "limit_usd"),
        (daily("5"), "limit_usd"),
        (daily(True), "limit_usd"),
        (daily(1e-10), "limit_usd"),
        (daily(1e10), "limit_usd"),
        ({"limit_usd": 5}, "reset_interval"),
        ({"reset_interval": "daily"}, "limit_usd"),
        ({"limit_usd": 5, "reset_interval": "yearly"}, "reset_interval"),
        ({"allowed_models": []}, "allowed_models"),
        ({"ignored_models": ["acme/none"]}, "ignored_models.0"),
        ({"allowed_models": ["acme/solo", "x" * 201]}, "allowed_models.1"),
        ({"allowed_providers": []}, "allowed_providers"),
        ({"allowed_providers": "alpha"}, "allowed_providers"),
        ({"ignored_providers": ["beta/turbo"]}, "ignored_providers.0"),
        ({"enforce_zdr_xai": "yes"}, "enforce_zdr_xai"),
        ({"include_byok_in_budgets": None}, "include_byok_in_budgets"),
        (flag(pattern=""), "content_filters.0.pattern"),
        (flag(action=...), "content_filters.0.action"),
        (flag(pattern=...), "content_filters.0.pattern"),
        (flag(action="drop"), "content_filters.0.action"),
        (flag(label="l" * 101), "content_filters.0.label"),
        (builtin(slug="secrets"), "content_filter_builtins.0.slug"),
        (builtin(scan_scope="x"), "content_filter_builtins.0.scan_scope"),
        ({"allowed_data_regions": []}, "allowed_data_regions"),
        ({"allowed_data_regions": ["mars"]}, "allowed_data_regions.0"),
    ],
)
def test_what_no_guardrail_may_have(mine: Manager, said: dict[str, Any], path: str) -> None:
    status, answer = mine.call("POST", "/guardrails", {"name": "g"} | said)

    assert status == 400
    assert [issue["path"] for issue in answer["error"]["metadata"]["issues"]] == [path]
    assert mine.ok("GET", "/guardrails")["total_count"] == 0
    if "limit_usd" not in path and path != "reset_interval":
        made = mine.ok("POST", "/guardrails", {"name": "g"}, status=201)["data"]
        assert mine.call("PATCH", f"/guardrails/{made['id']}", said) == (400, answer)


def test_a_pattern_that_no_filter_may_have(mine: Manager) -> None:
    for pattern, why in {
        "(?=a)b": "lookaround is not supported",
        "a(?!b)": "lookaround is not supported",
        "(?<=a)b": "lookaround is not supported",
        r"(a)\1": "backreferences are not supported",
        "(?P<n>a)(?P=n)": "backreferences are not supported",
        "(a+)+": "nested repetition of one thing, as in (a+)+",
        "(x?a*)*": "nested repetition of one thing, as in (a+)+",
        "(a{500}){500}": "too complex: at most 1000 repetitions, all levels together",
        "[a": "missing ]: [a",
    }.items():
        filters = [{"pattern": "fine", "action": "flag"}, {"pattern": pattern, "action": "block"}]
        status, answer = mine.call("POST", "/guardrails", {"name": "g", "content_filters": filters})
        metadata = answer["error"]["metadata"]
        text = f"Invalid regular expression: {why}"
        assert (status, metadata["reason"]) == (400, "invalid_regex_pattern")
        assert metadata["issues"] == [{"path": "content_filters.1.pattern", "message": text}]
        assert answer["error"]["message"] == f"content_filters.1.pattern: {text}"


def test_patterns_have_a_length() -> None:
    longest = read_changes(flag(pattern="x" * 100_000))
    assert longest == flag(pattern="x" * 100_000, label=None)
    with pytest.raises(SchemaInvalid, match="<=100000 characters"):
        read_changes(flag(pattern="x" * 100_001))


def test_what_may_take_long_is_compiled_beside_the_loop() -> None:
    for at_once in ([], ["x" * 500, "y" * 500]):
        assert compile_at_once(at_once)
    for long in (["x" * 500, "y" * 501], ["a", "[^a]{1000}"], [r"\pL"], [r"\PL"]):
        assert not compile_at_once(long), long
