"""The Slack install of an intern (T5), which an operator records; no API does."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from django.db import transaction

from gateway.database.db import Lane, run_queries
from interns import history, leases
from interns.errors import InternBusy, InvalidState
from interns.hosts import place
from interns.leases import InternLease
from interns.machine import MoveRule
from interns.models import Intern, LeaseKind, Status
from interns.operations import load_intern, publish_or_undo
from interns.vault.service import put_managed

TOKENS: Final = "slack_tokens"
HOST: Final = "slack.com"
_TRIES: Final = 5


def record_install(intern_id: UUID, *, by: str, tokens: str = "") -> bool:
    """Record it, with the tokens in the intern's vault. Whether a provisioning that waited for it
    begins. Raises `InternNotFound`, `InvalidState`, `InternBusy` and `UpstreamUnavailable`."""
    lease, before = run_queries(Lane.OPERATOR, lambda: _record(intern_id, by, tokens))
    if lease is not None:
        publish_or_undo(lease, before, by)
    return lease is not None


def _record(intern_id: UUID, by: str, tokens: str) -> tuple[InternLease | None, Intern]:
    for _ in range(_TRIES):
        intern, now = load_intern(intern_id), datetime.now(UTC)
        if intern.status != Status.AWAITING_SLACK_INSTALL:
            raise InvalidState
        with transaction.atomic():
            lease = _write(intern, by, now)
            if intern.slack_installed_at == now and tokens:
                put_managed(intern.pk, TOKENS, tokens, [HOST])
        if intern.slack_installed_at == now:
            return lease, intern
    raise InternBusy


def _write(intern: Intern, by: str, now: datetime) -> InternLease | None:
    """`slack_installed_at` of the row that was read is `now` where it could be written."""
    lease = None
    if intern.provision_requested:
        account_id = intern.workspace.account_id
        lease = leases.take(
            intern,
            LeaseKind.PROVISION,
            by=by,
            now=now,
            host=place(intern, LeaseKind.PROVISION, account_id=account_id),
            why="Slack was installed",
            rule=MoveRule.SLACK_INSTALLED,
            slack_installed_at=now,
        )
        written = lease is not None
    else:
        same = Intern.objects.filter(pk=intern.pk, updated_at=intern.updated_at)
        written = bool(same.update(slack_installed_at=now, updated_at=now))
        if written:
            move = (MoveRule.SLACK_INSTALLED, intern.status, intern.status)
            history.record_move(intern, *move, by=by, at=now)
    if written:
        intern.slack_installed_at = now
    return lease
