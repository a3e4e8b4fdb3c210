"""The wording of schema failures (management reference 3.3)."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, ValidationError

from gateway.http.validation import (
    FAILURES_LISTED_MAX,
    Issue,
    format_path,
    join_issues,
    list_issues,
    name_json_type,
)


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str


class Sample(BaseModel):
    text: str = "x"
    short: Annotated[str, Field(min_length=1, max_length=3)] = "x"
    slug: Annotated[str, Field(pattern=r"^[a-z]+$")] = "x"
    count: Annotated[int, Field(strict=True, ge=0, le=2)] = 0
    rate: Annotated[float, Field(strict=True, ge=0.0001, lt=1)] = 0.5
    above: Annotated[float, Field(gt=0)] = 1
    flag: Annotated[bool, Field(strict=True)] = False
    period: Literal["daily", "weekly"] = "daily"
    constant: Literal["function"] = "function"
    items: Annotated[list[str], Field(min_length=1, max_length=2)] = ["x"]
    pairs: Annotated[dict[Annotated[str, Field(max_length=3)], int], Field(max_length=1)] = {}
    inner: Inner = Inner(name="x")
    inners: list[Inner] = []
    id: UUID = UUID(int=0)
    url: AnyUrl = AnyUrl("http://x/")
    at: datetime = datetime.min


class Needs(BaseModel):
    name: str


def only_issue(model: type[BaseModel], value: Any) -> Issue:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(value)
    [issue] = list_issues(caught.value)
    return issue


def mismatch_text(expected: str, received: str) -> str:
    return f"Invalid input: expected {expected}, received {received}"


@pytest.mark.parametrize(
    ("field", "value", "path", "text"),
    [
        ("text", 1, "text", mismatch_text("string", "number")),
        ("text", None, "text", mismatch_text("string", "null")),
        ("text", [], "text", mismatch_text("string", "array")),
        ("text", {}, "text", mismatch_text("string", "object")),
        ("text", True, "text", mismatch_text("string", "boolean")),
        ("short", "", "short", "Too small: expected string to have >=1 characters"),
        ("short", "xxxx", "short", "Too big: expected string to have <=3 characters"),
        ("slug", "A", "slug", "Invalid string: must match pattern /^[a-z]+$/"),
        ("count", "1", "count", mismatch_text("number", "string")),
        ("count", 1.5, "count", mismatch_text("int", "number")),
        ("count", 3, "count", "Too big: expected number to be <=2"),
        ("count", -1, "count", "Too small: expected number to be >=0"),
        ("rate", 0, "rate", "Too small: expected number to be >=0.0001"),
        ("rate", 1, "rate", "Too big: expected number to be <1"),
        ("above", 0, "above", "Too small: expected number to be >0"),
        ("flag", 1, "flag", mismatch_text("boolean", "number")),
        ("period", "yearly", "period", 'Invalid option: expected one of "daily"|"weekly"'),
        ("constant", "x", "constant", 'Invalid input: expected "function"'),
        ("items", [], "items", "Too small: expected array to have >=1 items"),
        ("items", ["a"] * 3, "items", "Too big: expected array to have <=2 items"),
        ("items", ["a", 1], "items.1", mismatch_text("string", "number")),
        ("items", "a", "items", mismatch_text("array", "string")),
        ("pairs", {"a": 1, "b": 1}, "pairs", "Too big: expected object to have <=1 keys"),
        ("pairs", {"abcd": 1}, "pairs.abcd", "Too big: expected string to have <=3 characters"),
        ("inner", 1, "inner", mismatch_text("object", "number")),
        ("inner", {"name": "x", "foo": 1}, "inner", 'Unrecognized key: "foo"'),
        ("inners", [{"name": 1}], "inners.0.name", mismatch_text("string", "number")),
        ("id", "x", "id", "Invalid UUID"),
        ("url", "x", "url", "Invalid URL"),
        ("at", "x", "at", "Invalid ISO datetime"),
    ],
)
def test_each_failure_has_its_wording(field: str, value: Any, path: str, text: str) -> None:
    assert only_issue(Sample, {field: value}) == Issue(path, text)


def test_what_is_wrong_with_a_whole_body_has_no_path() -> None:
    assert only_issue(Needs, {}) == Issue("name", "Invalid input: received undefined")
    issue = only_issue(Sample, [1])
    assert issue == Issue("", "Invalid input: expected object, received array")
    assert join_issues([issue]) == issue.message
    assert only_issue(Inner, {"name": "x", "foo": 1}) == Issue("", 'Unrecognized key: "foo"')


def test_at_most_five_failures_are_told_in_field_order() -> None:
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate({"inner": 1, "text": 1, "inners": 1, "items": 1, "slug": 1, "at": []})
    issues = list_issues(caught.value)
    assert [issue.path for issue in issues] == ["text", "slug", "items", "inner", "inners"]
    assert join_issues(issues).count("; ") == 4
    assert join_issues([*issues, *issues]) == join_issues(issues)
    count = FAILURES_LISTED_MAX + 1
    many = only_issue(Sample, {"inners": [1] * count})
    assert many == Issue("", f"Invalid request parameters ({count} failures)")


def test_a_key_the_caller_invented_is_cut_in_path_and_text() -> None:
    assert format_path(("metadata", "k" * 500)) == "metadata." + "k" * 64 + "…"
    assert len(only_issue(Inner, {"name": "x", "k" * 500: 1}).message) < 100
    assert name_json_type(UUID(int=0)) == "UUID"
