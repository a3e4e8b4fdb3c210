"""A request that the gateway refused, and where somebody goes about it: to the key, the budget, the
guardrail or the credits that refused it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from django.db.models import Q
from django.http import Http404
from django.shortcuts import get_object_or_404
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
from console.queries.explanation import Candidate, Explanation, list_candidates, read_explanation
from console.queries.guardrails import (
    BLOCKED,
    GuardrailAction,
    list_guardrail_actions,
    name_guardrail,
)
from console.queries.request_detail import read_text
from console.scope import Scope, widen_scope
from routing.reports.models import FailedRequest


class Remedy(NamedTuple):
    """What can be done, and the page where; `address` is empty where the person may not open it."""

    text: str
    address: str = ""


@dataclass(frozen=True)
class RefusedDetail:
    """A request that no upstream was asked for, with its key, and the endpoints of its plan."""

    record: FailedRequest
    key: ApiKey | None
    scope: Scope

    @cached_property
    def explanation(self) -> Explanation:
        return read_explanation(self.record.plan)

    @cached_property
    def candidates(self) -> list[Candidate]:
        return list_candidates(self.explanation)

    @cached_property
    def guarding(self) -> list[GuardrailAction]:
        return list_guardrail_actions(self.explanation.facts, self.scope)

    @cached_property
    def remedies(self) -> list[Remedy]:
        """By the reason on record; none where nothing of the account's was in the way."""
        reason = self.record.reason
        find = _BY_REASON.get(reason) or (_list_of_key if reason.startswith("key_") else None)
        return list(find(self)) if find else []

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What the caller was told beside the text."""
        return [(name.replace("_", " "), read_text(v)) for name, v in self.record.detail.items()]


def find_refused(seen: Scope, number: int) -> RefusedDetail:
    """The refused request of that number. Raises `Http404` where the person may not see it."""
    record = get_object_or_404(FailedRequest, pk=number)
    key = ApiKey.objects.filter(pk=record.api_key_id).select_related("creator").first()
    scope = widen_scope(seen, record.account_id)
    if not scope.covers(
        account_id=record.account_id,
        workspace_id=record.workspace_id,
        creator_id=key.creator_id if key else None,
    ):
        raise Http404
    return RefusedDetail(record, key, scope)


def _list_of_key(refused: RefusedDetail) -> Iterator[Remedy]:
    key = refused.key
    if key is None or key.deleted_at is not None:
        yield Remedy("The key is deleted: use another one", reverse("console:keys"))
        return
    yield Remedy(f"Look at the key {key.name}", reverse("console:key", args=[key.pk]))


def _list_of_workspace(refused: RefusedDetail) -> Iterator[Remedy]:
    rows = Workspace.objects.filter(account=refused.scope.account)
    row = rows.filter(pk__in=[refused.record.workspace_id]).first()
    if row is None:
        return
    if refused.scope.leads(row.pk):
        yield Remedy(f"Budgets of {row.name}", reverse("console:workspace", args=[row.pk]))
    else:
        yield Remedy(f"An admin of the account raises budgets of {row.name}")


def _list_of_guardrails(refused: RefusedDetail) -> Iterator[Remedy]:
    """Those that are known to have acted, else all that govern the key."""
    named = {
        each.guardrail_id: each.name
        for each in refused.guarding
        if each.guardrail_id and each.action == BLOCKED
    }
    scope = refused.scope
    if not named:
        governs = Q(is_default=True, workspace=refused.record.workspace_id)
        if (key := refused.key) is not None:
            owner = Membership.objects.filter(account=scope.account, user=key.creator_id)
            governs |= Q(pk__in=GuardrailKey.objects.filter(api_key=key).values("guardrail"))
            held = GuardrailMember.objects.filter(membership__in=owner)
            governs |= Q(pk__in=held.values("guardrail"))
        rows = Guardrail.objects.filter(governs, workspace__account=scope.account)
        rows = rows.select_related("workspace").order_by("name", "pk")
        named = {row.pk: name_guardrail(row) for row in rows if scope.leads(row.workspace_id)}
    for pk, name in named.items():
        yield Remedy(f"Look at the guardrail {name}", reverse("console:guardrail", args=[pk]))
    if refused.record.reason == "guardrail" and scope.rules_account:
        yield Remedy("Look at the account's policy", reverse("console:settings"))
    elif not named:
        yield Remedy("Whoever leads the workspace can look at its guardrails")


def _list_of_credits(refused: RefusedDetail) -> Iterator[Remedy]:
    if refused.scope.allows(Action.BILLING):
        yield Remedy("Look at the account's credits", reverse("console:credits"))
    else:
        yield Remedy("An admin of the account adds credits")


def _list_of_models(refused: RefusedDetail) -> Iterator[Remedy]:
    yield Remedy("Choose another model", reverse("console:models"))


_BY_REASON: Final[Mapping[str, Callable[[RefusedDetail], Iterator[Remedy]]]] = {
    "workspace_budget": _list_of_workspace,
    "end_user_budget": _list_of_workspace,
    "tag_budget": _list_of_workspace,
    "guardrail_budget": _list_of_guardrails,
    "guardrail": _list_of_guardrails,
    "content_filter": _list_of_guardrails,
    "credits": _list_of_credits,
    "unknown_model": _list_of_models,
    "model_unpriced": _list_of_models,
}
