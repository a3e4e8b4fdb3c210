"""Keys that members make: what their workspace gives these, and allows them at most.

People who decide over keys of others there, such as its leads, admins and operators, are held to
nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import Exists, OuterRef

from accounts.models import Membership, User, Workspace, WorkspaceMembership
from accounts.roles import Action, list_account_roles, list_workspace_roles
from gateway.http.jsonio import JsonObject, format_usd
from gateway.http.validation import Issue
from gateway.limits.rules import FIELDS

# What is bounded of a key.
COLUMNS: Final = ("limit_nano", "limit_reset", "allowed_models", "rate_limits")
# Windows of which each contains whole ones of the first: no more can be spent in these.
_WIDER: Final[Mapping[str | None, tuple[str | None, ...]]] = {
    "daily": ("daily", "weekly", "monthly", None),
    "weekly": ("weekly", None),
    "monthly": ("monthly", None),
    None: (None,),
}


class BoundKey(NamedTuple):
    """What a key gets of what was wanted, as columns, and where that was more than it may have."""

    fields: JsonObject
    issues: list[Issue]


def bound_key(workspace_id: UUID, creator_id: int | None, wanted: Mapping[str, Any]) -> BoundKey:
    """The `COLUMNS` of a key of that creator. What is not wanted is as the workspace says."""
    fields, issues = dict(wanted), list[Issue]()
    most = None if creator_id is None else _find_limits(workspace_id, creator_id)
    if most is None:
        return BoundKey(fields, issues)
    if most["limit_nano"] is not None:
        fields |= _bound_limit(most["limit_nano"], most["limit_reset"], wanted, issues)
    if most["allowed_models"] is not None:
        names = wanted.get("allowed_models") or most["allowed_models"]
        fields["allowed_models"] = [each for each in names if each in most["allowed_models"]]
        if beyond := [each for each in names if each not in most["allowed_models"]]:
            text = f"Members' keys may not ask for {beyond[0]} in this workspace"
            issues.append(Issue("allowed_models", text))
            fields["allowed_models"] = fields["allowed_models"] or most["allowed_models"]
    if most["rate_limits"] is not None:
        rates = wanted.get("rate_limits") or ()
        fields["rate_limits"] = _bound_rates(most["rate_limits"], rates, issues)
    return BoundKey(fields, issues)


def describe_limit(limit_nano: int, limit_reset: str | None) -> str:
    """`5 USD daily`, or `5 USD in all`."""
    return f"{format_usd(limit_nano)} USD {limit_reset or 'in all'}"


def _find_limits(workspace_id: UUID, user_id: int) -> JsonObject | None:
    """What the workspace says of keys of this person; None of who decides over others' keys."""
    by_account = Membership.objects.filter(
        user=user_id,
        account=OuterRef("account"),
        role__in=list_account_roles(Action.OTHERS_KEYS),
    )
    inside = WorkspaceMembership.objects.filter(
        membership__user=user_id,
        workspace=OuterRef("pk"),
        role__in=list_workspace_roles(Action.OTHERS_KEYS),
    )
    operators = User.objects.filter(pk=user_id, is_staff=True)
    rows = Workspace.objects.filter(
        ~Exists(by_account), ~Exists(inside), ~Exists(operators), pk=workspace_id
    )
    return rows.values_list("member_key_limits", flat=True).first()


def _bound_limit(
    most_nano: int, reset: str | None, wanted: Mapping[str, Any], issues: list[Issue]
) -> JsonObject:
    limit_nano, limit_reset = wanted.get("limit_nano"), wanted.get("limit_reset")
    whole = {"limit_nano": most_nano, "limit_reset": reset}
    if limit_nano is None:
        return whole
    words = f"Members' keys have at most {describe_limit(most_nano, reset)} in this workspace"
    if limit_nano > most_nano:
        issues.append(Issue("limit", words))
    elif limit_reset not in _WIDER[reset]:
        issues.append(Issue("limit_reset", words))
    else:
        return {"limit_nano": limit_nano, "limit_reset": limit_reset}
    return whole


def _bound_rates(
    most: Sequence[JsonObject], wanted: Sequence[JsonObject], issues: list[Issue]
) -> list[JsonObject]:
    """All of the workspace's limits, or smaller ones of the same scope, and what else is wanted."""
    found = [dict(each) for each in wanted]
    for limit in most:
        same = next((each for each in found if each.get("scope") == limit.get("scope")), None)
        if same is None:
            found.append(dict(limit))
            continue
        for name in (name for name in FIELDS if name in limit):
            if same.get(name, limit[name]) > limit[name]:
                words = f"Members' keys have {name} of {limit[name]} at most in this workspace"
                issues.append(Issue(name, words))
            same[name] = min(same.get(name, limit[name]), limit[name])
        if "burst" in same:
            # It is a part of what a minute has, which may be less than the workspace says.
            same["burst"] = min(same["burst"], same["requests_per_minute"])
        if weights := limit.get("weights"):
            # Of two patterns the more specific one holds, so that any other weights might be less.
            if same.get("weights", weights) != weights:
                words = "Members' keys have the weights of models that the workspace says"
                issues.append(Issue("weights", words))
            same["weights"] = weights
    return found
