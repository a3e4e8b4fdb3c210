"""The rows of machines that run interns: their heartbeats, and where an intern is to go."""

import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from django.conf import settings
from django.db import connection
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Now

from gateway.environment.interns import JOBS_QUEUE
from gateway.health import find_worked_hosts
from gateway.home import write_private
from interns.archives.service import find_current_archive, latest_archive
from interns.archives.store import is_shared
from interns.models import Intern, InternHost, LeaseKind, Status

log = logging.getLogger("gateway.interns")
_PLACED: Final = (Status.QUEUED, Status.PROVISIONING, Status.RUNNING)


# --- This machine's row ---------------------------------------------------------------------------


class Memory(NamedTuple):
    """In bytes."""

    total: int
    free: int


def read_memory() -> Memory:
    """This machine's memory; what the kernel would give to new processes counts as free."""
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    total = os.sysconf("SC_PHYS_PAGES") * page_bytes
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                return Memory(total, int(value.split()[0]) * 1024)
    return Memory(total, total)


def read_database_time() -> datetime:
    """The time by the clock that all machines share: each one's own may differ from it."""
    if connection.vendor != "postgresql":
        # The database is on this machine.
        return datetime.now(UTC)
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now


def write_heartbeat(now: datetime) -> bool:
    """Write down how this machine is, at `now` by the database's clock. False where another machine
    of its name is alive. Then one of the two needs another `INTERN_HOST`, and until then this one
    is on no list."""
    name, home_id, memory = settings.INTERN_HOST, read_home_id(), read_memory()
    measured = {
        "memory_bytes": memory.total,
        "free_memory_bytes": memory.free,
        "interns": Intern.objects.filter(host=name, status__in=_PLACED).count(),
        "last_seen_at": now,
        "url": settings.INTERN_HOST_URL,
    }
    rows = InternHost.objects.filter(name=name)
    if rows.filter(home_id=home_id, last_seen_at__gt=now - _term()).update(**measured):
        return True
    fresh = {**measured, "home_id": home_id, "alive_since": now}
    if rows.filter(last_seen_at__lte=now - _term()).update(**fresh):
        return True
    row, _ = InternHost.objects.get_or_create(name=name, defaults=fresh)
    if row.home_id == home_id:
        return True
    log.error("Another machine is called %s too: give this one an INTERN_HOST of its own", name)
    return False


def read_home_id() -> UUID:
    """What tells this home apart from others, made where there is none."""
    path = Path(settings.GATEWAY_HOME) / "run" / "intern-host-id"
    with suppress(OSError, ValueError):
        return UUID(path.read_text(encoding="ascii").strip())
    write_private(path, str(uuid4()))
    return UUID(path.read_text(encoding="ascii").strip())


def is_impostor() -> bool:
    """Whether another machine that is alive has this one's name. What its interns do is then not
    this one's business, and this one must not take up what is meant for it."""
    rows = filter_living(read_database_time()).filter(name=settings.INTERN_HOST)
    home_id = rows.values_list("home_id", flat=True).first()
    return home_id is not None and home_id != read_home_id()


def _term() -> timedelta:
    return timedelta(seconds=settings.INTERN_HOST_SECONDS)


def filter_living(now: datetime) -> QuerySet[InternHost]:
    """Machines that were heard of lately. All times here are by `read_database_time`."""
    return InternHost.objects.filter(last_seen_at__gt=now - _term())


def list_gone(now: datetime) -> list[str]:
    """The names of machines that are gone for good, as far as anybody can tell.

    Nobody can tell while no machine was heard of for a whole term. It may have been the database
    that was away, and then the others have not had their turn yet.
    """
    if not filter_living(now).filter(alive_since__lte=now - _term()).exists():
        return []
    gone = InternHost.objects.filter(last_seen_at__lte=now - _term())
    return list(gone.order_by("name").values_list("name", flat=True))


def list_unread(names: Iterable[str]) -> set[str]:
    """Machines of which no worker takes up jobs; none where nobody can tell. Such a one can still
    be alive: its life signs are of another process."""
    return {
        host for host, is_read in find_worked_hosts(JOBS_QUEUE, names).items() if is_read is False
    }


def has_others() -> bool:
    """Whether there are machines that could take this one's interns over."""
    return InternHost.objects.exclude(name=settings.INTERN_HOST).exists()


def list_other_hosts() -> list[str]:
    """The names of the living machines but this one."""
    others = filter_living(read_database_time()).exclude(name=settings.INTERN_HOST)
    return list(others.order_by("name").values_list("name", flat=True))


def keeps_archives() -> bool:
    """Whether disks of interns that stop here are archived. That is so where others could fetch
    them, and there are others, or will be once this one is drained."""
    reasons = ~Q(name=settings.INTERN_HOST) | Q(draining=True)
    return is_shared() and InternHost.objects.filter(reasons).exists()


# --- Where an intern is to go ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HostState:
    """A living machine that takes interns.

    `free_memory_bytes` was measured when it had `counted` interns; by now `placed` are there, of
    which `of_account` are of the account that asks. `has_disk` says that the intern's own disk lies
    there, so that nothing needs to be fetched.
    """

    name: str
    free_memory_bytes: int
    counted: int = 0
    placed: int = 0
    of_account: int = 0
    has_disk: bool = False


def choose_host(hosts: Iterable[HostState], *, needed_bytes: int) -> str | None:
    """The machine's name; None where there is none.

    One with room comes first, then the one that has the disk. Then comes the one with the fewest
    interns of the account, then the one with the most free memory. So a machine that dies takes few
    of an account. Where none has room the intern boots all the same: memory is a bound of each of
    its processes, and few use it up.
    """

    def rank(host: HostState) -> tuple[bool, bool, int, int, str]:
        # What is left once those that came since the measurement have what they need.
        free_bytes = host.free_memory_bytes - max(0, host.placed - host.counted) * needed_bytes
        lacks_room = free_bytes < needed_bytes
        return lacks_room, not host.has_disk, host.of_account, -free_bytes, host.name

    found = min(hosts, key=rank, default=None)
    return None if found is None else found.name


def can_move(intern: Intern) -> bool:
    """Whether it can boot on any machine: it has no disk yet, or other machines can fetch it as
    it is."""
    if intern.booted_at is None:
        return True
    return is_shared() and find_current_archive(intern) is not None


def has_kept_disk(intern: Intern) -> bool:
    """Whether any machine can fetch its disk, though perhaps as it was earlier."""
    return is_shared() and latest_archive(intern.pk) is not None


def place(intern: Intern, kind: LeaseKind, *, account_id: UUID, acknowledged: bool = False) -> str:
    """The machine that is to carry out an operation which begins now.

    `acknowledged` says that the loss of the disk is accepted. Where no machine is known, as before
    the first one has written its row, all stays as it is.
    """
    if kind == LeaseKind.SUSPEND:
        return intern.host
    # By the database's clock of this moment, in one query.
    hosts = InternHost.objects.annotate(read_at=Now())
    living: list[InternHost] = [
        host for host in hosts if host.last_seen_at > host.read_at - _term()
    ]
    names = {host.name for host in living}
    # It makes a difference only where somebody else takes up jobs.
    unread = list_unread(names) if len(names) > 1 else set()
    if unread == names:
        unread = set()
    home = intern.host if intern.booted_at is None else intern.disk_host
    if kind == LeaseKind.DELETE and (home in names - unread or not names):
        return home
    if kind == LeaseKind.DELETE:
        # One that cannot be archived any more fails, so that its owner can acknowledge the loss.
        can_leave = acknowledged or can_move(intern) or home in list_gone(read_database_time())
    else:
        can_leave = can_move(intern) or (
            has_kept_disk(intern) and home in list_gone(read_database_time())
        )
    if names <= {home} or not can_leave:
        return home
    takers = [host for host in living if not host.draining]
    if kind == LeaseKind.DELETE:
        # One that is drained can still take an intern down, where no other machine is.
        takers = takers or living
    takers = [host for host in takers if host.name not in unread] or takers
    states = _measure(takers, intern, account_id)
    return choose_host(states, needed_bytes=settings.INTERN_MEMORY_BYTES) or home


def _measure(takers: list[InternHost], intern: Intern, account_id: UUID) -> list[HostState]:
    """Machines that take the intern, with what was placed on them."""
    placed = Intern.objects.filter(status__in=_PLACED).values_list("host").order_by()
    own = Count("pk", filter=Q(workspace__account=account_id))
    counts = {
        name: (every, mine) for name, every, mine in placed.annotate(every=Count("pk"), own=own)
    }
    return [
        HostState(
            host.name,
            free_memory_bytes=host.free_memory_bytes,
            counted=host.interns,
            placed=counts.get(host.name, (0, 0))[0],
            of_account=counts.get(host.name, (0, 0))[1],
            has_disk=intern.booted_at is not None and intern.disk_host == host.name,
        )
        for host in takers
    ]
