"""Sync jobs: memberships follow an account's groups once more, and deleted groups are removed."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import DatabaseError, transaction
from django.db.models import Q

from accounts.models import ScimGroup, ScimSyncJob
from accounts.services.directory.groups import apply_groups, lock_account
from accounts.services.records import Actor
from gateway.http.errors import NotFound

log = logging.getLogger("gateway.scim")
# A job that has been running for longer was left by a worker that died.
_LONGEST: Final = timedelta(minutes=5)


def queue_job(*, account_id: UUID, management_key_id: int) -> ScimSyncJob:
    """A new job; the schedule begins it within seconds."""
    return ScimSyncJob.objects.create(
        account_id=account_id, management_key_id=management_key_id, created_at=datetime.now(UTC)
    )


def find_job(account_id: UUID, job_id: UUID) -> ScimSyncJob:
    """Raises `NotFound`."""
    job = ScimSyncJob.objects.filter(account_id=account_id, pk=job_id).first()
    if job is None:
        raise NotFound
    return job


def run_waiting_jobs() -> int:
    """Run those that wait and those that were left, the oldest first; how many."""
    now = datetime.now(UTC)
    waiting = Q(status=ScimSyncJob.Status.QUEUED)
    left = Q(status=ScimSyncJob.Status.RUNNING, started_at__lt=now - _LONGEST)
    count = 0
    for job in ScimSyncJob.objects.filter(waiting | left).order_by("created_at")[:100]:
        taken = ScimSyncJob.objects.filter(pk=job.pk, started_at=job.started_at)
        if taken.update(status=ScimSyncJob.Status.RUNNING, started_at=now):
            _run_job(job)
            count += 1
    return count


def _run_job(job: ScimSyncJob) -> None:
    by = Actor(management_key_id=job.management_key_id)
    job.status, job.error_message = ScimSyncJob.Status.SUCCEEDED, None
    try:
        with transaction.atomic():
            lock_account(job.account_id)
            apply_groups(account_id=job.account_id, by=by)
            synced = ScimGroup.objects.filter(account_id=job.account_id).count()
            gone = ScimGroup.everything.filter(account_id=job.account_id, deleted_at__isnull=False)
            deleted = gone.count()
            gone.delete()
        job.synced_groups, job.deleted_groups = synced, deleted
    except DatabaseError:
        log.exception("Sync job %s failed", job.pk)
        job.status = ScimSyncJob.Status.FAILED
        job.error_message = "The groups could not be read or written"
    job.finished_at = datetime.now(UTC)
    job.save(
        update_fields=[
            *("status", "synced_groups", "deleted_groups", "error_message", "finished_at"),
        ]
    )
