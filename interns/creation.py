"""Create an intern once, however often the request is repeated.

The request, the intern and its vault are written in one transaction; only the queue comes after.
A repeated request goes on where the first one stopped.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final
from uuid import UUID, uuid4

from django.conf import settings
from django.db import IntegrityError, transaction

from accounts.caller import Caller
from accounts.models import Membership, Workspace
from gateway.database.db import Lane, run_queries
from gateway.http.jsonio import JsonObject, dumps
from interns import history, leases, operations
from interns.errors import (
    CreateKeyReused,
    InternConflict,
    InternForbidden,
    InternLimitReached,
    NameTaken,
    NoActingUser,
    SetupNotReady,
    UpstreamUnavailable,
    VaultNotAttachable,
)
from interns.hosts import place
from interns.leases import InternLease
from interns.machine import NOWHERE, MoveRule
from interns.models import Intern, InternCreation, LeaseKind, Status
from interns.vault.service import create_intern_vault, is_attachable

RETENTION: Final = timedelta(hours=24)
_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class NewIntern:
    """The fields of a create request."""

    name: str
    description: str = ""
    instructions: str | None = None
    provision: bool = False
    vault_id: UUID | None = None
    # The console names one; bodies of the API do so later.
    model: str | None = None

    def body_hash(self) -> str:
        """SHA-256 of the fields; the order and spaces of the body do not change it."""
        vault = None if self.vault_id is None else str(self.vault_id)
        fields = [self.name, self.description, self.instructions, self.provision, vault]
        return sha256(dumps([*fields, self.model] if self.model else fields)).hexdigest()


@dataclass(frozen=True, slots=True)
class _Preparation:
    """The row of a request and its intern. `lease` is of the provisioning to publish, `before` what
    is restored where the queue is out of reach."""

    creation: InternCreation
    intern: Intern
    lease: InternLease | None = None
    before: Intern | None = None
    is_new: bool = False


def create_intern(caller: Caller, fields: NewIntern, *, key: str | None) -> tuple[Intern, bool]:
    """The intern, and whether this request made it. `key` is the `Idempotency-Key`.

    Raises `NoActingUser`, `SetupNotReady`, and `InternConflict`.
    """
    if caller.creator_key is None:
        raise NoActingUser
    preparation = run_queries(Lane.OPERATOR, lambda: _prepare(caller, fields, key))
    if preparation.creation.finished_at is not None:
        return preparation.intern, preparation.is_new
    if preparation.lease is not None:
        assert preparation.before is not None
        try:
            operations.publish_or_undo(
                preparation.lease, preparation.before, history.describe_caller(caller)
            )
        except UpstreamUnavailable:
            raise SetupNotReady from None
    return run_queries(Lane.OPERATOR, lambda: _finish(preparation)), True


def delete_expired_creations(now: datetime) -> int:
    """Drop requests whose day is over. Returns how many."""
    old = InternCreation.objects.filter(expires_at__lte=now).values("pk")[:_BATCH]
    return InternCreation.objects.filter(pk__in=old).delete()[0]


def _prepare(caller: Caller, fields: NewIntern, key: str | None) -> _Preparation:
    """Write all rows in one transaction, before the message. A member's requests are serialized."""
    assert caller.workspace_id is not None
    now = datetime.now(UTC)
    with transaction.atomic():
        # The workspace is not deleted while the intern is being made.
        workspaces = Workspace.objects.select_for_update(no_key=True)
        members = Membership.objects.select_for_update(no_key=True)
        member = members.filter(account=caller.account_id, user=caller.creator_key)
        if workspaces.filter(pk=caller.workspace_id).values_list("pk").first() is None:
            raise InternForbidden
        if member.first() is None:
            raise InternForbidden
        # The request is named by its caller where a key came, else by what it says.
        named = f"key\n{key}" if key is not None else f"body\n{fields.body_hash()}"
        owner = f"{caller.workspace_id}\n{caller.creator_key}\n{named}"
        digest = sha256(owner.encode("utf-8", "surrogatepass")).digest()
        request_id = UUID(bytes=digest[:16])
        InternCreation.objects.filter(pk=request_id, expires_at__lte=now).delete()
        rows = InternCreation.objects.select_related("intern__workspace", "intern__vault")
        earlier = rows.filter(pk=request_id).first()
        if earlier is None:
            return _insert(caller, fields, request_id, now)
        if earlier.body_hash != fields.body_hash():
            raise CreateKeyReused
        return _resume(earlier, caller, now)


def _insert(caller: Caller, fields: NewIntern, request_id: UUID, now: datetime) -> _Preparation:
    _check_limits(caller, fields)
    waits = fields.provision and settings.INTERN_REQUIRE_SLACK_INSTALL
    starts = fields.provision and not waits
    intern, lease = _build_row(caller, fields, now, starts=starts)
    intern.provision_requested = waits
    try:
        with transaction.atomic():
            intern.save(force_insert=True)
    except IntegrityError:
        raise NameTaken from None
    vault = create_intern_vault(intern, at=now)
    intern.vault = vault
    rule = MoveRule.CREATED_AND_QUEUED if starts else MoveRule.CREATED
    rule = MoveRule.CREATED_TO_WAIT if waits else rule
    by = history.describe_caller(caller)
    history.record_move(intern, rule, NOWHERE, intern.status, by=by, at=now)
    creation = InternCreation.objects.create(
        id=request_id,
        intern=intern,
        body_hash=fields.body_hash(),
        wants_provision=starts,
        created_at=now,
        finished_at=None if starts else now,
        expires_at=now + RETENTION,
    )
    before = _build_unprovisioned(intern) if lease else None
    return _Preparation(creation, intern, lease, before, is_new=True)


def _check_limits(caller: Caller, fields: NewIntern) -> None:
    """Raises `NameTaken`, `VaultNotAttachable` and `InternLimitReached`."""
    assert caller.workspace_id is not None
    mine = Intern.objects.filter(creator=caller.creator_key)
    if mine.filter(workspace=caller.workspace_id, name=fields.name).exists():
        raise NameTaken
    if fields.vault_id and not is_attachable(caller.workspace_id, fields.vault_id):
        raise VaultNotAttachable
    # Those of a workspace that is gone are nobody's any more.
    of_account = mine.filter(workspace__in=Workspace.objects.filter(account=caller.account_id))
    if of_account.count() >= settings.INTERNS_MAX_PER_MEMBER:
        raise InternLimitReached


def _build_row(
    caller: Caller, fields: NewIntern, now: datetime, *, starts: bool
) -> tuple[Intern, InternLease | None]:
    assert caller.workspace_id is not None
    assert caller.creator_key is not None
    intern = Intern(
        workspace_id=caller.workspace_id,
        creator_id=caller.creator_key,
        name=fields.name,
        description=fields.description,
        instructions=fields.instructions,
        model=fields.model,
        attached_vault_id=fields.vault_id,
        status_since=now,
        created_at=now,
        updated_at=now,
    )
    if not starts:
        return intern, None
    host = place(intern, LeaseKind.PROVISION, account_id=caller.account_id)
    lease = InternLease(intern.pk, uuid4(), uuid4(), LeaseKind.PROVISION, host)
    columns: JsonObject = {**leases.begin_columns(lease, now), "progress_step": 1}
    for name, value in columns.items():
        setattr(intern, name, value)
    intern.status = Status.QUEUED
    return intern, lease


def _build_unprovisioned(intern: Intern) -> Intern:
    """The intern as it is where its provisioning could not be published."""
    return Intern(
        pk=intern.pk,
        status=Status.AWAITING_SLACK_INSTALL,
        status_since=intern.status_since,
        host=intern.host,
        progress_step=None,
    )


def _resume(creation: InternCreation, caller: Caller, now: datetime) -> _Preparation:
    """What is left to do of a request that was made before."""
    intern = creation.intern
    if creation.finished_at is not None or not creation.wants_provision:
        return _Preparation(creation, intern)
    if intern.status == Status.QUEUED and intern.picked_at is None and intern.lease_id is not None:
        # It was committed, and perhaps never published.
        lease = leases.current_lease(intern)
        return _Preparation(creation, intern, lease, _build_unprovisioned(intern))
    if intern.status != Status.AWAITING_SLACK_INSTALL:
        return _Preparation(creation, intern)
    by = history.describe_caller(caller)
    host = place(intern, LeaseKind.PROVISION, account_id=caller.account_id)
    taken = leases.take(intern, LeaseKind.PROVISION, by=by, now=now, host=host)
    if taken is None:
        raise InternConflict
    return _Preparation(creation, intern, taken, _build_unprovisioned(intern))


def _finish(preparation: _Preparation) -> Intern:
    rows = InternCreation.objects.filter(pk=preparation.creation.pk, finished_at__isnull=True)
    rows.update(finished_at=datetime.now(UTC), wants_provision=False)
    fresh = (
        Intern.objects.select_related("vault", "workspace").filter(pk=preparation.intern.pk).first()
    )
    return fresh or preparation.intern
