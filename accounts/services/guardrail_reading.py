"""Which guardrails govern a key, and the budgets they set it: what reading a caller needs."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q

from accounts.guard_rules import GuardrailEntry, Scope, build_account_entry, build_entry
from accounts.models import Guardrail, GuardrailKey, GuardrailMember
from accounts.models.guardrail import living_assignments
from accounts.spending import SpendScope, WindowName, format_guardrail_scope_id
from gateway.database.compiled_queries import CompiledQuery

_WINDOWS: dict[str, WindowName] = {"daily": "day", "weekly": "week", "monthly": "month"}
_SCOPES: tuple[Scope, ...] = ("workspace", "member", "key")


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
    return sorted(_yield_applied(key, rows), key=lambda each: _SCOPES.index(each.scope))


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


def _yield_applied(key: Any, rows: Iterable[Any]) -> Iterator[AppliedGuardrail]:
    for row in rows:
        if row.is_default and row.workspace_id == key.workspace_id:
            yield AppliedGuardrail(row, "workspace")
        if row.of_member:
            yield AppliedGuardrail(row, "member")
        if row.of_key:
            yield AppliedGuardrail(row, "key")


def build_entries(key: Any, governing: Iterable[AppliedGuardrail]) -> tuple[GuardrailEntry, ...]:
    """What governs a key, its account's policy first."""
    account = build_account_entry(key.account)
    rows = [build_entry(each.guardrail, each.scope) for each in governing]
    return tuple(rows) if account is None else (account, *rows)


def build_guardrail_scopes(
    key: Any, governing: Iterable[AppliedGuardrail]
) -> tuple[SpendScope, ...]:
    """The guardrail budgets of a key in the order in which they are looked at (management reference
    8.4): the workspace's default guardrail against the member, then against the key; the member's
    own; the key's own."""
    return tuple(scope for each in governing for scope in _yield_scopes(key, each))


def _yield_scopes(key: Any, governing: AppliedGuardrail) -> Iterator[SpendScope]:
    guardrail, scope = governing
    if guardrail.limit_nano is None:
        return
    if scope != "key" and key.creator_id is not None:
        yield build_guardrail_scope(guardrail, user=key.creator_id)
    if scope != "member":
        yield build_guardrail_scope(guardrail, key=key.pk)


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
    )
