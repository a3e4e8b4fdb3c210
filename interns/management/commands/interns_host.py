"""interns_host: the machines that run interns, and moving interns away from one."""

import time
from collections.abc import Iterable
from typing import Any, Final

from django.core.management.base import CommandParser
from django.db import transaction

from gateway.commands import JsonCommand, Misused, Refused
from gateway.http.jsonio import JsonObject, format_time
from interns import hosts
from interns.archives.store import is_shared
from interns.jobs.archiving import list_unarchived
from interns.jobs.heartbeat import pause_heartbeats
from interns.models import Intern, InternHost, Status

_LOOK_S: Final = 0.5
_UP: Final = (Status.QUEUED, Status.PROVISIONING, Status.RUNNING)


class Command(JsonCommand):
    help = (
        "List the machines that run interns. Drain one: place nothing there any more, and move "
        "what runs there to the others. Rename one that got another INTERN_HOST. Forget one that "
        "will not come back."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("deed", choices=("list", "drain", "rename", "forget"))
        parser.add_argument("host", nargs="?", help="the machine's INTERN_HOST")
        parser.add_argument("name", nargs="?", help="rename: what the machine is called now")
        parser.add_argument("--off", action="store_true", help="drain: place interns there again")
        parser.add_argument(
            "--wait",
            type=float,
            default=0,
            metavar="SECONDS",
            help="drain: until nothing is left there",
        )

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        deed, host, name = options["deed"], options["host"], options["name"]
        if (deed == "list") != (host is None) or (deed == "rename") != (name is not None):
            raise Misused("list, drain HOST, rename HOST NAME, or forget HOST")
        if deed == "list":
            return _list_hosts(), 0
        if deed == "forget":
            return _forget(host), 0
        if deed == "rename":
            return _rename(host, name), 0
        return _drain(host, is_on=not options["off"], wait_s=options["wait"])

    def lines(self, result: JsonObject) -> Iterable[str]:
        if "hosts" not in result:
            yield from super().lines(result)
            return
        for each in result["hosts"]:
            state = "alive" if each["alive"] else f"silent since {each['last_seen_at']}"
            state = f"{state}, draining" if each["draining"] else state
            memory = f"{each['free_memory_bytes'] >> 20} of {each['memory_bytes'] >> 20} MiB free"
            counts = f"{each['up']} up, {each['disks']} disks, {each['unarchived']} only there"
            yield f"{each['name']}  {state}  {memory}  {counts}"


def _list_hosts() -> JsonObject:
    now = hosts.read_database_time()
    living = set(hosts.filter_living(now).values_list("name", flat=True))
    rows = InternHost.objects.order_by("name")
    return {"hosts": [_serialize(host, is_alive=host.name in living) for host in rows]}


def _serialize(host: InternHost, *, is_alive: bool) -> JsonObject:
    return {
        "name": host.name,
        "alive": is_alive,
        "draining": host.draining,
        "last_seen_at": format_time(host.last_seen_at),
        "memory_bytes": host.memory_bytes,
        "free_memory_bytes": host.free_memory_bytes,
        **_count_interns(host.name),
    }


def _count_interns(host: str) -> dict[str, int]:
    return {
        "up": Intern.objects.filter(host=host, status__in=_UP).count(),
        "disks": Intern.objects.filter(disk_host=host, booted_at__isnull=False).count(),
        "unarchived": len(list_unarchived(host)),
    }


def _drain(name: str, *, is_on: bool, wait_s: float) -> tuple[JsonObject, int]:
    if is_on and not is_shared():
        raise Refused("No other machine could fetch a disk: set INTERN_ARCHIVE_STORE first")
    if not InternHost.objects.filter(name=name).update(draining=is_on):
        raise Refused(f"No machine {name!r} was ever heard of; `interns_host list` shows them")
    until = time.monotonic() + (wait_s if is_on else 0)
    while True:
        counts = _count_interns(name)
        is_empty = not (counts["up"] or counts["unarchived"])
        if is_empty or time.monotonic() >= until:
            break
        time.sleep(_LOOK_S)
    waited_in_vain = is_on and wait_s > 0 and not is_empty
    return {"host": name, "draining": is_on, **counts}, int(waited_in_vain)


def _require_silence(name: str) -> None:
    if hosts.filter_living(hosts.read_database_time()).filter(name=name).exists():
        raise Refused(f"Machine {name!r} is alive: stop its workers, and wait INTERN_HOST_SECONDS")


def _forget(name: str) -> JsonObject:
    _require_silence(name)
    counts = _count_interns(name)
    if counts["up"] or counts["unarchived"]:
        raise Refused(f"Interns are still up there, or their disks only there: {counts}")
    if not InternHost.objects.filter(name=name).delete()[0]:
        raise Refused(f"No machine {name!r} was ever heard of; `interns_host list` shows them")
    return {"host": name, "forgotten": True}


def _check_rename(former: str, name: str, *, is_still: bool) -> None:
    """Before its term is over a machine is renamed by a command of its own: once it counts as gone,
    others take its interns over. `is_still` says that no worker writes this machine's row."""
    here, rows = hosts.read_home_id(), InternHost.objects.in_bulk([former, name])
    home_id = rows[former].home_id if former in rows else here
    if not is_still or home_id != here:
        _require_silence(former)
    if name in rows and rows[name].home_id != home_id:
        raise Refused(f"Another machine is called {name!r}; `interns_host list` shows it")
    busy = Intern.objects.filter(host=former, picked_at__isnull=False)
    if busy.filter(lease_expires_at__gt=hosts.read_database_time()).exists():
        raise Refused(f"A job of {former!r} is under way: stop its worker of interns first")


def _rename(former: str, name: str) -> JsonObject:
    with pause_heartbeats() as is_still, transaction.atomic():
        _check_rename(former, name, is_still=is_still)
        placed = Intern.objects.filter(host=former).update(host=name)
        disks = Intern.objects.filter(disk_host=former).update(disk_host=name)
        InternHost.objects.filter(name=former).delete()
    return {"host": name, "was": former, "interns": placed, "disks": disks}
