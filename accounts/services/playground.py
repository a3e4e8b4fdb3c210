"""The keys with which playgrounds of the console make their requests: one for each person and
workspace, of a short life, with a new string whenever that is over."""

from datetime import datetime, timedelta
from typing import Final

from django.db import IntegrityError, transaction

from accounts.models import ApiKey, User, Workspace
from accounts.services.keys import change_key, create_key, rotate_key
from accounts.services.records import Actor
from gateway.http.errors import Conflict

LIFETIME: Final = timedelta(hours=1)
# Other tabs go on with the string of before for so long, and ask for the new one within it.
GRACE: Final = timedelta(minutes=10)


class PlaygroundDisabled(Conflict):
    message = (
        "The key of your playground in this workspace is disabled. "
        "Who leads the workspace can enable it on the page Keys."
    )


def issue_playground_key(
    *, workspace: Workspace, person: User, creator: User | None, by: Actor, at: datetime
) -> tuple[ApiKey, str]:
    """The key of that person's playground with a string that works for `LIFETIME`.

    `creator` is the person where they are a member of the account. Raises `PlaygroundDisabled`.
    """
    try:
        with transaction.atomic():
            return _renew_or_create(workspace, person, creator, by, at)
    except IntegrityError:
        # Another tab made it in the meantime.
        return _renew_or_create(workspace, person, creator, by, at)


def _renew_or_create(
    workspace: Workspace, person: User, creator: User | None, by: Actor, at: datetime
) -> tuple[ApiKey, str]:
    own = ApiKey.objects.filter(playground_user=person, workspace=workspace, deleted_at=None)
    key, expires_at = own.first(), at + LIFETIME
    if key is None:
        return create_key(
            account=workspace.account,
            name=f"Playground of {person.username}"[:100],
            workspace=workspace,
            creator=creator,
            playground_user=person,
            expires_at=expires_at,
            by=by,
        )
    if key.disabled:
        raise PlaygroundDisabled
    creator_id = creator.pk if creator else None
    if key.creator_id != creator_id:
        # An operator joined the account, or left it.
        change_key(keys=own, changes={"creator_id": creator_id}, by=by, at=at)
    grace_s = int(GRACE.total_seconds())
    return rotate_key(keys=own, grace_s=grace_s, expires_at=expires_at, by=by, at=at)
