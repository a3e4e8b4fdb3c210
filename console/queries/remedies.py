"""Where somebody goes about a refused request: to the key, the budget, the guardrail or the credits
that refused it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from django.db.models import Q
from django.urls import reverse

from accounts.models import (
    ApiKey,
    Guardrail,
    GuardrailKey,
    GuardrailMember,
    Membership,
    Workspace,
)
from accounts.roles import Action
from console.queries.guardrail_actions import BLOCKED, GuardrailAction, name_guardrail
from console.scope import Scope
from routing.reports.models import FailedRequest


class Remedy(NamedTuple):
    """What can be done, and the page where; `address` is empty where the person may not open it."""

    text: str
    address: str = ""


class Refusal(NamedTuple):
    """A refused request with its key (None: it is gone), and what guardrails found in it."""

    record: FailedRequest
    key: ApiKey | None
    guarding: Sequence[GuardrailAction]


def list_remedies(refusal: Refusal, scope: Scope) -> list[Remedy]:
    """By the reason on record; none where nothing of the account's was in the way."""
    reason = refusal.record.reason
    find = _BY_REASON.get(reason)
    if find is None:
        find = _list_of_key if reason.startswith("key_") else None
    return list(find(refusal, scope)) if find else []


def _list_of_key(refusal: Refusal, scope: Scope) -> Iterator[Remedy]:
    key = refusal.key
    if key is None or key.deleted_at is not None:
        yield Remedy("The key is deleted: use another one", reverse("console:keys"))
        return
    yield Remedy(f"Look at the key {key.name}", reverse("console:key", args=[key.pk]))


def _list_of_workspace(refusal: Refusal, scope: Scope) -> Iterator[Remedy]:
    rows = Workspace.objects.filter(account=scope.account)
    row = rows.filter(pk__in=[refusal.record.workspace_id]).first()
    if row is None:
        return
    if scope.leads(row.pk):
        yield Remedy(f"Budgets of {row.name}", reverse("console:workspace", args=[row.pk]))
    else:
        yield Remedy(f"An admin of the account raises budgets of {row.name}")


def _list_of_guardrails(refusal: Refusal, scope: Scope) -> Iterator[Remedy]:
    """Those that are known to have acted, else all that govern the key."""
    named = {
        each.guardrail_id: each.name
        for each in refusal.guarding
        if each.guardrail_id and each.action == BLOCKED
    }
    if not named:
        rows = _find_governing(refusal, scope)
        named = {row.pk: name_guardrail(row) for row in rows if scope.leads(row.workspace_id)}
    for pk, name in named.items():
        yield Remedy(f"Look at the guardrail {name}", reverse("console:guardrail", args=[pk]))
    if refusal.record.reason == "guardrail" and scope.rules_account:
        yield Remedy("Look at the account's policy", reverse("console:settings"))
    elif not named:
        yield Remedy("Whoever leads the workspace can look at its guardrails")


def _find_governing(refusal: Refusal, scope: Scope) -> Sequence[Guardrail]:
    governs = Q(is_default=True, workspace=refusal.record.workspace_id)
    if (key := refusal.key) is not None:
        owner = Membership.objects.filter(account=scope.account, user=key.creator_id)
        governs |= Q(pk__in=GuardrailKey.objects.filter(api_key=key).values("guardrail"))
        held = GuardrailMember.objects.filter(membership__in=owner)
        governs |= Q(pk__in=held.values("guardrail"))
    rows = Guardrail.objects.filter(governs, workspace__account=scope.account)
    return list(rows.select_related("workspace").order_by("name", "pk"))


def _list_of_credits(refusal: Refusal, scope: Scope) -> Iterator[Remedy]:
    if scope.allows(Action.BILLING):
        yield Remedy("Look at the account's credits", reverse("console:credits"))
    else:
        yield Remedy("An admin of the account adds credits")


def _list_of_models(refusal: Refusal, scope: Scope) -> Iterator[Remedy]:
    yield Remedy("Choose another model", reverse("console:models"))


_BY_REASON: Final[Mapping[str, Callable[[Refusal, Scope], Iterator[Remedy]]]] = {
    "workspace_budget": _list_of_workspace,
    "end_user_budget": _list_of_workspace,
    "guardrail_budget": _list_of_guardrails,
    "guardrail": _list_of_guardrails,
    "content_filter": _list_of_guardrails,
    "credits": _list_of_credits,
    "unknown_model": _list_of_models,
    "model_unpriced": _list_of_models,
}
