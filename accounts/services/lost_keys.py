"""Keys that members made in workspaces where they may make none any more."""

from collections.abc import Iterable
from datetime import UTC, datetime
from uuid import UUID

from django.db.models import Q

from accounts.models import ApiKey, AuthorizationCode, Membership, Workspace, WorkspaceMembership
from accounts.roles import may_have_key
from accounts.services.keys import set_disabled
from accounts.services.records import Actor

# A workspace and a user.
Place = tuple[UUID, int]


def disable_lost_keys(rows: Iterable[WorkspaceMembership], by: Actor) -> None:
    """Disable those of these members, unless another role of theirs allows them."""
    places = [(row.workspace_id, row.membership.user_id) for row in rows]
    workspaces = Workspace.objects.in_bulk({workspace for workspace, _ in places})
    disable_keys([each for each in places if not may_have_key(each[1], workspaces[each[0]])], by)


def disable_lost_keys_of(membership: Membership, by: Actor) -> None:
    """Disable what this member made in workspaces of the account where they may have no key now."""
    user = membership.user_id
    made = ApiKey.objects.filter(creator=user, disabled=False)
    codes = AuthorizationCode.objects.filter(creator=user, used_at=None)
    workspaces = Workspace.objects.filter(
        Q(pk__in=made.values("workspace")) | Q(pk__in=codes.values("workspace")),
        account=membership.account_id,
    )
    disable_keys([(each.pk, user) for each in workspaces if not may_have_key(user, each)], by)


def disable_keys(places: Iterable[Place], by: Actor) -> None:
    """Disable what these users made in these workspaces, and spend the codes that they approved."""
    wanted = Q(pk__in=[])
    for workspace, user in places:
        wanted |= Q(workspace=workspace, creator=user)
    if wanted == Q(pk__in=[]):
        return
    set_disabled(keys=ApiKey.objects.filter(wanted, disabled=False), disabled=True, by=by)
    # A request that exchanges one holds it and waits for the account, to ask then what the creator
    # may.
    codes = AuthorizationCode.objects.filter(wanted, used_at=None)
    open_codes = codes.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True)
    AuthorizationCode.objects.filter(pk__in=list(open_codes)).update(used_at=datetime.now(UTC))
