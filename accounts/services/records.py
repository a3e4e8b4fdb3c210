"""Audit records, written in the transaction of the change that they describe.

    with transaction.atomic():
        before = read_fields(workspace, _FACTS)
        ...change and save it...
        record_row("workspace", actor, "updated", workspace, before, read_fields(workspace, _FACTS))

What is made has `before=None`, what is gone `after=None`. Where both are given only the fields that
differ are kept, and nothing is written where none does. The actor is `key_actor(caller)` in an API
view, `operator_actor(request.user)` in the admin and `command_actor("name")` in a command. The
request's address and agent are recorded by themselves. Recorded fields are public: never a key's
string, a credential or anything sealed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import models, transaction

from accounts.caller import Caller
from accounts.models import AuditRecord
from gateway.http.address import find_origin
from gateway.http.jsonio import JsonObject

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Actor:
    """Who changes something: an operator's user id, a management key's id, or a command's name."""

    operator_id: int | None = None
    management_key_id: int | None = None
    command: str = ""


def operator_actor(user: Any) -> Actor:
    """`request.user` of an admin page, which only lets in people who are logged in."""
    return Actor(operator_id=user.pk)


def key_actor(caller: Caller) -> Actor:
    return Actor(management_key_id=caller.key_id)


def command_actor(name: str) -> Actor:
    return Actor(command=name)


# Somebody with a shell on the gateway.
SYSTEM = command_actor("shell")


def read_fields(row: models.Model, fields: Iterable[str]) -> JsonObject:
    """These attributes of a row, by name."""
    return {name: getattr(row, name) for name in fields}


def record_change(
    *,
    by: Actor,
    action: str,
    object_type: str,
    object_id: object,
    account_id: UUID | None,
    before: Facts | None,
    after: Facts | None,
    at: datetime | None = None,
) -> AuditRecord | None:
    """Write the record of a change; None where before and after are the same."""
    assert transaction.get_connection().in_atomic_block, "a record belongs to its change"
    if before is not None and after is not None:
        moved = [name for name in after if before.get(name) != after[name]]
        if not moved:
            return None
        before = {name: before.get(name) for name in moved}
        after = {name: after[name] for name in moved}
    origin = find_origin()
    return AuditRecord.objects.create(
        at=at or datetime.now(UTC),
        account_id=account_id,
        operator_id=by.operator_id,
        management_key_id=by.management_key_id,
        command=by.command,
        action=action,
        object_type=object_type,
        object_id=str(object_id),
        before=before,
        after=after,
        address=origin and origin.address,
        agent=origin and origin.agent,
    )


def record_row(
    object_type: str,
    by: Actor,
    action: str,
    row: Any,
    before: Facts | None,
    after: Facts | None,
    *,
    account_id: UUID | None = None,
    at: datetime | None = None,
) -> None:
    """Write the record of a change to a row of the account, or of its workspace's account."""
    if account_id is None:
        account_id = row.account_id if hasattr(row, "account_id") else row.workspace.account_id
    record_change(
        by=by,
        action=action,
        object_type=object_type,
        object_id=row.pk,
        account_id=account_id,
        before=before,
        after=after,
        at=at,
    )
