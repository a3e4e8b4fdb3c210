"""The key of a person's playground, kept with their session.

The page's script calls the API with it as any program does. The string stands in no HTML. The
script asks for it, and the session has it sealed, so that all tabs use one until it is nearly over.
"""

from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.http import HttpRequest

from accounts.keystring import hash_key
from accounts.models import ApiKey, User, Workspace
from accounts.services.keys import PLAYGROUND_GRACE, change_key, issue_playground_key
from accounts.services.records import operator_actor
from console.scope import Scope
from gateway.sealing import UnsealError, seal, unseal

_KEPT: Final = "console_playground_keys"
_PURPOSE: Final = "console-playground-key"
# A string is given out as long as it works for longer than this.
_REST_MIN: Final = timedelta(minutes=5)


class PlaygroundKey(NamedTuple):
    """A key's string and until when it works."""

    string: str
    expires_at: datetime


def find_playground_key(
    request: HttpRequest, scope: Scope, workspace: Workspace, now: datetime
) -> PlaygroundKey:
    """The one in the session while it works, else a new one. Raises `PlaygroundDisabled`."""
    assert _REST_MIN < PLAYGROUND_GRACE
    kept = request.session.get(_KEPT, {})
    string = _unseal(kept.get(str(workspace.pk)), workspace, scope.user)
    if string is not None:
        hash_now = hash_key(string)
        rows = ApiKey.objects.usable(now + _REST_MIN).filter(hash=hash_now)
        key = rows.filter(playground_user=scope.user, workspace=workspace).first()
        if key is not None and key.expires_at is not None:
            return PlaygroundKey(string, key.expires_at)
    key, string = issue_playground_key(
        workspace=workspace,
        person=scope.user,
        creator=scope.user if scope.is_member else None,
        by=operator_actor(request.user),
        at=now,
    )
    assert key.expires_at is not None
    row = _name_row(workspace, scope.user)
    sealed = seal(string, purpose=_PURPOSE, row=row)
    request.session[_KEPT] = {**kept, str(workspace.pk): sealed}
    return PlaygroundKey(string, key.expires_at)


def end_playground_keys(request: HttpRequest, now: datetime) -> None:
    """End the strings of this session, as it ends. One that another session renewed lives on."""
    person: Any = request.user
    for workspace_id, sealed in request.session.get(_KEPT, {}).items():
        workspace = Workspace(pk=workspace_id)
        string = _unseal(sealed, workspace, person)
        if string is None:
            continue
        own = ApiKey.objects.usable(now).filter(hash=hash_key(string), playground_user=person)
        if own.exists():
            change_key(keys=own, changes={"expires_at": now}, by=operator_actor(person), at=now)


def _unseal(sealed: str | None, workspace: Workspace, person: User) -> str | None:
    if sealed is None:
        return None
    try:
        return unseal(sealed, purpose=_PURPOSE, row=_name_row(workspace, person))
    except UnsealError:
        return None


def _name_row(workspace: Workspace, person: User) -> str:
    return f"{person.pk}:{workspace.pk}"
