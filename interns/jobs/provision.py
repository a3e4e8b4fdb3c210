"""Booting an intern, step by step (T8 to T11). Each step may be done twice."""

import logging
import secrets
import string
import time
from datetime import UTC, datetime
from typing import Final

from billiard.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import DatabaseError, IntegrityError, InterfaceError, transaction

from gateway.database.db import release_connection
from interns import hosts, leases
from interns.archives.restore_lock import refuse_restore
from interns.archives.service import latest_archive, restore_workspace
from interns.errors import ModelRefused
from interns.history import has_ever_run
from interns.jobs.lease_renewal import LeaseRenewal, pick_up
from interns.jobs.moving import record_restore
from interns.keys import KeyDisabled, build_gateway_url, check_model, prepare_key
from interns.leases import InternLease, LeaseLost
from interns.machine import MoveRule
from interns.models import Intern, Status
from interns.operations import load_intern
from interns.runtime.driver import BootPlan, Driver, Runtime, RuntimeFailed, StartFailed
from routing.catalogue.snapshot import catalogue

log = logging.getLogger("gateway.interns")
_PAUSE_S: Final = 0.1
_PROBE_S: Final = 2.0
_BASE36: Final = string.digits + string.ascii_lowercase
_SUFFIX_CHARS: Final = 6


class HostnameUnavailable(Exception):
    """All that were tried are taken."""


def assign_hostname(intern: Intern, lease: InternLease) -> str:
    """The name that it has, else a new one, written to its row. Raises `LeaseLost`."""
    if intern.hostname is not None:
        return intern.hostname
    for name in _candidates(intern.name):
        try:
            with transaction.atomic():
                leases.write(lease, hostname=name)
        except IntegrityError:
            continue
        return name
    raise HostnameUnavailable


def _candidates(name: str) -> list[str]:
    """The plain name, then some with a suffix."""
    suffixes = ["".join(secrets.choice(_BASE36) for _ in range(_SUFFIX_CHARS)) for _ in range(5)]
    labels = [name, *(f"{name}-{suffix}" for suffix in suffixes)]
    return [f"{label}.{settings.INTERN_DOMAIN}" for label in labels]


class BootFailed(Exception):
    """Why the intern does not run, as `<code>: <sentence>`."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(f"{code}: {sentence}")


class RuntimeStopped(Exception):
    """What was being booted had to end with the gateway, or where its machine was not heard of."""


def provision(lease: InternLease, driver: Driver, *, by: str) -> bool:
    """Carry out a message's provisioning. Whether there was anything to do."""
    picked = pick_up(lease, by=by)
    if picked is None:
        return False
    intern, mine = picked
    with LeaseRenewal(mine) as renewal:
        _BootAttempt(intern, mine, renewal, driver, by).run()
    return True


class _BootAttempt:
    """One attempt. What is written names the lease; the runtime has the operation's id."""

    def __init__(
        self, intern: Intern, lease: InternLease, renewal: LeaseRenewal, driver: Driver, by: str
    ) -> None:
        self._intern, self._lease, self._renewal = intern, lease, renewal
        self._driver, self._by = driver, by
        self._until = time.monotonic() + settings.INTERN_PROVISION_SECONDS

    def run(self) -> None:
        try:
            self._attempt()
        except LeaseLost:
            log.warning("Intern %s was given to somebody else meanwhile", self._intern.pk)
            # What was begun is the next holder's, if it carries on the same operation or has it
            # running; else nobody's.
            rows = Intern.objects.filter(pk=self._intern.pk, boot_id=self._lease.operation_id)
            if not rows.filter(status__in=[Status.PROVISIONING, Status.RUNNING]).exists():
                self._stop()
        except (DatabaseError, InterfaceError) as error:
            # Nothing can be written; the reaper has it done again once the lease is over.
            log.warning("Provisioning intern %s: database: %s", self._intern.pk, error)

    def _attempt(self) -> None:
        try:
            runtime = self._run_steps()
        except (LeaseLost, DatabaseError, InterfaceError):
            raise
        except RuntimeStopped:
            # A gateway that is stopped twice during a boot is no reason to give the intern up.
            log.warning("Provisioning intern %s: its runtime was told to end", self._intern.pk)
            leases.hand_back(self._lease)
        except BootFailed as failure:
            self._fail(str(failure))
        except SoftTimeLimitExceeded:
            self._fail(str(_build_timeout()))
        except RuntimeFailed as failure:
            sentence = str(failure) or "the runtime could not be started"
            self._fail(f"{failure.code}: {sentence[:500]}")
        except Exception as error:  # Whatever it was, nobody else would take the row further.
            log.exception("Provisioning intern %s", self._intern.pk)
            sentence = f"{type(error).__name__} while the intern was being set up"
            self._fail(f"{StartFailed.code}: {sentence}")
        else:
            self._renewal.check()
            leases.settle(
                self._lease,
                MoveRule.HEALTHY,
                Status.RUNNING,
                by=self._by,
                runtime=runtime.facts,
                failed_probes=0,
                probed_at=datetime.now(UTC),
            )

    def _run_steps(self) -> Runtime:
        try:
            key = prepare_key(self._intern, self._lease)
        except KeyDisabled:
            raise BootFailed(StartFailed.code, "the intern's API key is disabled") from None
        catalogue.refresh_if_changed()
        try:
            # As it is now, with its key.
            check_model(load_intern(self._intern.pk))
        except ModelRefused as refusal:
            raise BootFailed(StartFailed.code, refusal.text) from None
        self._begin_step(2)
        plan = self._build_plan(key)
        self._fetch_disk()
        self._begin_step(
            3,
            booted_at=self._intern.booted_at or datetime.now(UTC),
            boot_id=self._lease.operation_id,
            disk_host=settings.INTERN_HOST,
            is_disk_partial=False,
        )
        release_connection()
        runtime = self._driver.start(plan)
        self._begin_step(4, runtime=runtime.facts)
        self._await_health()
        return runtime

    def _begin_step(self, number: int, **columns: object) -> None:
        self._check_time()
        leases.begin_step(self._lease, number, by=self._by, **columns)

    def _check_time(self) -> None:
        self._renewal.check()
        if time.monotonic() >= self._until:
            raise _build_timeout()

    def _build_plan(self, key: str) -> BootPlan:
        intern = self._intern
        try:
            hostname = assign_hostname(intern, self._lease)
        except HostnameUnavailable:
            raise BootFailed("hostname_unavailable", "every name that was tried is taken") from None
        # What was changed since the message came counts too.
        columns = Intern.objects.values("name", "instructions", "model").get(pk=intern.pk)
        return BootPlan(
            intern_id=intern.pk,
            boot_id=self._lease.operation_id,
            hostname=hostname,
            api_key=key,
            gateway_url=build_gateway_url(),
            **columns,
        )

    def _fetch_disk(self) -> None:
        """Where another machine has the disk, or this one lost it, its archive is put onto one
        here. Fetching has a limit of its own, beside that of the boot."""
        refuse_restore(self._intern.pk)
        # One that has just ended has written the mark since.
        self._intern.refresh_from_db(fields=["is_disk_partial"])
        if not self._needs_archive():
            return
        if self._intern.disk_host == settings.INTERN_HOST:
            # What is here when this process dies is no whole disk. Elsewhere it still is one.
            leases.write(self._lease, is_disk_partial=True)
        release_connection()
        began = time.monotonic()
        archive = restore_workspace(self._intern, self._driver, alive=self._renewal.check)
        self._until += time.monotonic() - began
        record_restore(self._intern, archive, self._lease, by=self._by)

    def _needs_archive(self) -> bool:
        intern = self._intern
        if intern.is_disk_partial:
            return True
        if intern.booted_at is None:
            return False
        if intern.disk_host != settings.INTERN_HOST:
            return True
        is_kept = hosts.has_others() or latest_archive(intern.pk) is not None
        # A boot that failed early may have made none. Where a machine is alone, a boot makes one.
        return is_kept and has_ever_run(intern.pk) and not self._driver.has_disk(intern.pk)

    def _await_health(self) -> None:
        deadline = time.monotonic() + settings.INTERN_HEALTH_SECONDS
        release_connection()
        while True:
            self._check_time()
            health = self._driver.health(
                self._intern.pk, boot_id=self._lease.operation_id, wait_s=_PROBE_S
            )
            if health.ok:
                return
            if health.was_stopped or health.was_fenced:
                raise RuntimeStopped
            if health.exited or time.monotonic() >= deadline:
                problem = health.detail or "the runtime does not answer"
                raise BootFailed("health_check_failed", problem[:500])
            time.sleep(_PAUSE_S)

    def _fail(self, message: str) -> None:
        """The partial runtime goes first, while the intern is ours."""
        self._renewal.check()
        self._stop()
        leases.settle(
            self._lease, MoveRule.STEP_FAILED, Status.FAILED, by=self._by, failure=message
        )

    def _stop(self) -> None:
        try:
            self._driver.stop(self._intern.pk, boot_id=self._lease.operation_id)
        except RuntimeFailed as failure:
            # Reconciling finds what is left.
            log.error("Intern %s: what was begun does not stop: %s", self._intern.pk, failure)


def _build_timeout() -> BootFailed:
    limit = f"{settings.INTERN_PROVISION_SECONDS:g}"
    return BootFailed("provisioning_timeout", f"not running after {limit} s")
