"""The schedule's part in metering."""

from datetime import UTC, datetime

from celery import shared_task

from routing.metering.session import Session
from routing.metering.settlements import sweep_all


# A database that falls silent must not keep the worker's slot.
@shared_task(soft_time_limit=30, time_limit=60)
def sweep_expired_holds() -> int:
    """Free holds whose lease ended, should no web process be there to do it."""
    session = Session()
    try:
        return sweep_all(session, datetime.now(UTC))
    finally:
        session.close_quietly()
