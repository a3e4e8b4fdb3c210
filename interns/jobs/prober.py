"""Looking after running interns (T14): is the runtime there, is it well, has it money left."""

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Final

from django.conf import settings
from django.db import models, transaction

from interns import history, hosts, operations
from interns.chat import runs
from interns.errors import InternError
from interns.history import PROBER
from interns.jobs.moving import park_intern
from interns.keys import is_budget_spent
from interns.leases import NO_LEASE
from interns.machine import MoveRule
from interns.models import Intern, Status
from interns.runtime.driver import Driver, RuntimeFailed, RuntimeHealth

log = logging.getLogger("gateway.interns")
PROBES_MAX: Final = 3
BUDGET_ENDED: Final = "budget_ended: the intern's budget is used up"
_AT_ONCE: Final = 16
_PROBE_S: Final = 2.0


def probe_all(driver: Driver) -> int:
    """One round over this machine's running interns that nothing holds. Returns how many are not
    well."""
    if hosts.is_impostor():
        return 0
    rows = Intern.objects.filter(
        status=Status.RUNNING, lease_id__isnull=True, host=settings.INTERN_HOST
    )
    interns = list(rows.select_related("workspace", "api_key"))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        healths = list(
            pool.map(
                lambda intern: driver.health(intern.pk, boot_id=intern.boot_id, wait_s=_PROBE_S),
                interns,
            )
        )
    return sum(_handle_health(*each, driver) for each in zip(interns, healths, strict=True))


def _handle_health(intern: Intern, health: RuntimeHealth, driver: Driver) -> bool:
    if health.was_fenced or health.was_stopped:
        machine, gateway = "its machine could not be heard of", "it was stopped with the gateway"
        why = machine if health.was_fenced else gateway
        return park_intern(intern, why, now=datetime.now(UTC))
    if health.exited:
        fail_running_intern(intern, health.detail or "the runtime is gone")
        return True
    if health.is_unknown:
        log.warning("Intern %s cannot be probed: %s", intern.pk, health.detail)
        return True
    if not health.ok:
        _count_failure(intern, health, driver)
        return True
    if intern.failed_probes:
        _filter_probed(intern).update(failed_probes=0, probed_at=datetime.now(UTC))
    if health.budget_ended or is_budget_spent(intern, now=datetime.now(UTC)):
        try:
            operations.begin_suspend(intern.pk, by=PROBER, why=BUDGET_ENDED)
        except InternError as error:
            log.warning("Intern %s has no budget left and stays up: %s", intern.pk, error)
    return False


def _count_failure(intern: Intern, health: RuntimeHealth, driver: Driver) -> None:
    failures = intern.failed_probes + 1
    if failures < PROBES_MAX:
        _filter_probed(intern).update(failed_probes=failures, probed_at=datetime.now(UTC))
        return
    detail = health.detail or "it does not answer"
    if fail_running_intern(intern, f"{PROBES_MAX} probes failed: {detail}"):
        try:
            driver.stop(intern.pk, boot_id=intern.boot_id)
        except RuntimeFailed as failure:
            log.error("Intern %s does not stop: %s", intern.pk, failure)


def _filter_probed(intern: Intern) -> models.QuerySet[Intern]:
    """The row, while it is the one that was probed."""
    return Intern.objects.filter(
        pk=intern.pk, status=Status.RUNNING, lease_id__isnull=True, boot_id=intern.boot_id
    )


def fail_running_intern(intern: Intern, detail: str, *, by: str = PROBER) -> bool:
    """The runtime of a running intern is gone, or as good as gone (T14). Whether it still was the
    same one, with nothing holding it."""
    now, failure = datetime.now(UTC), f"runtime_exited: {detail}"[:1000]
    with transaction.atomic():
        moved = _filter_probed(intern).update(
            **NO_LEASE,
            status=Status.FAILED,
            status_since=now,
            status_reason="",
            last_failure_message=failure,
            failed_probes=0,
            updated_at=now,
        )
        if moved:
            move = (MoveRule.RUNTIME_LOST, Status.RUNNING, Status.FAILED)
            history.record_move(intern, *move, by=by, why=failure, at=now)
            runs.close_all(intern.pk, "run_ended", now=now)
    return bool(moved)
