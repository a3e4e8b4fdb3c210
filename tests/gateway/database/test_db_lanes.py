"""Where queries run: in place, or in their lane's thread under gevent on SQLite."""

import json
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from gateway.database.db import Lane, run_native, run_queries, under_gevent
from tests.support.bed import PROJECT, Bed

UNDER_GEVENT = """
from gevent import monkey; monkey.patch_all()
import json, django
from gevent.threadpool import ThreadPool
django.setup()
thread = monkey.get_original("_thread", "get_ident")
from django.db import connection
from gateway.database.db import Lane, run_aside, run_queries, run_native, under_gevent
hub = thread()
def where():
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return thread()
def fail():
    raise LookupError("as it was")
pool = ThreadPool(1)
def page():
    where()
    return [thread(), run_aside(thread, threads=lambda: pool), connection.connection is not None]
try:
    run_queries(Lane.READ, fail)
    failed = ""
except LookupError as error:
    failed = str(error)
print(json.dumps({
    "gevent": under_gevent(),
    "failed": failed,
    "read": [run_queries(Lane.READ, where) == hub for _ in range(2)],
    "again": [
        run_queries(outer, lambda: again(Lane.READ, where)) == run_queries(outer, where)
        for outer in (Lane.READ, Lane.LEDGER) for again in (run_queries, run_native)
    ],
    "after": run_queries(Lane.READ, where) == hub,
    "own": run_native(Lane.LEDGER, where) == hub,
    "lanes": len({run_queries(lane, where) for lane in (Lane.READ, Lane.LEDGER)}),
    "page": run_queries(Lane.OPERATOR, page),
    "hub": hub,
    "open": connection.connection is not None,
}))
"""


def test_elsewhere_work_runs_in_place() -> None:
    here = threading.get_ident()
    assert not under_gevent()
    assert run_queries(Lane.READ, threading.get_ident) == here
    assert run_native(Lane.LEDGER, threading.get_ident) == here


@pytest.mark.both
@pytest.mark.django_db(transaction=True)
def test_under_gevent_no_query_holds_the_loop_or_a_connection(stores: Bed) -> None:
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "gateway.settings"}
    program: Any = {"args": [sys.executable, "-c", UNDER_GEVENT], "cwd": PROJECT, "env": env}
    done = subprocess.run(**program, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)

    assert (told["gevent"], told["failed"]) == (True, "as it was")
    if stores.is_postgres:
        # It waits cooperatively; the connection goes back as soon as the work is done.
        assert (told["read"], told["open"]) == ([True, True], False)
        # So does a page's, while it computes elsewhere.
        page, computing, holds = told["page"]
        assert (page, computing == page, holds) == (told["hub"], False, False)
    else:
        # Within a lane nothing queues up again, which would be for ever.
        assert (told["again"], told["after"]) == ([True] * 4, False)
        # In threads of their own, one for each lane.
        assert (told["read"], told["own"], told["lanes"]) == ([False, False], False, 2)
        # A page computes in its own, which nobody else waits for.
        page, computing, _ = told["page"]
        assert (page == told["hub"], computing == page) == (False, True)


FOUR_THREADS = """
import logging, os, runpy
runpy.run_path("gateway/gunicorn.conf.py")
import gevent
from gevent.threadpool import ThreadPool
from django.utils import timezone
logging.basicConfig(filename=os.devnull)
def ask():
    for _ in range(3000):
        timezone.get_current_timezone()
        logging.warning("asked")
pools = [ThreadPool(1) for _ in range(4)]
done = gevent.joinall([gevent.spawn(pool.apply, ask) for pool in pools], timeout=90)
print(len(done), flush=True)
os._exit(0)
"""


def test_no_lane_is_lost_to_a_lock() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FOUR_THREADS], cwd=PROJECT, capture_output=True, timeout=40
    )

    assert done.stdout == b"4\n", done.stderr.decode()
