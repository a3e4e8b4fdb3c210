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


def made(mine: Manager, **said: Any) -> Any:
    return mine.ok("POST", "/guardrails", {"name": "g"} | said, status=201)["data"]


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({"name": ""}, "name"),
        ({"name": "n" * 201}, "name"),
        ({"description": "d" * 1001}, "description"),
        ({"limit_usd": 0, "reset_interval": "daily"}, "limit_usd"),
        ({"limit_usd": "5", "reset_interval": "daily"}, "limit_usd"),
        ({"limit_usd": True, "reset_interval": "daily"}, "limit_usd"),
        ({"limit_usd": 1e-10, "reset_interval": "daily"}, "limit_usd"),
        ({"limit_usd": 1e10, "reset_interval": "daily"}, "limit_usd"),
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
        ({"content_filters": [{"pattern": "", "action": "flag"}]}, "content_filters.0.pattern"),
        ({"content_filters": [{"pattern": "x"}]}, "content_filters.0.action"),
        ({"content_filters": [{"action": "block"}]}, "content_filters.0.pattern"),
        ({"content_filters": [{"pattern": "x", "action": "drop"}]}, "content_filters.0.action"),
        (
            {"content_filters": [{"pattern": "x", "action": "flag", "label": "l" * 101}]},
            "content_filters.0.label",
        ),
        (
            {"content_filter_builtins": [{"slug": "secrets", "action": "flag"}]},
            "content_filter_builtins.0.slug",
        ),
        (
            {"content_filter_builtins": [{"slug": "ssn", "action": "flag", "scan_scope": "x"}]},
            "content_filter_builtins.0.scan_scope",
        ),
        ({"allowed_data_regions": []}, "allowed_data_regions"),
        ({"allowed_data_regions": ["mars"]}, "allowed_data_regions.0"),
    ],
)
def test_what_no_guardrail_may_have(mine: Manager, said: dict[str, Any], path: str) -> None:
    status, answer = mine.call("POST", "/guardrails", {"name": "g"} | said)

    assert status == 400
    assert [issue["path"] for issue in answer["error"]["metadata"]["issues"]] == [path]
    assert mine.ok("GET", "/guardrails")["total_count"] == 0
    guardrail = made(mine)
    if "limit_usd" not in path and path != "reset_interval":
        status, again = mine.call("PATCH", f"/guardrails/{guardrail['id']}", said)
        assert (status, again) == (400, answer)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(?=a)b", "lookaround is not supported"),
        ("a(?!b)", "lookaround is not supported"),
        ("(?<=a)b", "lookaround is not supported"),
        (r"(a)\1", "backreferences are not supported"),
        ("(?P<n>a)(?P=n)", "backreferences are not supported"),
        ("(a+)+", "nested repetition of one thing, as in (a+)+"),
        ("(x?a*)*", "nested repetition of one thing, as in (a+)+"),
        ("(a{500}){500}", "too complex: at most 1000 repetitions, all levels together"),
        ("[a", "missing ]: [a"),
    ],
)
def test_a_pattern_that_no_filter_may_have(mine: Manager, pattern: str, why: str) -> None:
    filters = [{"pattern": "fine", "action": "flag"}, {"pattern": pattern, "action": "block"}]

    status, answer = mine.call("POST", "/guardrails", {"name": "g", "content_filters": filters})

    error = answer["error"]
    assert status == 400
    assert error["metadata"]["reason"] == "invalid_regex_pattern"
    text = f"Invalid regular expression: {why}"
    assert error["metadata"]["issues"] == [{"path": "content_filters.1.pattern", "message": text}]
    assert error["message"] == f"content_filters.1.pattern: {text}"


def test_patterns_have_a_length() -> None:
    def read(pattern: str) -> Any:
        return read_changes({"content_filters": [{"pattern": pattern, "action": "flag"}]})

    assert len(read("x" * 100_000)["content_filters"][0]["pattern"]) == 100_000
    with pytest.raises(SchemaInvalid, match="<=100000 characters"):
        read("x" * 100_001)


@pytest.mark.parametrize(
    ("patterns", "at_once"),
    [
        ([], True),
        (["x" * 500, "y" * 500], True),
        (["x" * 500, "y" * 501], False),
        (["a", "[^a]{1000}"], False),
        ([r"\pL"], False),
        ([r"\PL"], False),
    ],
)
def test_what_may_take_long_is_compiled_beside_the_loop(patterns: list[str], at_once: bool) -> None:
    assert compile_at_once(patterns) is at_once
