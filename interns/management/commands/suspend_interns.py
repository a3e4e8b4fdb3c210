"""suspend_interns: stop runtimes, keep disks."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final

from django.conf import settings
from django.core.management.base import CommandParser
from django.db import connection

from gateway.commands import JsonCommand, Misused
from gateway.http.jsonio import JsonObject
from interns import leases, operations
from interns.errors import InternError
from interns.jobs.teardown import suspend
from interns.machine import find_refusal
from interns.management.lookup import find_intern, require_worker
from interns.models import Intern, LeaseKind, Status
from interns.runtime.driver import current_driver

_BY: Final = "suspend_interns"
_AT_ONCE: Final = 8


class Command(JsonCommand):
    help = "Stop the runtimes of interns; their disks and settings stay."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("interns", nargs="*", help="ids, hostnames, or ACCOUNT/NAME")
        parser.add_argument("--all", action="store_true", help="all that run")
        parser.add_argument(
            "--here",
            action="store_true",
            help="do it in this process instead of a worker, as when everything stops",
        )

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        if bool(options["interns"]) == bool(options["all"]):
            raise Misused("Name interns, or say --all")
        running = Intern.objects.select_related("workspace").filter(status=Status.RUNNING)
        rows = running.filter(host=settings.INTERN_HOST) if options["here"] else running
        interns = list(map(find_intern, options["interns"])) or list(rows)
        if interns and not options["here"]:
            require_worker()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            work = _suspend_here if options["here"] else _suspend
            problems = list(pool.map(_close_connection_after(work), interns))
        failures = {
            str(i.pk): problem for i, problem in zip(interns, problems, strict=True) if problem
        }
        done = [str(intern.pk) for intern in interns if str(intern.pk) not in failures]
        return {"suspended": done, "failed": failures}, int(bool(failures))


def _close_connection_after(work: Any) -> Any:
    """A thread has a connection of its own, which ends with its work."""

    def work_and_close(intern: Intern) -> str:
        try:
            return str(work(intern))
        finally:
            if not connection.in_atomic_block:
                connection.close()

    return work_and_close


def _suspend(intern: Intern) -> str:
    """ "" once it is stopped, else why it is not."""
    try:
        operations.suspend(intern.pk, by=_BY)
    except InternError as error:
        return error.text
    return ""


def _suspend_here(intern: Intern) -> str:
    now, why = datetime.now(UTC), "the gateway stopped"
    if intern.host != settings.INTERN_HOST:
        return f"it runs on {intern.host}"
    if refused := find_refusal(LeaseKind.SUSPEND, operations.read_state(intern, now)):
        return refused.text
    lease = leases.take(intern, LeaseKind.SUSPEND, by=_BY, now=now, why=why, status_reason=why)
    if lease is None:
        return "another operation holds it"
    suspend(lease, current_driver(), by=_BY)
    stopped = Intern.objects.filter(pk=intern.pk, status=Status.STOPPED).exists()
    return "" if stopped else "the runtime did not stop"
