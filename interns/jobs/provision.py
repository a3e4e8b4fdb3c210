"""Booting an intern, step by step (T8 to T11). Each step may be done twice."""

import logging
import time
from datetime import UTC, datetime
from typing import Final

from billiard.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import DatabaseError, InterfaceError

from interns import hostnames, leases
from interns.hostnames import HostnameUnavailable
from interns.jobs.keeping import Keeper
from interns.jobs.resting import rest
from interns.keys import KeyDisabled, gateway_url, key_for_boot
from interns.leases import Lease, LeaseLost
from interns.machine import Rule
from interns.models import Intern, Status
from interns.runtime.driver import BootPlan, Driver, Runtime, RuntimeFailed, StartFailed

log = logging.getLogger("gateway.interns")
_PAUSE_S: Final = 0.1
_PROBE_S: Final = 2.0


class BootFailed(Exception):
    """Why the intern does not run, as `<code>: <sentence>`."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(f"{code}: {sentence}")


def provision(lease: Lease, driver: Driver, *, by: str) -> bool:
    """Carry out what a message told of. Whether there was anything to do."""
    picked = leases.pick_up(lease, by=by, now=datetime.now(UTC))
    if picked is None:
        return False
    intern, mine = picked
    with Keeper(mine) as keeper:
        _Boot(intern, mine, keeper, driver, by).run()
    return True


class _Boot:
    """One attempt. What is written names the lease; the runtime has the operation's id."""

    def __init__(
        self, intern: Intern, lease: Lease, keeper: Keeper, driver: Driver, by: str
    ) -> None:
        self._intern, self._lease, self._keeper = intern, lease, keeper
        self._driver, self._by = driver, by
        self._until = time.monotonic() + settings.INTERN_PROVISION_SECONDS

    def run(self) -> None:
        try:
            self._attempt()
        except LeaseLost:
            log.warning("Intern %s was given to somebody else meanwhile", self._intern.pk)
            self._leave()
        except (DatabaseError, InterfaceError) as error:
            # Nothing can be written; the reaper has it done again once the lease is over.
            log.warning("Provisioning intern %s: database: %s", self._intern.pk, error)

    def _attempt(self) -> None:
        try:
            runtime = self._boot()
        except BootFailed as failure:
            self._fail(str(failure))
        except SoftTimeLimitExceeded:
            self._fail(str(_too_long()))
        else:
            self._run(runtime)

    def _boot(self) -> Runtime:
        try:
            return self._steps()
        except (LeaseLost, DatabaseError, InterfaceError, BootFailed, SoftTimeLimitExceeded):
            raise
        except RuntimeFailed as failure:
            raise BootFailed(failure.code, _sentence(failure)) from failure
        except Exception as error:
            log.exception("Provisioning intern %s", self._intern.pk)
            said = f"{type(error).__name__} while the intern was being set up"
            raise BootFailed(StartFailed.code, said) from error

    def _steps(self) -> Runtime:
        key = self._credentials()
        self._begin(2)
        plan = self._plan(key)
        self._begin(3, booted_at=self._first_boot(), boot_id=self._lease.operation_id)
        rest()
        runtime = self._driver.start(plan)
        self._begin(4, runtime=runtime.facts)
        self._await_health()
        return runtime

    def _begin(self, number: int, **columns: object) -> None:
        self._in_time()
        leases.step(self._lease, number, by=self._by, **columns)

    def _in_time(self) -> None:
        self._keeper.check()
        if time.monotonic() >= self._until:
            raise _too_long()

    def _credentials(self) -> str:
        try:
            return key_for_boot(self._intern, self._lease)
        except KeyDisabled:
            raise BootFailed(StartFailed.code, "the intern's API key is disabled") from None

    def _plan(self, key: str) -> BootPlan:
        intern = self._intern
        try:
            hostname = hostnames.assign(intern, self._lease)
        except HostnameUnavailable:
            raise BootFailed("hostname_unavailable", "every name that was tried is taken") from None
        # What was changed since the message came counts too.
        said = Intern.objects.values("name", "instructions", "model").get(pk=intern.pk)
        return BootPlan(
            intern_id=intern.pk,
            boot_id=self._lease.operation_id,
            hostname=hostname,
            api_key=key,
            gateway_url=gateway_url(),
            **said,
        )

    def _first_boot(self) -> datetime:
        return self._intern.booted_at or datetime.now(UTC)

    def _await_health(self) -> None:
        deadline = time.monotonic() + settings.INTERN_HEALTH_SECONDS
        rest()
        while True:
            self._in_time()
            health = self._driver.health(
                self._intern.pk, boot_id=self._lease.operation_id, wait_s=_PROBE_S
            )
            if health.ok:
                return
            if health.exited or time.monotonic() >= deadline:
                said = health.detail or "the runtime does not answer"
                raise BootFailed("health_check_failed", said[:500])
            time.sleep(_PAUSE_S)

    def _run(self, runtime: Runtime) -> None:
        self._keeper.check()
        leases.settle(
            self._lease,
            Rule.HEALTHY,
            Status.RUNNING,
            by=self._by,
            runtime=runtime.facts,
            failed_probes=0,
            probed_at=datetime.now(UTC),
        )

    def _fail(self, message: str) -> None:
        """The partial runtime goes first, while the intern is ours."""
        self._keeper.check()
        self._stop()
        leases.settle(self._lease, Rule.STEP_FAILED, Status.FAILED, by=self._by, failure=message)

    def _leave(self) -> None:
        """What was begun is the next holder's, if it carries on the same operation or has it
        running; else nobody's."""
        rows = Intern.objects.filter(pk=self._intern.pk, boot_id=self._lease.operation_id)
        if not rows.filter(status__in=[Status.PROVISIONING, Status.RUNNING]).exists():
            self._stop()

    def _stop(self) -> None:
        try:
            self._driver.stop(self._intern.pk, boot_id=self._lease.operation_id)
        except RuntimeFailed as failure:
            # Reconciling finds what is left.
            log.error("Intern %s: what was begun does not stop: %s", self._intern.pk, failure)


def _too_long() -> BootFailed:
    limit = f"{settings.INTERN_PROVISION_SECONDS:g}"
    return BootFailed("provisioning_timeout", f"not running after {limit} s")


def _sentence(failure: Exception) -> str:
    return (str(failure) or "the runtime could not be started")[:500]
