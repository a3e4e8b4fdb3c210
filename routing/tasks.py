"""The workers' part in metering, in watching endpoints and in telling destinations."""

from datetime import UTC, datetime
from uuid import UUID

from celery import shared_task
from kombu.exceptions import OperationalError

from routing.destinations.delivery import deliver, note_loss
from routing.exports.store import export_finished_days
from routing.history import contents, rollup
from routing.ledger.session import LedgerSession
from routing.ledger.sweep import sweep_all_expired
from routing.metering import popularity
from routing.retention import create_partitions, forget_expired, forget_facts
from routing.statistics import endpoint_samples, probes
from routing.watching import (
    record_expiring_models,
    record_provider_health,
    record_unpriced_models,
)


# A database that falls silent must not keep the worker's slot.
@shared_task(soft_time_limit=30, time_limit=60)
def sweep_expired_holds() -> int:
    """Free holds whose lease ended, should no web process be there to do it."""
    session = LedgerSession()
    try:
        return sweep_all_expired(session, datetime.now(UTC))
    finally:
        session.close_quietly()


# What is left is counted the next time.
@shared_task(soft_time_limit=60, time_limit=90)
def count_calls() -> int:
    """Count how often each model answered, for the orders of `GET /models`."""
    return popularity.count_calls(datetime.now(UTC))


@shared_task(soft_time_limit=60, time_limit=90)
def record_endpoint_history() -> int:
    """Write down what endpoints did in the last five minutes that are over, and forget the old."""
    now = datetime.now(UTC).timestamp()
    made = endpoint_samples.record_shared(now)
    endpoint_samples.forget_old(now)
    return made


@shared_task(soft_time_limit=60, time_limit=90)
def probe_providers() -> int:
    """Ask those providers that are due whether they answer."""
    return probes.probe_due_providers(datetime.now(UTC))


# In a pool of threads, which knows no time limits.
@shared_task
def watch_providers() -> int:
    """Every 15 seconds, record which providers went down or came back."""
    return record_provider_health(now=datetime.now(UTC))


# Likewise in a pool of threads.
@shared_task
def watch_models() -> int:
    """Every minute, record which models end soon, and which have no price and were asked for."""
    now = datetime.now(UTC)
    return record_expiring_models(now=now) + record_unpriced_models(now=now)


# What is left is rolled up the next time; an hour is a transaction of its own.
@shared_task(soft_time_limit=90, time_limit=120)
def roll_up_usage() -> int:
    """Sum up the hours that are over, and those that got a late record."""
    return rollup.roll_up(datetime.now(UTC))


@shared_task(soft_time_limit=300, time_limit=330)
def forget_old_history() -> int:
    """Delete contents past their days, and figures and sums that nothing asks for any more."""
    now = datetime.now(UTC)
    return contents.forget_old(now) + rollup.forget_old(now) + forget_facts(now)


# A day of millions of requests takes a while; what is left is written the next time.
@shared_task(soft_time_limit=3300, time_limit=3400)
def export_usage() -> int:
    """Write the files of the days that are over, where a format is set."""
    return export_finished_days(datetime.now(UTC))


# What is left goes the next time.
@shared_task(soft_time_limit=300, time_limit=330)
def forget_expired_records() -> int:
    """Make the next months' partitions, and let requests leave that are past GENERATION_DAYS."""
    now = datetime.now(UTC)
    create_partitions(now)
    return forget_expired(now)


# Delivered twice, its spans have the same ids. Its own deadline ends it: threads have no other.
@shared_task(acks_late=True, reject_on_worker_lost=True)
def deliver_traces(destination_id: str, batch: str, attempt: int = 1, size: int = 1) -> None:
    """Send a sealed batch of `size` traces to a destination, and what of it failed once more
    later."""
    retry = deliver(UUID(destination_id), batch, attempt, size)
    if retry is None:
        return
    again = (destination_id, retry.batch, attempt + 1, retry.size)
    try:
        deliver_traces.apply_async(again, countdown=retry.delay_s, queue=retry.queue)
    except OperationalError:
        note_loss(UUID(destination_id), retry.size, "broker", "the queue cannot be reached")
