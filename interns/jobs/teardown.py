"""Stopping an intern's runtime (T13): its disk, hostname and key stay. And taking an intern down
(T17 to T20), in an order that loses nothing. Each step may be done twice, so that a second attempt
goes on where the first one ended."""

import logging
import time
from collections.abc import Callable
from typing import Final

from django.db import DatabaseError, InterfaceError, transaction

from gateway.database.db import release_connection
from interns import history, leases
from interns.archives.restore_lock import refuse_restore
from interns.archives.service import archive_workspace
from interns.chat.run_cleanup import end_runs
from interns.jobs.lease_renewal import LeaseRenewal, pick_up
from interns.keys import revoke_key
from interns.leases import InternLease, LeaseLost
from interns.machine import NOWHERE, MoveRule
from interns.models import Intern, Status
from interns.runtime.driver import ArchiveFailed, Driver, NoDisk, RuntimeFailed
from interns.vault.service import delete_intern_vault

log = logging.getLogger("gateway.interns")
_TRIES: Final = 3
_PAUSE_S: Final = 0.5


def suspend(lease: InternLease, driver: Driver, *, by: str) -> bool:
    """Carry out the suspension that a message asks for. Returns whether there was one."""
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


class TeardownFailed(Exception):
    """A step went wrong: by which rule the intern moves, and the error of its row."""

    def __init__(self, code: str, sentence: str, rule: MoveRule = MoveRule.TEARDOWN_FAILED) -> None:
        super().__init__(f"{code}: {sentence}")
        self.rule = rule


def tear_down(lease: InternLease, driver: Driver, *, by: str) -> bool:
    """Carry out the teardown that a message asks for. Returns whether there was one."""
    picked = pick_up(lease, by=by)
    if picked is None:
        return False
    intern, mine = picked
    with LeaseRenewal(mine) as renewal:
        _Teardown(intern, mine, renewal, driver, by).run()
    return True


class _Teardown:
    def __init__(
        self, intern: Intern, lease: InternLease, renewal: LeaseRenewal, driver: Driver, by: str
    ) -> None:
        self._intern, self._lease, self._renewal = intern, lease, renewal
        self._driver, self._by = driver, by

    def run(self) -> None:
        try:
            try:
                self._run_steps()
            except TeardownFailed as failure:
                leases.settle(
                    self._lease,
                    failure.rule,
                    Status.DESTROY_FAILED,
                    by=self._by,
                    failure=str(failure),
                )
        except LeaseLost:
            log.warning("Intern %s was given to somebody else meanwhile", self._intern.pk)
        except (DatabaseError, InterfaceError) as error:
            log.warning("Tearing down intern %s: database: %s", self._intern.pk, error)

    def _run_steps(self) -> None:
        # Before anything else: the restore would go on over a disk that is taken away.
        self._run_step("runtime_teardown_failed", lambda: refuse_restore(self._intern.pk))
        end_runs(self._intern.pk, because="run_ended", driver=self._driver)
        self._run_step("runtime_teardown_failed", lambda: self._driver.stop(self._intern.pk))
        self._archive()
        self._run_step("runtime_teardown_failed", lambda: revoke_key(self._intern))
        self._run_step("runtime_teardown_failed", lambda: self._driver.destroy(self._intern.pk))
        leases.write(self._lease, hostname=None, runtime=None)
        self._run_step("vault_teardown_failed", lambda: delete_intern_vault(self._intern.pk))
        self._renewal.check()
        # The row, with what is only its own. Its history stays.
        with transaction.atomic():
            row = self._lease.rows().select_for_update().first()
            if row is None:
                raise LeaseLost
            row.delete()
            move = (MoveRule.GONE, Status.DESTROYING, NOWHERE)
            history.record_move(self._intern, *move, by=self._by)

    def _archive(self) -> None:
        """Skipped where there never was a disk: a first boot that failed may not have come so far
        as to make one."""
        self._renewal.check()
        if self._intern.booted_at is None:
            return
        release_connection()
        try:
            archive_workspace(self._intern, self._driver, alive=self._renewal.check)
        except (DatabaseError, InterfaceError, LeaseLost):
            raise
        except Exception as error:  # Whatever it was, no disk is deleted without an archive.
            if isinstance(error, NoDisk) and not history.has_ever_run(self._intern.pk):
                return
            log.error("Intern %s: no archive: %s", self._intern.pk, error, exc_info=error)
            code, rule = ArchiveFailed.code, MoveRule.ARCHIVE_FAILED
            is_expected = isinstance(error, ArchiveFailed)
            sentence = str(error)[:500] if is_expected else type(error).__name__
            if not self._lease.rows().filter(acknowledge_workspace_loss=True).exists():
                raise TeardownFailed(code, sentence, rule) from error
            with transaction.atomic():
                leases.write(self._lease)
                move = (MoveRule.ARCHIVE_LOSS_ACCEPTED, Status.DESTROYING, Status.DESTROYING)
                why = f"{code}: {sentence}; the loss was acknowledged"
                history.record_move(self._intern, *move, by=self._by, why=why)

    def _run_step(self, code: str, work: Callable[[], object]) -> None:
        """A step whose failure ends the attempt; its own message is for the log, unless it is a
        driver's."""
        self._renewal.check()
        release_connection()
        try:
            work()
        except (DatabaseError, InterfaceError, LeaseLost):
            raise
        except RuntimeFailed as failure:
            raise TeardownFailed(code, str(failure)[:500] or "it did not stop") from failure
        except Exception as error:  # Whatever it was, the row says at which step it ended.
            log.exception("Tearing down intern %s", self._intern.pk)
            raise TeardownFailed(code, type(error).__name__) from error
