"""Filter rules: which generations a destination gets."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from accounts.patterns import CompiledPattern, InvalidPattern, check_pattern
from gateway.http.resources import Body

# What only generations with content have.
_CONTENT_FIELDS: Final = frozenset({"input", "output"})
_GROUPS_MAX: Final = 20
_RULES_MAX: Final = 50
_VALUE_CHARS_MAX: Final = 2_000
_WITHOUT_VALUE: Final = frozenset({"exists", "not_exists"})
_NUMERIC: Final = frozenset({"gt", "lt", "gte", "lte"})

RuleField = Literal[
    "model",
    "provider",
    "session_id",
    "user_id",
    "api_key_name",
    "finish_reason",
    "input",
    "output",
    "total_cost",
    "total_tokens",
    "prompt_tokens",
    "completion_tokens",
]
Operator = Literal[
    "equals",
    "not_equals",
    "contains",
    "not_contains",
    "regex",
    "starts_with",
    "ends_with",
    "gt",
    "lt",
    "gte",
    "lte",
    "exists",
    "not_exists",
]


class FilterRule(Body):
    """One comparison. `exists` and `not_exists` take no value."""

    field: RuleField
    operator: Operator
    value: Annotated[str, Field(max_length=_VALUE_CHARS_MAX)] | int | float | bool | None = Field(
        None, description="A text or a number; `regex` takes an RE2 pattern."
    )

    @model_validator(mode="after")
    def _check_value(self) -> "FilterRule":
        if self.operator in _WITHOUT_VALUE:
            return self
        if self.value is None:
            raise PydanticCustomError("no_value", "Invalid input: this operator takes a value")
        if self.operator in _NUMERIC and _as_number(self.value) is None:
            raise PydanticCustomError("no_number", "Invalid input: this operator takes a number")
        if self.operator == "regex":
            try:
                check_pattern(str(self.value))
            except InvalidPattern as error:
                raise PydanticCustomError(
                    "pattern", "Invalid input: {text}", {"text": str(error)}
                ) from None
        return self


class FilterGroup(Body):
    """Rules that are joined by one word."""

    logic: Literal["and", "or"]
    rules: list[FilterRule] = Field(min_length=1, max_length=_RULES_MAX)


class FilterRules(Body):
    """Groups that all have to hold."""

    enabled: bool = True
    groups: list[FilterGroup] = Field(min_length=1, max_length=_GROUPS_MAX)


def passes_filter(rules: Mapping[str, Any] | None, facts: Mapping[str, Any]) -> bool:
    """Whether a generation passes checked rules. `facts` has its value for each field, None where
    it has none."""
    if rules is None or not rules["enabled"]:
        return True
    for group in rules["groups"]:
        join = all if group["logic"] == "and" else any
        if not join(
            _passes_rule(facts.get(rule["field"]), rule["operator"], rule["value"])
            for rule in group["rules"]
        ):
            return False
    return True


def reads_content(rules: Mapping[str, Any] | None) -> bool:
    """Whether checked rules look at prompts or answers."""
    if rules is None or not rules["enabled"]:
        return False
    return any(
        rule["field"] in _CONTENT_FIELDS for group in rules["groups"] for rule in group["rules"]
    )


def _passes_rule(found: object, operator: str, value: object) -> bool:
    """An absent value equals nothing, contains nothing, and is neither more nor less."""
    is_there = found is not None and found != ""
    if operator in _WITHOUT_VALUE:
        return is_there == (operator == "exists")
    if operator in {"not_equals", "not_contains"}:
        return not _passes_rule(found, operator.removeprefix("not_"), value)
    if not is_there:
        return False
    if operator in _NUMERIC:
        left, right = _as_number(found), _as_number(value)
        return left is not None and right is not None and _COMPARISONS[operator](left, right)
    if operator == "equals" and isinstance(found, int | float):
        return _as_number(value) == found
    return _TEXT_TESTS[operator](str(found), str(value))


def _as_number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _matches(text: str, pattern: str) -> bool:
    raw = text.encode("utf-8", "replace")
    return CompiledPattern(pattern).find(raw, 0, len(raw)) is not None


_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "gt": lambda left, right: left > right,
    "lt": lambda left, right: left < right,
    "gte": lambda left, right: left >= right,
    "lte": lambda left, right: left <= right,
}
_TEXT_TESTS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "equals": lambda text, value: text == value,
    "contains": lambda text, value: value in text,
    "starts_with": lambda text, value: text.startswith(value),
    "ends_with": lambda text, value: text.endswith(value),
    "regex": _matches,
}
