"""Guardrails and their assignments: the fields of bodies and objects."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from accounts.guard_rules import ZDR_GROUPS
from accounts.limit_words import ManagedBody, ManagedChanges
from accounts.models import Guardrail, GuardrailKey, GuardrailMember
from accounts.patterns import PATTERN_CHARS_MAX, InvalidPattern, check_pattern, is_quick_to_compile
from accounts.ports import higher_apps
from accounts.views.schemas.external_guards import (
    DecisionGuard,
    ModerationGuard,
    NewGuards,
    resolve_guards,
)
from accounts.views.schemas.fields import (
    ENFORCEMENT,
    Enforcement,
    Id,
    PositiveUsd,
    ResetInterval,
    UserId,
    drop_repetitions,
    find_models,
    nano_or_none,
)
from gateway.eventloop import run_in_thread
from gateway.http.errors import SchemaInvalid
from gateway.http.jsonio import JsonObject, usd
from gateway.http.resources import ResourceObject
from gateway.http.validation import Issue

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


def _check_provider(name: str) -> str:
    if "/" in name:
        raise PydanticCustomError("slug", "Invalid input: expected a provider, not an endpoint")
    return name


_Name = Annotated[str, Field(min_length=1, max_length=200)]
_Slug = Annotated[str, Field(min_length=1, max_length=200)]
_Models = Annotated[
    Annotated[list[_Slug], Field(min_length=1)] | None, AfterValidator(drop_repetitions)
]
_Providers = (
    Annotated[list[Annotated[_Slug, AfterValidator(_check_provider)]], Field(min_length=1)] | None
)
_Regions = Annotated[
    Annotated[list[Literal["global", "europe", "us"]], Field(min_length=1)] | None,
    AfterValidator(drop_repetitions),
]
_Action = Literal["redact", "block", "flag"]


class ContentFilter(ManagedBody):
    """A pattern, and what happens to texts that it is found in."""

    pattern: str = Field(
        min_length=1,
        max_length=PATTERN_CHARS_MAX,
        description="RE2: no lookaround, no backreferences, no nested endless repetition.",
    )
    action: _Action
    label: Annotated[str, Field(max_length=100)] | None = None


class NewBuiltinOutputFilter(ManagedBody):
    """A filter of the gateway's own, and what happens to answers that it is found in."""

    slug: Literal[
        "email",
        "phone",
        "ssn",
        "credit-card",
        "ip-address",
        "person-name",
        "address",
        "regex-prompt-injection",
    ]
    action: _Action


class NewBuiltinContentFilter(NewBuiltinOutputFilter):
    """A filter of the gateway's own, and what happens to texts that it is found in."""

    scan_scope: Literal["user_only", "all_messages"] = "all_messages"


class BuiltinContentFilter(NewBuiltinContentFilter, ResourceObject):
    """A filter of the gateway's own, with its label."""

    label: str = Field(json_schema_extra={"enum": list(BUILTIN_LABELS.values())})


class BuiltinOutputFilter(NewBuiltinOutputFilter, ResourceObject):
    """A filter of answers of the gateway's own, with its label."""

    label: str = Field(json_schema_extra={"enum": list(BUILTIN_LABELS.values())})


class _Settings(BaseModel):
    """What may be set, in the order in which it is refused."""

    name: _Name
    description: Annotated[str, Field(max_length=1000)] | None = None
    limit_usd: PositiveUsd | None = Field(
        None,
        description="What each holder may spend in an interval, at most 9 decimal places. "
        "Comes with `reset_interval`.",
    )
    reset_interval: ResetInterval | None = None
    budget_enforcement: Enforcement = Field("block", description=ENFORCEMENT)
    include_byok_in_budgets: bool = False
    allowed_models: _Models = Field(
        None, description="Canonical slugs of known models; others are filtered out."
    )
    ignored_models: _Models = Field(
        None, description="Canonical slugs of known models that are filtered out."
    )
    allowed_providers: _Providers = Field(
        None, description="Slugs of providers; others are filtered out."
    )
    ignored_providers: _Providers = Field(
        None, description="Slugs of providers that are filtered out."
    )
    enforce_zdr: bool | None = Field(
        None, description="Deprecated: fills those of the five that are not given."
    )
    enforce_zdr_anthropic: bool | None = None
    enforce_zdr_openai: bool | None = None
    enforce_zdr_google: bool | None = None
    enforce_zdr_xai: bool | None = None
    enforce_zdr_other: bool | None = None
    enable_paid_model_training: bool | None = Field(
        None, description="False removes endpoints that cost something and train on prompts."
    )
    enable_free_model_training: bool | None = Field(
        None, description="False removes endpoints that cost nothing and train on prompts."
    )
    enable_free_model_publication: bool | None = Field(
        None, description="False removes endpoints that cost nothing and publish prompts."
    )
    content_filters: list[ContentFilter] | None = None
    content_filter_builtins: list[NewBuiltinContentFilter] | None = None
    allowed_data_regions: _Regions = Field(None, description="Where requests may come in.")
    output_filters: list[ContentFilter] | None = Field(
        None, description="Patterns in what models say, and in the arguments of tools they call."
    )
    output_filter_builtins: list[NewBuiltinOutputFilter] | None = None
    output_shadow: bool = Field(
        False, description="Output filters change nothing, and count what they would have done."
    )
    enforce_schema: bool = Field(
        False,
        description="Whole answers that do not fit the JSON schema of their request are mended, or "
        "asked for once more; both calls are charged.",
    )
    external_guards: NewGuards = Field(None, description="Who else looks at texts, each kind once.")


class NewGuardrail(ManagedBody, _Settings):
    """What a new guardrail is made of."""

    workspace_id: Id | None = Field(None, description="The default workspace if absent.")


class GuardrailChanges(ManagedChanges, _Settings):
    """What may change of a guardrail; what is left out stays."""

    name: _Name = ""


class _Identified(ResourceObject):
    id: UUID


class GuardrailObject(_Settings, _Identified):
    """What requests are held to; null limits nothing."""

    model_config = ConfigDict(title="Guardrail")

    content_filter_builtins: list[BuiltinContentFilter] | None  # type: ignore[assignment]  # Answers add the label.
    output_filter_builtins: list[BuiltinOutputFilter] | None  # type: ignore[assignment]  # Likewise they add the label.
    external_guards: (
        list[Annotated[ModerationGuard | DecisionGuard, Field(discriminator="kind")]] | None
    )  # type: ignore[assignment]  # All their fields are there.
    workspace_id: UUID
    created_at: datetime
    updated_at: datetime | None = Field(description="Null until the first change.")


class _Assignment(ResourceObject):
    id: UUID
    guardrail_id: UUID


class GuardrailKeyAssignment(_Assignment):
    """A key that a guardrail governs."""

    key_hash: str
    key_name: str
    key_label: str
    assigned_by: UserId | None
    created_at: datetime


class GuardrailMemberAssignment(_Assignment):
    """A member whose keys a guardrail governs."""

    user_id: str
    organization_id: UUID
    assigned_by: UserId | None
    created_at: datetime


class GuardrailKeyHashes(ManagedBody):
    """Keys of the account."""

    key_hashes: Annotated[list[str], Field(min_length=1), AfterValidator(drop_repetitions)]


class GuardrailMemberIds(ManagedBody):
    """Members of the account."""

    member_user_ids: Annotated[list[str], Field(min_length=1), AfterValidator(drop_repetitions)]


def read_new_guardrail(body: Mapping[str, Any]) -> tuple[UUID | None, JsonObject]:
    """The workspace named and the columns of a new guardrail. Raises `SchemaInvalid`."""
    fields = NewGuardrail.read(body).given_fields()
    return fields.pop("workspace_id", None), _columns(fields)


def read_guardrail_changes(body: Mapping[str, Any]) -> JsonObject:
    """The columns to change and their values. Raises `SchemaInvalid`, and where there are none."""
    return _columns(GuardrailChanges.read_changes(body))


def serialize_guardrail(row: Guardrail) -> JsonObject:
    """The JSON of a `GuardrailObject`."""
    # The older field that stood for all model groups; null where they differ.
    zdr = {getattr(row, field) for field in _ZDR_FIELDS}
    return GuardrailObject.from_row(
        row,
        limit_usd=None if row.limit_nano is None else usd(row.limit_nano),
        enforce_zdr=zdr.pop() if len(zdr) == 1 else None,
        content_filter_builtins=_label_builtins(row.content_filter_builtins),
        output_filter_builtins=_label_builtins(row.output_filter_builtins),
    )


def _label_builtins(builtins: list[JsonObject] | None) -> list[JsonObject] | None:
    return builtins and [{**each, "label": BUILTIN_LABELS[each["slug"]]} for each in builtins]


def serialize_key_assignment(row: GuardrailKey) -> JsonObject:
    """The JSON of a `GuardrailKeyAssignment`."""
    key = row.api_key
    return GuardrailKeyAssignment.from_row(
        row,
        key_hash=key.hash,
        key_name=key.name,
        key_label=key.label,
        assigned_by=row.assigned_by.public_id if row.assigned_by else None,
    )


def serialize_member_assignment(row: GuardrailMember) -> JsonObject:
    """The JSON of a `GuardrailMemberAssignment`."""
    return GuardrailMemberAssignment.from_row(
        row,
        user_id=row.membership.user.public_id,
        organization_id=str(row.membership.account_id),
        assigned_by=row.assigned_by.public_id if row.assigned_by else None,
    )


class InvalidRegexPattern(SchemaInvalid):
    """A content filter whose pattern no guardrail may have."""

    def __init__(self, issues: list[Issue]) -> None:
        super().__init__(issues)
        self.metadata["reason"] = "invalid_regex_pattern"


def read_filters(field: str, filters: object) -> Any:
    """One of the lists of filters, checked and with its defaults. Raises `SchemaInvalid`."""
    return GuardrailChanges.read({field: filters}).given_fields()[field]


def check_patterns(field: str, filters: list[JsonObject] | None) -> None:
    """Of one of the lists of patterns. Raises `InvalidRegexPattern`."""
    patterns = [each["pattern"] for each in filters or ()]
    if is_quick_to_compile(patterns):
        issues = _pattern_issues(field, patterns)
    else:
        issues = run_in_thread(lambda: _pattern_issues(field, patterns))
    if issues:
        raise InvalidRegexPattern(issues)


def _pattern_issues(field: str, patterns: list[str]) -> list[Issue]:
    issues = []
    for index, pattern in enumerate(patterns):
        try:
            check_pattern(pattern)
        except InvalidPattern as error:
            path = f"{field}.{index}.pattern"
            issues.append(Issue(path, f"Invalid regular expression: {error}"))
    return issues


def _columns(fields: JsonObject) -> JsonObject:
    """The given fields as columns, models and providers in canonical slugs, each once.

    A model must be known. A provider need not be: one that is not serves nothing (yet). Raises
    `SchemaInvalid`.
    """
    for field in ("content_filters", "output_filters"):
        check_patterns(field, fields.get(field))
    columns, issues = dict(fields), list[Issue]()
    for field in _MODEL_LISTS:
        if names := fields.get(field):
            columns[field], wrong = find_models(field, names)
            issues += wrong
    for field in _PROVIDER_LISTS:
        if names := fields.get(field):
            slugs = higher_apps().find_provider_slugs(names)
            columns[field] = drop_repetitions([slugs.get(name, name.casefold()) for name in names])
    if issues:
        raise SchemaInvalid(issues)
    if fields.get("external_guards"):
        columns["external_guards"] = resolve_guards("external_guards", fields["external_guards"])
    if "limit_usd" in columns:
        columns["limit_nano"] = nano_or_none(columns.pop("limit_usd"))
    if "enforce_zdr" in columns:
        columns = dict.fromkeys(_ZDR_FIELDS, columns.pop("enforce_zdr")) | columns
    return columns
