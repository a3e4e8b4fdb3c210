"""Stopping an intern's runtime (T13). Its disk, hostname and key stay."""

import logging
import time
from typing import Final

from django.db import DatabaseError, InterfaceError

from gateway.database.db import release_connection
from interns import leases
from interns.chat.run_cleanup import end_runs
from interns.jobs.lease_renewal import LeaseRenewal, pick_up
from interns.leases import InternLease, LeaseLost
from interns.machine import MoveRule
from interns.models import Intern, Status
from interns.runtime.driver import Driver, RuntimeFailed

log = logging.getLogger("gateway.interns")
_TRIES: Final = 3
_PAUSE_S: Final = 0.5


def suspend(lease: InternLease, driver: Driver, *, by: str) -> bool:
    """Carry out what a message told of. Whether there was anything to do."""
    picked = pick_up(lease, by=by)
    if picked is None:
        return False
    intern, mine = picked
    try:
        with LeaseRenewal(mine) as renewal:
            end_runs(intern.pk, because="run_ended", driver=driver)
            problem = _stop(intern, renewal, driver)
            if problem is None:
                why = intern.status_reason
                rule = MoveRule.SUSPENDED
                leases.settle(mine, rule, Status.STOPPED, by=by, why=why, failed_probes=0)
            else:
                # It runs on, or not: the next probe tells.
                leases.release(mine, by=by, why=f"the runtime did not stop: {problem}")
    except LeaseLost:
        log.warning("Intern %s was given to somebody else meanwhile", intern.pk)
    except (DatabaseError, InterfaceError) as error:
        log.warning("Suspending intern %s: database: %s", intern.pk, error)
    return True


def _stop(intern: Intern, renewal: LeaseRenewal, driver: Driver) -> str | None:
    """None once it is stopped, else why it is not."""
    problem = ""
    for number in range(_TRIES):
        if number:
            time.sleep(_PAUSE_S)
        renewal.check()
        release_connection()
        try:
            driver.stop(intern.pk, boot_id=intern.boot_id)
        except RuntimeFailed as failure:
            problem = str(failure)
            log.warning("Intern %s does not stop: %s", intern.pk, failure)
        else:
            return None
    return problem
