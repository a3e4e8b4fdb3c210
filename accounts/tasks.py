"""The schedule's part in keeping the books."""

import logging
import threading
from datetime import UTC, datetime
from typing import Final

from celery import shared_task
from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore

from accounts.events import delivery
from accounts.services import repeatable, spend_scopes, workspaces
from accounts.services.books import watching
from accounts.services.books.audit import compare_books
from accounts.services.books.credits import expire_old_credits
from accounts.services.books.metrics import record_audit
from accounts.services.books.spent_limits import record_spending
from accounts.services.directory import jobs as scim_jobs
from accounts.services.past_spending import recount_budgets

log = logging.getLogger("gateway.ledger")

# Of the eight threads of the worker `events`. The others watch, whoever's receivers are silent.
_SENDERS: Final = 6
# Until the schedule's next look.
_SEND_S: Final = 5.0
_senders: Final = threading.BoundedSemaphore(_SENDERS)


@shared_task
def audit_books() -> int:
    """Every 15 minutes, recompute all totals; each mismatch is an error in the log.

    Counters of budgets are put right: they only follow from the books.
    """
    now = datetime.now(UTC)
    found = compare_books(now=now)
    record_audit(len(found.mismatches), at=now)
    for mismatch in found.mismatches:
        log.error("The books disagree: %s", mismatch)
    watching.record_mismatches(found, now=now)
    for account_id in found.off_budgets:
        recount_budgets(account_id, now=now)
    return len(found.mismatches)


# What is left is expired the next time.
@shared_task(soft_time_limit=600, time_limit=630)
def expire_credits() -> int:
    """Every hour, book what is left of credits older than `CREDIT_EXPIRY_DAYS`."""
    days: int = settings.CREDIT_EXPIRY_DAYS
    return expire_old_credits(now=datetime.now(UTC), days=days) if days else 0


# What is left is forgotten the next time.
@shared_task(soft_time_limit=120, time_limit=150)
def forget_repeatable_requests() -> int:
    """Every five minutes, drop answers of requests with an `Idempotency-Key` whose hour is over."""
    return repeatable.delete_expired_requests(now=datetime.now(UTC))


# What is left is removed the next time.
@shared_task(soft_time_limit=300, time_limit=330)
def clear_deleted_workspaces() -> int:
    """Every ten minutes, remove what nobody sees any more because its workspace was deleted."""
    return workspaces.clear_deleted_workspaces()


# What is left goes the next time.
@shared_task(soft_time_limit=120, time_limit=150)
def delete_old_end_user_counters() -> int:
    """Every hour, delete counters of end users' budgets whose windows are long over."""
    return spend_scopes.delete_old_counters(datetime.now(UTC))


# What is left goes the next time.
@shared_task(soft_time_limit=120, time_limit=150)
def forget_events() -> int:
    """Every hour, delete events and deliveries that are past `EVENT_DAYS`."""
    return delivery.forget_old_events(datetime.now(UTC))


# What is left goes the next time.
@shared_task(soft_time_limit=120, time_limit=150)
def delete_old_sessions() -> None:
    """Every hour, delete sessions of browsers that are over. Beginning to sign in makes one."""
    SessionStore.clear_expired()


# What is left is run the next time.
@shared_task(soft_time_limit=120, time_limit=150)
def run_scim_sync_jobs() -> int:
    """Every five seconds, run the sync jobs that wait."""
    return scim_jobs.run_waiting_jobs()


# --- The queue `events`: a pool of threads, so that none of these has a time limit ----------------


@shared_task
def watch_spending() -> int:
    """Every 15 seconds, record which budgets, limits and credits crossed a level."""
    now = datetime.now(UTC)
    recorded = record_spending(now=now) + watching.record_end_user_spending(now=now)
    return recorded + watching.record_low_credit(now=now)


@shared_task
def watch_expiries() -> int:
    """Every five minutes, record which keys and credits end soon."""
    return watching.record_expiries(now=datetime.now(UTC))


@shared_task
def deliver_events() -> int:
    """Every five seconds, make the deliveries of new events, and have those that are due sent."""
    now = datetime.now(UTC)
    made = delivery.make_deliveries(now=now)
    if delivery.has_due(now=now):
        for _ in range(_SENDERS):
            send_deliveries.apply_async(queue=settings.EVENT_QUEUE, expires=_SEND_S)
    return made


@shared_task
def send_deliveries() -> int:
    """For five seconds, send deliveries that are due, unless enough threads do that already."""
    if not _senders.acquire(blocking=False):
        return 0
    try:
        return delivery.send_due(within_s=_SEND_S)
    finally:
        _senders.release()
