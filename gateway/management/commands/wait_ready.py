"""wait_ready: return once a web process serves, or the database answers."""

import time
from typing import Any, Final

from django.core.management.base import CommandParser
from django.db import OperationalError, connection

from gateway.commands import JsonCommand, Misused, Refused
from gateway.http.jsonio import JsonObject
from gateway.run.ready import answers
from gateway.server.masters import MasterGone, count_missing_workers

_LOOK_S: Final = 0.2


class Command(JsonCommand):
    help = (
        "Wait until a web process serves: every worker of a gunicorn master (--pid) accepts "
        "connections, an address (--url) answers /readyz with 200, or both. With a shared socket "
        "only --pid tells two masters apart. --database waits for the database alone, as whoever "
        "migrates must. Ends with 1 once the time is over or the master died."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pid", type=int, help="process id of a gunicorn master")
        parser.add_argument("--url", default="", help="root of a gateway, as http://127.0.0.1:8000")
        parser.add_argument("--database", action="store_true", help="wait for the database")
        parser.add_argument("--seconds", type=float, default=60, help="longest wait; 60")

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        pid, url = options["pid"], options["url"].rstrip("/")
        if not (pid or url or options["database"]):
            raise Misused("Say whom to wait for: --pid PID, --url URL, --database, or several.")
        begun, reported = time.monotonic(), ""
        while missing := self._find_missing(pid, url, options["database"]):
            if missing != reported:
                self.stderr.write(f"Waiting: {missing}")
                reported = missing
            if time.monotonic() - begun > options["seconds"]:
                raise Refused(f"Not ready after {options['seconds']:g} s: {missing}.")
            time.sleep(_LOOK_S)
        return {"ready": True, "waited_s": round(time.monotonic() - begun, 1)}, 0

    def _find_missing(self, pid: int | None, url: str, database: bool) -> str:
        """What is not ready yet, or nothing. Raises `Refused` where it never will be."""
        if database:
            try:
                connection.ensure_connection()
            except OperationalError as error:
                connection.close()
                return str(error).strip().splitlines()[0]
        try:
            if pid and (count := count_missing_workers(pid)):
                return f"{count} workers of master {pid} do not accept yet"
        except MasterGone as error:
            raise Refused(str(error)) from None
        return "" if not url or answers(url, "/readyz") else f"{url}/readyz is not 200"
