"""Moving interns from one machine to another: what ran on a machine that is gone, and what runs on
one that is drained, boots again elsewhere once its disk can be fetched."""

import logging
from datetime import datetime
from typing import Final

from interns import hosts, operations
from interns.archives.store import is_shared
from interns.errors import InternError
from interns.jobs.lost_hosts import park_lost
from interns.models import Intern, InternHost, LeaseKind, Status

log = logging.getLogger("gateway.interns")
_BY: Final = "moving interns"


def move_interns(*, now: datetime | None = None) -> int:
    """One round over all machines; how many interns took a step. What could not be begun is tried
    again in the next one."""
    now = now or hosts.read_database_time()
    return park_lost(now) + _stop_drained() + _resume_waiting(now)


def _stop_drained() -> int:
    if not is_shared():
        # Their disks could not follow them.
        return 0
    draining = InternHost.objects.filter(draining=True).values("name")
    rows = Intern.objects.filter(host__in=draining, status=Status.RUNNING, lease_id__isnull=True)
    count = 0
    for intern in rows.order_by("status_since"):
        why = f"its machine {intern.host} is drained"
        try:
            operations.begin_suspend(intern.pk, by=_BY, why=why, resumes=True)
        except InternError as error:
            log.warning("Intern %s stays on %s: %s", intern.pk, intern.host, error)
        else:
            count += 1
    return count


def _resume_waiting(now: datetime) -> int:
    """Have interns booted that stopped only to be moved, where there is a machine for them."""
    rows = Intern.objects.filter(
        status=Status.STOPPED, provision_requested=True, lease_id__isnull=True
    )
    takes = set(hosts.filter_living(now).filter(draining=False).values_list("name", flat=True))
    count = 0
    for intern in rows.select_related("workspace").order_by("status_since"):
        account_id = intern.workspace.account_id
        if hosts.place(intern, LeaseKind.PROVISION, account_id=account_id) not in takes:
            continue
        try:
            operations.provision(intern.pk, by=_BY)
        except InternError as error:
            log.warning("Intern %s is not resumed yet: %s", intern.pk, error)
        else:
            count += 1
    return count
