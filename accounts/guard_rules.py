"""The guardrails of a key: which ones govern it, their rules combined, and the budgets they set.

Each of several guardrails narrows what the others leave, whatever their order: allowed lists are
intersected, ignored ones united, and the strictest data policy counts. So one more of them never
lets a request go where it could not go before.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q

from accounts.external_guards import ExternalGuard, read_external_guards
from accounts.models import Guardrail, GuardrailKey, GuardrailMember
from accounts.models.guardrail import living_assignments
from accounts.spending import SpendScope, WindowName, format_guardrail_scope_id
from gateway.database.compiled_queries import CompiledQuery
from gateway.http.jsonio import JsonObject

Scope = Literal["account", "workspace", "member", "key"]
Action = Literal["redact", "block", "flag"]

# A model belongs to the group of its author; all other models to the last one.
ZDR_GROUPS: Final = ("anthropic", "openai", "google", "xai", "other")
# What may become of data at an endpoint, each by the field that forbids it.
USES: Final = {
    "enable_paid_model_training": "paid training",
    "enable_free_model_training": "free training",
    "enable_free_model_publication": "free publication",
}


class FilterEntry(NamedTuple):
    """A content filter. `builtin` is a slug, empty for a pattern of the guardrail's own, which may
    have a `label`. `user_only` keeps it to what users say. With `shadow` it only counts what that
    action would have been done to."""

    action: Action
    builtin: str = ""
    pattern: str = ""
    label: str = ""
    user_only: bool = False
    shadow: Action | Literal[""] = ""


@dataclass(frozen=True, slots=True)
class GuardrailEntry:
    """One guardrail as it applies to a key. `id` is None for the account's own policy, and for the
    key's own list of models.

    None allows everything. `zdr` are the model groups held to zero data retention, `forbidden_uses`
    words of `USES`. Models are canonical slugs.
    """

    scope: Scope
    id: UUID | None = None
    allowed_models: frozenset[str] | None = None
    ignored_models: frozenset[str] = frozenset()
    allowed_providers: frozenset[str] | None = None
    ignored_providers: frozenset[str] = frozenset()
    regions: frozenset[str] | None = None
    zdr: frozenset[str] = frozenset()
    denies_collection: bool = False
    forbidden_uses: frozenset[str] = frozenset()
    filters: tuple[FilterEntry, ...] = ()
    output_filters: tuple[FilterEntry, ...] = ()
    enforces_schema: bool = False
    external_guards: tuple[ExternalGuard, ...] = ()


class CatalogueRules(NamedTuple):
    """What all guardrails together leave of the catalogue; see `GuardrailEntry`."""

    allowed_models: frozenset[str] | None = None
    ignored_models: frozenset[str] = frozenset()
    allowed_providers: frozenset[str] | None = None
    ignored_providers: frozenset[str] = frozenset()
    regions: frozenset[str] | None = None
    zdr: frozenset[str] = frozenset()
    denies_collection: bool = False
    forbidden_uses: frozenset[str] = frozenset()


class GuardrailFilter(NamedTuple):
    """A content filter and the guardrail that it is of."""

    filter: FilterEntry
    scope: Scope
    guardrail_id: UUID | None


class PlacedGuard(NamedTuple):
    """An external guard and the guardrail that it is of."""

    guard: ExternalGuard
    scope: Scope
    guardrail_id: UUID | None


class Guard(NamedTuple):
    """All guardrails of a key as one."""

    rules: CatalogueRules
    filters: tuple[GuardrailFilter, ...] = ()
    # Those of answers.
    output_filters: tuple[GuardrailFilter, ...] = ()
    # Whether structured answers are held to the schema of their request.
    enforces_schema: bool = False
    external_guards: tuple[PlacedGuard, ...] = ()

    def admits(self, region: str) -> bool:
        """Whether requests may come in through hosts of this data region."""
        return self.rules.regions is None or region in self.rules.regions


NO_RULES: Final = CatalogueRules()


def combine_guardrails(entries: Iterable[GuardrailEntry]) -> Guard | None:
    """What they come to together; None where they say nothing about a request."""
    choice, filters, of_answers = NO_RULES, list[GuardrailFilter](), list[GuardrailFilter]()
    enforces_schema, guards = False, list[PlacedGuard]()
    for entry in entries:
        guards += [PlacedGuard(each, entry.scope, entry.id) for each in entry.external_guards]
        enforces_schema |= entry.enforces_schema
        choice = narrow_rules(choice, entry)
        filters += [GuardrailFilter(each, entry.scope, entry.id) for each in entry.filters]
        of_answers += [
            GuardrailFilter(each, entry.scope, entry.id) for each in entry.output_filters
        ]
    guard = Guard(choice, tuple(filters), tuple(of_answers), enforces_schema, tuple(guards))
    return None if guard == Guard(NO_RULES) else guard


def narrow_rules(choice: CatalogueRules, entry: GuardrailEntry) -> CatalogueRules:
    """The choice with one more guardrail."""
    return CatalogueRules(
        allowed_models=_intersect(choice.allowed_models, entry.allowed_models),
        ignored_models=choice.ignored_models | entry.ignored_models,
        allowed_providers=_intersect(choice.allowed_providers, entry.allowed_providers),
        ignored_providers=choice.ignored_providers | entry.ignored_providers,
        regions=_intersect(choice.regions, entry.regions),
        zdr=choice.zdr | entry.zdr,
        denies_collection=choice.denies_collection or entry.denies_collection,
        forbidden_uses=choice.forbidden_uses | entry.forbidden_uses,
    )


def _intersect(
    first: frozenset[str] | None, second: frozenset[str] | None
) -> frozenset[str] | None:
    """What both lists have; no list has everything."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


# --- Rows as entries ------------------------------------------------------------------------------


def build_account_entry(account: Any) -> GuardrailEntry | None:
    """The account's own policy, but for its lists of providers, which requests' own lists are
    combined with. None where it says nothing."""
    denies = account.data_collection == "deny"
    entry = GuardrailEntry(
        scope="account",
        allowed_models=_read_allowed(account.allowed_models),
        zdr=frozenset(ZDR_GROUPS) if account.zdr else frozenset(),
        denies_collection=denies,
    )
    return None if entry == GuardrailEntry(scope="account") else entry


def build_entry(guardrail: Any, scope: Scope) -> GuardrailEntry:
    """A guardrail's row as it applies to a key in that scope."""
    forbidden = [word for field, word in USES.items() if getattr(guardrail, field) is False]
    zdr = [group for group in ZDR_GROUPS if getattr(guardrail, f"enforce_zdr_{group}")]
    output_filters = (
        *_read_pattern_filters(guardrail.output_filters),
        *_read_builtin_filters(guardrail.output_filter_builtins),
    )
    if guardrail.output_shadow:
        output_filters = tuple(
            each._replace(action="flag", shadow=each.action) for each in output_filters
        )
    return GuardrailEntry(
        scope=scope,
        id=guardrail.pk,
        allowed_models=_read_allowed(guardrail.allowed_models),
        ignored_models=frozenset(guardrail.ignored_models or ()),
        allowed_providers=_read_allowed(guardrail.allowed_providers),
        ignored_providers=frozenset(guardrail.ignored_providers or ()),
        regions=_read_allowed(guardrail.allowed_data_regions),
        zdr=frozenset(zdr),
        forbidden_uses=frozenset(forbidden),
        filters=(
            *_read_pattern_filters(guardrail.content_filters),
            *_read_builtin_filters(guardrail.content_filter_builtins),
        ),
        output_filters=output_filters,
        enforces_schema=guardrail.enforce_schema,
        external_guards=read_external_guards(guardrail.external_guards),
    )


def _read_allowed(words: list[str] | None) -> frozenset[str] | None:
    """Callers cannot write an empty list; in the tables it allows everything too."""
    return frozenset(words) if words else None


def _read_pattern_filters(filters: list[JsonObject] | None) -> list[FilterEntry]:
    return [
        FilterEntry(each["action"], pattern=each["pattern"], label=each.get("label") or "")
        for each in filters or ()
    ]


def _read_builtin_filters(filters: list[JsonObject] | None) -> list[FilterEntry]:
    return [
        FilterEntry(
            each["action"],
            builtin=each["slug"],
            user_only=each.get("scan_scope") == "user_only",
        )
        for each in filters or ()
    ]


_WINDOWS: dict[str, WindowName] = {"daily": "day", "weekly": "week", "monthly": "month"}


class AppliedGuardrail(NamedTuple):
    """A guardrail and how it comes to govern a key."""

    guardrail: Guardrail
    scope: Scope


def match_guardrails() -> Any:
    """Of a key, in a query for keys: whether any guardrail governs it. Management keys, which are
    of no workspace, send no requests."""
    default = Guardrail.objects.filter(workspace=OuterRef("workspace"), is_default=True)
    own = living_assignments(GuardrailKey.objects.filter(api_key=OuterRef("pk")))
    members = living_assignments(
        GuardrailMember.objects.filter(
            membership__account=OuterRef("account"), membership__user=OuterRef("creator")
        )
    )
    found = Q(Exists(default)) | Q(Exists(own)) | Q(Exists(members))
    sends = Q(workspace__isnull=False)
    return ExpressionWrapper(sends & found, output_field=BooleanField())


def load_applied_guardrails(key: Any) -> list[AppliedGuardrail]:
    """The guardrails that govern a key, in one query: its workspace's default one, its creator's,
    its own."""
    rows = _query_guardrails(
        account=key.account_id, creator=key.creator_id, key=key.pk, workspace=key.workspace_id
    )
    found: dict[Scope, list[AppliedGuardrail]] = {"workspace": [], "member": [], "key": []}
    for row in rows:
        if row.is_default and row.workspace_id == key.workspace_id:
            found["workspace"].append(AppliedGuardrail(row, "workspace"))
        if row.of_member:
            found["member"].append(AppliedGuardrail(row, "member"))
        if row.of_key:
            found["key"].append(AppliedGuardrail(row, "key"))
    return [*found["workspace"], *found["member"], *found["key"]]


def _select_guardrails(account: UUID, creator: int, key: int, workspace: UUID) -> Any:
    member = Q(
        member_assignments__membership__account=account,
        member_assignments__membership__user=creator,
    )
    of_member = Guardrail.objects.filter(member).values("pk")
    of_key = Guardrail.objects.filter(key_assignments__api_key=key).values("pk")
    default = Guardrail.objects.filter(workspace=workspace, is_default=True).values("pk")
    return Guardrail.objects.filter(
        Q(pk__in=default) | Q(pk__in=of_member) | Q(pk__in=of_key)
    ).annotate(
        of_member=Exists(of_member.filter(pk=OuterRef("pk"))),
        of_key=Exists(of_key.filter(pk=OuterRef("pk"))),
    )


_query_guardrails: CompiledQuery[Any] = CompiledQuery(
    _select_guardrails, account=UUID, creator=int, key=int, workspace=UUID
)


def build_entries(key: Any, governing: Iterable[AppliedGuardrail]) -> tuple[GuardrailEntry, ...]:
    """What governs a key, its account's policy first, its own list of models last."""
    account = build_account_entry(key.account)
    rows = [build_entry(each.guardrail, each.scope) for each in governing]
    if key.allowed_models:
        models = _read_allowed(key.allowed_models)
        rows.append(GuardrailEntry(scope="key", allowed_models=models))
    return tuple(rows) if account is None else (account, *rows)


def build_guardrail_scopes(
    key: Any, governing: Iterable[AppliedGuardrail]
) -> tuple[SpendScope, ...]:
    """The guardrail budgets of a key, in the order in which they are checked.

    First the workspace's default guardrail, against the member and then against the key; then the
    member's own, and the key's own.
    """
    scopes = []
    for guardrail, scope in governing:
        if guardrail.limit_nano is None:
            continue
        if scope != "key" and key.creator_id is not None:
            scopes.append(build_guardrail_scope(guardrail, user=key.creator_id))
        if scope != "member":
            scopes.append(build_guardrail_scope(guardrail, key=key.pk))
    return tuple(scopes)


def build_guardrail_scope(
    guardrail: Any, *, key: int | None = None, user: int | None = None
) -> SpendScope:
    """The budget of a guardrail as one of its holders has it."""
    return SpendScope(
        scope="guardrail",
        scope_id=format_guardrail_scope_id(guardrail.pk, key=key, user=user),
        window=_WINDOWS[guardrail.reset_interval],
        limit_nano=guardrail.limit_nano,
        counts_byok=guardrail.include_byok_in_budgets,
        workspace=guardrail.workspace_id.hex if guardrail.is_default else "",
        is_enforced=guardrail.budget_enforcement == "block",
    )
