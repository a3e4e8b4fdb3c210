"""Take up a lease for a job, and renew it while the job works."""

import logging
import threading
import time
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from interns import hosts, leases
from interns.leases import InternLease, LeaseLost
from interns.models import Intern

log = logging.getLogger("gateway.interns")


def pick_up(lease: InternLease, *, by: str) -> tuple[Intern, InternLease] | None:
    """As `leases.pick_up`; None also where the message was for another machine of this name."""
    if hosts.is_impostor():
        return None
    return leases.pick_up(lease, by=by, now=datetime.now(UTC))


class LeaseRenewal:
    """Within the block a thread renews the lease at a quarter of its term. A worker that is killed
    renews nothing; one whose database is gone stops by itself when its term is over."""

    def __init__(self, lease: InternLease) -> None:
        self._lease = lease
        self._over = threading.Event()
        self._lost = False
        self._good_until = time.monotonic() + settings.INTERN_LEASE_SECONDS
        self._thread = threading.Thread(target=self._renew_until_over, daemon=True, name="lease")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def check(self) -> None:
        """To be called before anything that others would see. Raises `LeaseLost`."""
        if self._lost or time.monotonic() >= self._good_until:
            raise LeaseLost

    def _renew_until_over(self) -> None:
        while not self._over.wait(settings.INTERN_LEASE_SECONDS / 4):
            began = time.monotonic()
            try:
                renewed = leases.renew(self._lease, now=datetime.now(UTC))
            except (DatabaseError, InterfaceError) as error:
                log.warning("The lease of intern %s: %s", self._lease.intern_id, error)
                continue
            finally:
                connection.close()
            if not renewed:
                self._lost = True
                return
            self._good_until = began + settings.INTERN_LEASE_SECONDS
