"""Bodies of /guardrails (management reference 12.1)."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, TypeVar
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from accounts.guard_rules import ZDR_GROUPS
from accounts.limit_words import ManagedBody
from accounts.money import nano_of
from accounts.patterns import PATTERN_CHARS_MAX, InvalidPattern, check, compile_at_once
from accounts.ports.known_catalogue import canonical_models, canonical_providers
from gateway.http.errors import InvalidRequest, SchemaInvalid
from gateway.http.validation import UNDEFINED, Issue, issues_of, shortened
from gateway.turns import beside_the_loop

_B = TypeVar("_B", bound=BaseModel)
# What a redaction leaves in the text; callers read it as the built-in's label.
BUILTIN_LABELS: Final = {
    "email": "[EMAIL]",
    "phone": "[PHONE]",
    "ssn": "[SSN]",
    "credit-card": "[CREDIT_CARD]",
    "ip-address": "[IP_ADDRESS]",
    "person-name": "[PERSON_NAME]",
    "address": "[ADDRESS]",
    "regex-prompt-injection": "[PROMPT_INJECTION]",
}
_MODEL_LISTS: Final = ("allowed_models", "ignored_models")
_PROVIDER_LISTS: Final = ("allowed_providers", "ignored_providers")
_ZDR_FIELDS: Final = tuple(f"enforce_zdr_{group}" for group in ZDR_GROUPS)


def _number(value: Any) -> Any:
    """JSON numbers only: pydantic would read a decimal from a string or a boolean."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(repr(value))
    raise PydanticCustomError("float_type", "Input should be a valid number")


def _usd(value: Decimal) -> Decimal:
    try:
        nano_of(value)
    except ValueError:
        raise PydanticCustomError(
            "usd", "Invalid input: expected at most 9 decimal places and a billion USD"
        ) from None
    return value


def _each_once(names: list[str] | None) -> list[str] | None:
    return None if names is None else list(dict.fromkeys(names))


def _provider_slug(name: str) -> str:
    if "/" in name:
        raise PydanticCustomError("slug", "Invalid input: expected a provider, not an endpoint")
    return name


_Name = Annotated[str, Field(min_length=1, max_length=200)]
_Usd = Annotated[Decimal, BeforeValidator(_number), Field(gt=0), AfterValidator(_usd)]
_Slug = Annotated[str, Field(min_length=1, max_length=200)]
_Models = Annotated[list[_Slug], Field(min_length=1)] | None
_Providers = (
    Annotated[list[Annotated[_Slug, AfterValidator(_provider_slug)]], Field(min_length=1)] | None
)
_Action = Literal["redact", "block", "flag"]


class _Filter(ManagedBody):
    model_config = ConfigDict(strict=True, validate_default=True)

    pattern: Annotated[str, Field(min_length=1, max_length=PATTERN_CHARS_MAX)] = UNDEFINED  # type: ignore[assignment]  # So that a missing one is told in the words of a wrong one.
    action: _Action = UNDEFINED  # type: ignore[assignment]  # Likewise.
    label: Annotated[str, Field(max_length=100)] | None = None


class _Builtin(ManagedBody):
    model_config = ConfigDict(strict=True, validate_default=True)

    slug: Literal[
        "email",
        "phone",
        "ssn",
        "credit-card",
        "ip-address",
        "person-name",
        "address",
        "regex-prompt-injection",
    ] = UNDEFINED  # type: ignore[assignment]  # Likewise.
    action: _Action = UNDEFINED  # type: ignore[assignment]  # Likewise.
    scan_scope: Literal["user_only", "all_messages"] = "all_messages"


class _Changes(ManagedBody):
    """What may be said of a guardrail, in the order of its failures."""

    model_config = ConfigDict(strict=True)

    name: _Name = ""
    description: Annotated[str, Field(max_length=1000)] | None = None
    limit_usd: _Usd | None = None
    reset_interval: Literal["daily", "weekly", "monthly"] | None = None
    include_byok_in_budgets: bool = False
    allowed_models: Annotated[_Models, AfterValidator(_each_once)] = None
    ignored_models: Annotated[_Models, AfterValidator(_each_once)] = None
    allowed_providers: _Providers = None
    ignored_providers: _Providers = None
    enforce_zdr: bool | None = None
    enforce_zdr_anthropic: bool | None = None
    enforce_zdr_openai: bool | None = None
    enforce_zdr_google: bool | None = None
    enforce_zdr_xai: bool | None = None
    enforce_zdr_other: bool | None = None
    enable_paid_model_training: bool | None = None
    enable_free_model_training: bool | None = None
    enable_free_model_publication: bool | None = None
    content_filters: list[_Filter] | None = None
    content_filter_builtins: list[_Builtin] | None = None
    allowed_data_regions: Annotated[
        Annotated[list[Literal["global", "europe", "us"]], Field(min_length=1)] | None,
        AfterValidator(_each_once),
    ] = None


class _New(_Changes):
    model_config = ConfigDict(strict=True, validate_default=True)

    name: _Name = UNDEFINED  # type: ignore[assignment]  # Likewise.
    workspace_id: Annotated[UUID | None, Field(strict=False)] = None


class _Keys(ManagedBody):
    model_config = ConfigDict(strict=True, validate_default=True)

    key_hashes: Annotated[list[str], Field(min_length=1)] = UNDEFINED  # type: ignore[assignment]  # Likewise.


class _MemberIds(ManagedBody):
    model_config = ConfigDict(strict=True, validate_default=True)

    member_user_ids: Annotated[list[str], Field(min_length=1)] = UNDEFINED  # type: ignore[assignment]  # Likewise.


def read_new_guardrail(body: Mapping[str, Any]) -> tuple[UUID | None, dict[str, Any]]:
    """The workspace named and the columns of a new guardrail. Raises `SchemaInvalid`."""
    said = _said(_New, body)
    return said.pop("workspace_id", None), _columns(said)


def read_changes(body: Mapping[str, Any]) -> dict[str, Any]:
    """The columns to change and their values. Raises `SchemaInvalid`, and where there are none."""
    changes = _said(_Changes, body)
    if not changes:
        raise InvalidRequest("No update fields provided")
    return _columns(changes)


def read_key_hashes(body: Mapping[str, Any]) -> list[str]:
    """Hashes of keys, each once. Raises `SchemaInvalid`."""
    return list(dict.fromkeys(_checked(_Keys, body).key_hashes))


def read_member_ids(body: Mapping[str, Any]) -> list[str]:
    """Public ids of users, each once. Raises `SchemaInvalid`."""
    return list(dict.fromkeys(_checked(_MemberIds, body).member_user_ids))


class InvalidRegexPattern(SchemaInvalid):
    """A content filter whose pattern no guardrail may have."""

    def __init__(self, issues: list[Issue]) -> None:
        super().__init__(issues)
        self.metadata["reason"] = "invalid_regex_pattern"


def read_filters(field: str, filters: Any) -> Any:
    """One of the two lists of filters, checked and in full. Raises `SchemaInvalid`."""
    return _said(_Changes, {field: filters})[field]


def check_patterns(filters: list[dict[str, Any]] | None) -> None:
    """Raises `InvalidRegexPattern`."""
    patterns = [each["pattern"] for each in filters or ()]
    if compile_at_once(patterns):
        issues = _pattern_issues(patterns)
    else:
        issues = beside_the_loop(lambda: _pattern_issues(patterns))
    if issues:
        raise InvalidRegexPattern(issues)


def _pattern_issues(patterns: list[str]) -> list[Issue]:
    issues = []
    for index, pattern in enumerate(patterns):
        try:
            check(pattern)
        except InvalidPattern as error:
            path = f"content_filters.{index}.pattern"
            issues.append(Issue(path, f"Invalid regular expression: {error}"))
    return issues


def canonical_lists(said: dict[str, Any]) -> dict[str, list[str]]:
    """The model and provider lists among what is said, in canonical slugs, each once.

    A model must be known. A provider need not be: one that is not serves nothing (yet). Raises
    `SchemaInvalid`.
    """
    lists: dict[str, list[str]] = {}
    issues: list[Issue] = []
    for field in _MODEL_LISTS:
        if names := said.get(field):
            known = canonical_models(names)
            issues += [
                Issue(f"{field}.{index}", f"{shortened(name)} is not a valid model ID")
                for index, name in enumerate(names)
                if name not in known
            ]
            lists[field] = [known.get(name, name) for name in names]
    for field in _PROVIDER_LISTS:
        if names := said.get(field):
            slugs = canonical_providers(names)
            lists[field] = [slugs.get(name, name.casefold()) for name in names]
    if issues:
        raise SchemaInvalid(issues)
    return {field: list(dict.fromkeys(names)) for field, names in lists.items()}


def _checked(shape: type[_B], body: Mapping[str, Any]) -> _B:
    try:
        return shape.model_validate(body)
    except ValidationError as error:
        raise SchemaInvalid(issues_of(error)) from None


def _said(shape: type[BaseModel], body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the body names; what is in a list is told in full."""
    checked = _checked(shape, body)
    return {
        name: each
        for name, each in checked.model_dump().items()
        if name in checked.model_fields_set
    }


def _columns(said: dict[str, Any]) -> dict[str, Any]:
    """What is said as the table has it."""
    check_patterns(said.get("content_filters"))
    columns = said | canonical_lists(said)
    if "limit_usd" in columns:
        limit = columns.pop("limit_usd")
        columns["limit_nano"] = None if limit is None else nano_of(limit)
    if "enforce_zdr" in columns:
        everywhere = columns.pop("enforce_zdr")
        columns = dict.fromkeys(_ZDR_FIELDS, everywhere) | columns
    return columns
