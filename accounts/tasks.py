"""The schedule's part in keeping the books."""

import logging
from datetime import UTC, datetime

from celery import shared_task

from accounts.services.audit import audit

log = logging.getLogger("gateway.ledger")


@shared_task
def audit_books() -> int:
    """Every 15 minutes, recompute all totals; each mismatch is an error in the log."""
    found = audit(now=datetime.now(UTC))
    for mismatch in found.mismatches:
        log.error("The books disagree: %s", mismatch)
    return len(found.mismatches)
