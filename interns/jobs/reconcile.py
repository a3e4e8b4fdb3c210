"""Comparing runtimes with rows, both ways: leaked runtimes are stopped, lost ones reported."""

import logging
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from django.conf import settings

from interns import hosts
from interns.jobs.prober import fail_running_intern
from interns.models import Intern, Status
from interns.runtime.driver import Driver, Runtime, RuntimeFailed

log = logging.getLogger("gateway.interns")
_BY: Final = "reconciling"
_MAY_RUN: Final = (Status.PROVISIONING, Status.RUNNING, Status.DESTROYING)


@dataclass
class ReconcileReport:
    """What was found: interns' ids. `stuck` are runtimes that did not stop."""

    runtimes: int = 0
    leaked: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.leaked or self.stuck or self.lost)


def reconcile(driver: Driver, *, dry: bool = False) -> ReconcileReport:
    """One comparison on this machine. `dry` only reports. Raises `RuntimeFailed` where the driver
    cannot say what runs.

    Rows are read before and after the runtimes: what began meanwhile is in neither finding.
    """
    if hosts.is_impostor():
        return ReconcileReport()
    expected = Intern.objects.filter(
        status=Status.RUNNING, lease_id__isnull=True, host=settings.INTERN_HOST
    )
    before = list(expected.select_related("workspace"))
    runtimes = driver.runtimes()
    report = ReconcileReport(runtimes=len(runtimes))
    there = {(runtime.intern_id, runtime.boot_id) for runtime in runtimes}
    for intern in before:
        if (intern.pk, intern.boot_id) in there:
            continue
        health = driver.health(intern.pk, boot_id=intern.boot_id)
        if health.was_fenced or health.was_stopped:
            # The next probe has it booted again.
            continue
        if dry or fail_running_intern(intern, "the runtime is gone", by=_BY):
            report.lost.append(str(intern.pk))
    for runtime in runtimes:
        _stop_leaked(runtime, driver, report, dry)
    return report


def _stop_leaked(runtime: Runtime, driver: Driver, report: ReconcileReport, dry: bool) -> None:
    if _may_run(runtime.intern_id, runtime.boot_id):
        return
    report.leaked.append(str(runtime.intern_id))
    if dry:
        return
    try:
        driver.stop(runtime.intern_id, boot_id=runtime.boot_id)
    except RuntimeFailed as failure:
        report.stuck.append(str(runtime.intern_id))
        log.error("The leaked runtime of intern %s does not stop: %s", runtime.intern_id, failure)
    else:
        log.warning("A leaked runtime of intern %s was stopped", runtime.intern_id)


def _may_run(intern_id: UUID, boot_id: UUID | None) -> bool:
    """Whether a row says that this boot may run here now. Being torn down, whatever runs is its
    own."""
    here = Intern.objects.filter(pk=intern_id, host=settings.INTERN_HOST)
    row = here.values_list("status", "boot_id").first()
    if row is None or row[0] not in _MAY_RUN:
        return False
    return row[0] == Status.DESTROYING or row[1] == boot_id
