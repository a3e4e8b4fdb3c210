"""A flood of refusals beside good requests.

`python -m tests.load.flooding URL PER_S SECONDS` posts LOAD_BODY with the key LOAD_KEY and the
headers LOAD_HEADERS (JSON). It does so PER_S times a second, however long answers take, and prints
a `Paced` as JSON.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from gevent import joinall, sleep, spawn
from gevent.socket import create_connection

from tests.load.books import read_row
from tests.load.figures import percentile
from tests.load.stand import DATABASE
from tests.load.targets import LoadFailed, Target, read_answer, request_bytes
from tests.support import processes
from tests.support.manage import PROJECT
from tests.support.postgres import PostgresCluster

REFUSALS_PER_S: Final = 500
GOOD_PER_S: Final = 40
# Enough that none has to wait for another's answer.
_CONNECTIONS: Final = 20
_GRACE_S: Final = 30.0
# Counts are written within a second, by each process.
_WRITTEN_S: Final = 5.0
_SENT: Final = """
    SELECT coalesce(max(of_second), 0), coalesce(sum(of_second), 0),
        (SELECT coalesce(sum(requests), 0) FROM routing_failedrequestcount),
        (SELECT count(*) FROM routing_failedrequestcount)
    FROM (
        SELECT count(*) AS of_second FROM routing_failedrequest
        GROUP BY api_key_id, date_trunc('second', at)
    ) AS seconds
"""


@dataclass(frozen=True)
class Paced:
    """How long each answer took, and how many came with each status."""

    taken_ms: Sequence[float]
    statuses: dict[str, int]

    @property
    def p50_ms(self) -> float:
        return percentile(self.taken_ms, 50)

    @property
    def p95_ms(self) -> float:
        return percentile(self.taken_ms, 95)


@dataclass(frozen=True)
class Flooded:
    """p95 of good requests alone and beside a flood. Also what the tables hold of the floods so
    far: records of the fullest second of a key, records, counted requests, and rows of counts."""

    quiet_ms: float
    flooded_ms: float
    in_a_second: int
    records: int
    counted: int
    counts: int


def start_paced(target: Target, per_s: int, seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.load.flooding", target.url, str(per_s), str(seconds)],
        cwd=PROJECT,
        env={
            **os.environ,
            "LOAD_BODY": target.body,
            "LOAD_KEY": target.key,
            "LOAD_HEADERS": json.dumps(dict(target.headers)),
        },
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=processes.dies_with_parent(),
    )


def read_paced(process: subprocess.Popen[str], seconds: float) -> Paced:
    """What it printed. Raises `LoadFailed`."""
    printed, _ = process.communicate(timeout=seconds + _GRACE_S)
    if process.returncode:
        raise LoadFailed(f"flooding ended with {process.returncode}")
    return Paced(**json.loads(printed))


def measure_flood(
    pace: Callable[[float], Paced],
    unknown: Target,
    seconds: float,
    postgres: PostgresCluster,
    turns: Iterable[None],
) -> list[Flooded]:
    """Good requests, which `pace` sends, alone and beside 500 refusals a second, in turn."""
    found, refused = [], 0
    for _ in turns:
        quiet = pace(seconds)
        flood = start_paced(unknown, REFUSALS_PER_S, seconds)
        flooded = pace(seconds)
        refused += read_paced(flood, seconds).statuses.get("400", 0)
        tables = read_tables(postgres, expected=refused)
        found.append(Flooded(quiet.p95_ms, flooded.p95_ms, *tables))
    return found


def read_tables(postgres: PostgresCluster, *, expected: int) -> tuple[int, int, int, int]:
    """The last four of a `Flooded`, once all `expected` refusals are there. Raises `LoadFailed`."""
    until = time.monotonic() + _WRITTEN_S
    while True:
        in_a_second, records, counted, counts = map(
            int, read_row(postgres, _SENT, database=DATABASE)
        )
        if records + counted >= expected or time.monotonic() > until:
            break
        time.sleep(0.2)
    if records + counted != expected:
        raise LoadFailed(f"{records} records and {counted} counted of {expected} refusals")
    return in_a_second, records, counted, counts


def _post_paced(target: Target, *, per_s: int, seconds: float) -> Paced:
    request, taken_ms, statuses = request_bytes(target), list[float](), dict[str, int]()
    began, whole = time.monotonic(), round(per_s * seconds)

    def post_share(first: int) -> None:
        with create_connection(target.address, timeout=_GRACE_S) as connection:
            for number in range(first, whole, _CONNECTIONS):
                sleep(max(0.0, began + number / per_s - time.monotonic()))
                sent_at = time.monotonic()
                connection.sendall(request)
                status = read_answer(connection)[9:12].decode()
                taken_ms.append((time.monotonic() - sent_at) * 1e3)
                statuses[status] = statuses.get(status, 0) + 1

    joinall([spawn(post_share, first) for first in range(_CONNECTIONS)], raise_error=True)
    return Paced(taken_ms, statuses)


if __name__ == "__main__":
    url, per_s, seconds = sys.argv[1:]
    headers = json.loads(os.environ["LOAD_HEADERS"])
    paced = Target(url, os.environ["LOAD_KEY"], os.environ["LOAD_BODY"], headers)
    done = _post_paced(paced, per_s=int(per_s), seconds=float(seconds))
    sys.stdout.write(json.dumps(asdict(done)) + "\n")
