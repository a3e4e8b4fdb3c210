"""GET /healthz and GET /readyz.

Apps add what they know with `register_check` when they are ready; a check that decides turns the
answer into 503 when it is not ok.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gevent
from django.db import DatabaseError, InterfaceError, connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from gateway.db import Lane, run, under_gevent
from gateway.hints import hints
from gateway.http.responses import json_response

log = logging.getLogger("gateway")
Report = dict[str, Any]

CHECK_S = 1.8
WORKER_KEY = "gateway:worker"
# Three missed heartbeats of Celery's two seconds, and a little.
WORKER_KEY_S = 8


@dataclass(frozen=True)
class Check:
    """`look` returns a JSON object with `ok`: true, false, or null where nobody can tell."""

    decides: bool
    look: Callable[[], Report]


_checks: dict[str, Check] = {}
# Looks that a probe did not wait for to the end; the next probe does not begin them again.
_under_way: dict[str, gevent.Greenlet] = {}


def register_check(name: str, decides: bool, check: Callable[[], Report]) -> None:
    """Add a check to `/readyz`, or replace the one of that name.

    It is called in a web process for every `/readyz`, beside the other checks, has 1.8 s, and
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
    reports = _reports()
    ready = all(reports[name]["ok"] for name, check in _checks.items() if check.decides)
    body = {"status": "ok" if ready else "unready", "checks": reports}
    return json_response(body, status=200 if ready else 503)


def _reports() -> dict[str, Report]:
    """All checks at once, so that two that wait for one dead store do not add up."""
    if not under_gevent():
        return {name: _report(check) for name, check in _checks.items()}
    for name, check in _checks.items():
        if name not in _under_way or _under_way[name].dead:
            _under_way[name] = gevent.spawn(_report, check)
    looks = {name: _under_way[name] for name in _checks}
    # A look that is late goes on by itself: tearing it away could lose it a pooled connection.
    gevent.joinall(looks.values(), timeout=CHECK_S)
    late: Report = {"ok": False, "error": "timeout"}
    return {name: look.value or late for name, look in looks.items()}


def _report(check: Check) -> Report:
    try:
        return check.look()
    except Exception as error:
        # A probe answers whatever broke: it is the one that tells.
        log.warning("A readiness check failed", exc_info=error)
        return {"ok": False, "error": type(error).__name__}


def _database() -> Report:
    try:
        writable = run(Lane.READ, _is_writable)
    except (DatabaseError, InterfaceError) as error:
        return {"ok": False, "error": type(error).__name__}
    if not writable:
        return {"ok": False, "vendor": connection.vendor, "error": "read-only"}
    return {"ok": True, "vendor": connection.vendor}


def _is_writable() -> bool:
    """A standby, or a server set to read-only, takes no hold, so it serves no request either."""
    query = "SHOW transaction_read_only" if connection.vendor == "postgresql" else "SELECT 'off'"
    with connection.cursor() as cursor:
        cursor.execute(query)
        return bool(cursor.fetchone()[0] == "off")


def _hints() -> Report:
    if not hints().configured:
        return {"ok": True, "configured": False}
    if hints().run(lambda store: bool(store.ping()), False, knocks=True):
        return {"ok": True, "configured": True}
    return {"ok": False, "configured": True, "error": hints().error}


def _worker() -> Report:
    """Null where nobody can tell."""
    return {"ok": hints().run(lambda store: bool(store.exists(WORKER_KEY)), None)}


def worker_lives() -> None:
    """Note that a worker is at work; without a hint store there is nowhere to note it."""
    hints().run(lambda store: bool(store.set(WORKER_KEY, 1, ex=WORKER_KEY_S)), False, knocks=True)


register_check("database", True, _database)
register_check("hints", False, _hints)
register_check("worker", False, _worker)
