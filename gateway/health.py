"""GET /healthz and GET /readyz.

Apps add what they know with `register_check` when they are ready; a check that decides turns the
answer into 503 when it is not ok.
"""

import logging
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote

import gevent
from django.conf import settings
from django.db import DatabaseError, InterfaceError, ProgrammingError, connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from gateway.database.db import Lane, run_queries, under_gevent
from gateway.database.migration_state import list_pending
from gateway.environment.interns import DEFAULT_HOST
from gateway.http.jsonio import JsonObject
from gateway.http.responses import json_response
from gateway.shared_cache import SharedCache, cache_key, shared_cache

log = logging.getLogger("gateway")
Report = JsonObject

CHECK_S = 1.8
# How long a write that went well is not tried again.
WRITTEN_S = 5.0
# Three missed heartbeats of Celery's two seconds, and a little.
WORKER_KEY_S = 8
# Beat sends something every five seconds at least.
BEAT_RECENT_S = 30
# For alerts that say since when it is gone.
BEAT_KEPT_S = 7 * 86_400
QUEUES: Final = ("celery", "events", "interns", "intern-control", "destinations")


@dataclass(frozen=True)
class Check:
    """`look` returns a JSON object with `ok`: true, false, or null where nobody can tell."""

    decides: bool
    look: Callable[[], Report]


_checks: dict[str, Check] = {}
# Looks that a probe did not wait for to the end; the next probe does not begin them again.
_under_way: dict[str, gevent.Greenlet] = {}
_written_at = float("-inf")
_is_migrated = False


def register_check(name: str, decides: bool, check: Callable[[], Report]) -> None:
    """Add a check to `/readyz`, or replace the one of that name.

    It is called in a web process for every `/readyz`, beside the other checks. It has 1.8 s, and
    should do as little I/O as it can. What it raises counts as `{"ok": false}`.
    """
    _checks[name] = Check(decides, check)


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers. No I/O."""
    return json_response({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Whether requests can be served: 200 or 503, with every check's report."""
    if under_gevent():
        # All checks at once, so that two that wait for one dead store do not add up.
        for name, check in _checks.items():
            if name not in _under_way or _under_way[name].dead:
                _under_way[name] = gevent.spawn(_run_check, check)
        looks = {name: _under_way[name] for name in _checks}
        # A look that is late goes on by itself: tearing it away could lose it a pooled connection.
        gevent.joinall(looks.values(), timeout=CHECK_S)
        late: Report = {"ok": False, "error": "timeout"}
        reports = {name: look.value or late for name, look in looks.items()}
    else:
        reports = {name: _run_check(check) for name, check in _checks.items()}
    ready = all(reports[name]["ok"] for name, check in _checks.items() if check.decides)
    body = {"status": "ok" if ready else "unready", "checks": reports}
    response = json_response(body, status=200 if ready else 503)
    # Django would log each look of a probe; what broke has its own line.
    response._has_been_logged = True  # type: ignore[attr-defined]  # The mark Django looks for.
    return response


def _run_check(check: Check) -> Report:
    try:
        return check.look()
    except Exception as error:
        # A probe answers whatever broke: it is the one that tells.
        log.warning("A readiness check failed", exc_info=error)
        return {"ok": False, "error": type(error).__name__}


def _check_database() -> Report:
    try:
        trouble = run_queries(Lane.READ, _find_write_trouble)
    except (DatabaseError, InterfaceError, sqlite3.Error) as error:
        return {"ok": False, "error": type(error).__name__}
    if trouble:
        return {"ok": False, "vendor": connection.vendor, "error": trouble}
    return {"ok": True, "vendor": connection.vendor}


def _find_write_trouble() -> str:
    """Why no hold can be written, or nothing; what the database says is raised.

    A standby, or a server set to read-only, serves no request, and neither does a full disk.
    """
    global _written_at
    with connection.cursor() as cursor:
        is_postgres = connection.vendor == "postgresql"
        cursor.execute("SHOW transaction_read_only" if is_postgres else "SELECT 'off'")
        if cursor.fetchone()[0] != "off":
            return "read-only"
        if time.monotonic() < _written_at + WRITTEN_S:
            return ""
        if is_postgres:
            # Have it find room for 16 pages. A temporary table has no WAL and is empty again at
            # commit.
            try:
                cursor.execute(
                    "CREATE TEMPORARY TABLE IF NOT EXISTS write_probe (page text)"
                    " ON COMMIT DELETE ROWS"
                )
                cursor.execute(
                    "INSERT INTO write_probe SELECT repeat('x', 1000) FROM generate_series(1, 128)"
                )
            except ProgrammingError as error:
                # The role may not make temporary tables, which says nothing of the disk.
                log.debug("The database's disk is not probed: %s", error)
        else:
            # Find room for what its log may grow by, and take its lock where nobody has it.
            file = Path(connection.settings_dict["NAME"])
            address = f"file:{quote(str(file))}?mode=rw"
            with closing(sqlite3.connect(address, uri=True, timeout=0)) as own:
                try:
                    own.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                        raise
            if trouble := _find_room_trouble(file.parent):
                return trouble
    _written_at = time.monotonic()
    return ""


def _check_migrations() -> Report:
    """A version whose tables are not there yet serves nobody; newer tables are no hindrance."""
    global _is_migrated
    if not _is_migrated:
        pending = run_queries(Lane.READ, list_pending)
        if pending:
            return {"ok": False, "pending": len(pending)}
        _is_migrated = True
    return {"ok": True}


def _check_home() -> Report:
    """Shown only: with PostgreSQL, requests do without it."""
    look = partial(_find_room_trouble, settings.GATEWAY_HOME)
    # A disk that hangs must not hold the event loop.
    trouble = gevent.get_hub().threadpool.apply(look) if under_gevent() else look()
    return {"ok": False, "error": trouble} if trouble else {"ok": True}


def _find_room_trouble(folder: Path) -> str:
    """Why a megabyte more cannot be written there, or nothing."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(1_048_576))
    except OSError as error:
        return str(error.strerror)
    return ""


def _check_hints() -> Report:
    if not shared_cache().is_configured:
        return {"ok": True, "configured": False}
    if shared_cache().run(lambda store: bool(store.ping()), False, knocks=True):
        return {"ok": True, "configured": True}
    return {"ok": False, "configured": True, "error": shared_cache().error}


def _check_worker() -> Report:
    queues = find_worked_queues()
    return {"ok": all(queues.values()) if None not in queues.values() else None, "queues": queues}


def find_worked_queues() -> dict[str, bool | None]:
    """Which queues a living worker reads; None for each where nobody can tell."""
    names = [_worker_key(queue) for queue in QUEUES]
    alive = shared_cache().run(lambda store: store.mget(names), None)
    if alive is None:
        return dict.fromkeys(QUEUES)
    return {queue: value is not None for queue, value in zip(QUEUES, alive, strict=True)}


def is_beat_alive() -> bool | None:
    """Whether beat sent something lately; None where nobody can tell."""
    name = cache_key("beat-at")
    found = shared_cache().run(lambda store: store.mget([name]), None)
    if found is None:
        return None
    return found[0] is not None and time.time() - float(found[0]) < BEAT_RECENT_S


def read_beat_time() -> float | None:
    """When beat last sent something, in Unix seconds; None where it never did. Raises `OSError`."""
    if not shared_cache().is_configured:
        file = _beat_file()
        return file.stat().st_mtime if file.exists() else None
    name = cache_key("beat-at")
    found = shared_cache().run(lambda store: store.mget([name]), None)
    if found is None:
        raise OSError("the hint store does not answer")
    return float(found[0]) if found[0] else None


def note_beat() -> None:
    """Note that beat sends tasks. The note is in the shared cache, which web processes of other
    hosts read too. Without one it is in a file, since all processes share a home then."""
    if not shared_cache().is_configured:
        _beat_file().touch()
        return
    name = cache_key("beat-at")
    shared_cache().run(lambda store: store.set(name, time.time(), ex=BEAT_KEPT_S), None)


def _beat_file() -> Path:
    path: Path = settings.GATEWAY_HOME / "run" / "beat-sent"
    return path


def note_worker(queues: Iterable[str]) -> None:
    """Note that a worker reads them; without a shared cache there is nowhere to note it. The queue
    of one machine counts as the one it is named after too."""
    parts = [queue.partition("@") for queue in queues]
    read = {each for queue, _, host in parts for each in (queue, _name_worked(queue, host))}
    for name in map(_worker_key, read):
        shared_cache().run(lambda store: store.set(name, 1, ex=WORKER_KEY_S), None, knocks=True)  # noqa: B023 - Called at once.


def _name_worked(queue: str, host: str) -> str:
    """What the queue of that machine is noted as, which tells it from the queue of all."""
    return f"{queue}@{host or DEFAULT_HOST}"


def find_worked_hosts(queue: str, hosts: Iterable[str]) -> dict[str, bool | None]:
    """Of which of the machines a living worker reads its own queue of that name; None for each
    where nobody can tell.

    Those who ask have the database at hand, in a thread that the process's own connection to the
    shared cache is not for.
    """
    wanted = list(hosts)
    names = [_worker_key(_name_worked(queue, host)) for host in wanted]
    with closing(SharedCache(settings.REDIS_URL, timeout_s=settings.REDIS_TIMEOUT)) as hints:
        alive = hints.run(lambda store: store.mget(names), None) if names else []
    if alive is None:
        return dict.fromkeys(wanted)
    return {host: value is not None for host, value in zip(wanted, alive, strict=True)}


def _worker_key(queue: str) -> str:
    return cache_key(f"worker:{queue}")


register_check("database", True, _check_database)
register_check("migrations", True, _check_migrations)
register_check("home", False, _check_home)
register_check("hints", False, _check_hints)
register_check("worker", False, _check_worker)
