"""The schedule's part in keeping archives no longer than they are to be kept."""

from datetime import UTC, datetime

from celery import shared_task

from interns.archives.service import delete_abandoned_spools, delete_expired_archives


# What is left is forgotten the next time.
@shared_task(soft_time_limit=600, time_limit=630)
def forget_archives() -> int:
    """Every hour, remove archives that are older than `INTERN_ARCHIVE_DAYS`, and what was never
    finished."""
    delete_abandoned_spools()
    return delete_expired_archives(datetime.now(UTC))
