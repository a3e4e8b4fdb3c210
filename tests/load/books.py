"""What PostgreSQL says: commits so far, how long one takes, and the books after a run."""

import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.load.figures import percentile
from tests.load.stand import COMPLETION_NANO, DATABASE, PROMPT_NANO, Stand
from tests.support import processes
from tests.support.postgres import PostgresCluster

# Callers that the load generator cut off are settled within this.
_SETTLE_S = 15.0
_COUNTS = """
    SELECT count(*), count(*) FILTER (
        WHERE status = 200 AND NOT cancelled AND NOT lost AND (
            tokens_completion = 0
            OR charge_nano <> tokens_prompt * %s + tokens_completion * %s
        )
    )
    FROM routing_generation
"""


# A backend hands its counts over at once if it has not done so for a second, else when it has been
# idle for ten.
COUNTERS_LAG_S = 10.5


def read_row(cluster: PostgresCluster, sql: str, *values: Any, database: str = "postgres") -> Any:
    """The one row of a query."""
    with psycopg.connect(cluster.url(database)) as connection:
        row = connection.execute(sql, values).fetchone()
    assert row is not None
    return row


def settled_commits(cluster: PostgresCluster, database: str) -> int:
    """`xact_commit` of one database once every idle backend has reported, some ten seconds later;
    read from another one, so that reading adds nothing."""
    time.sleep(COUNTERS_LAG_S)
    sql = "SELECT xact_commit FROM pg_stat_database WHERE datname = %s"
    return int(read_row(cluster, sql, database)[0])


def commit_p50_ms(cluster: PostgresCluster, *, seconds: float) -> float:
    """The median time of one transaction that updates one row, one after another."""
    taken_ms: list[float] = []
    with psycopg.connect(cluster.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS commit_probe (id int PRIMARY KEY, n bigint)")
        connection.execute("INSERT INTO commit_probe VALUES (1, 0) ON CONFLICT DO NOTHING")
        until = time.monotonic() + seconds
        while (began := time.monotonic()) < until:
            connection.execute("UPDATE commit_probe SET n = n + 1 WHERE id = 1")
            taken_ms.append((time.monotonic() - began) * 1e3)
    return percentile(taken_ms, 50)


@dataclass(frozen=True)
class Books:
    """`answered` requests the load generators saw; `generations` the database holds.

    `mischarged` are finished ones whose charge is not their tokens at the catalogue's prices.
    """

    mismatches: list[str]
    open_holds: int
    generations: int
    answered: int
    mischarged: int

    def problems(self) -> list[str]:
        """A line for each thing that must not be; none when all is well."""
        count, held, wrong = self.generations, self.open_holds, self.mischarged
        found = {
            f"{held} holds are still open though no request is": held,
            f"{self.answered} answers, but only {count} generations": count < self.answered,
            f"{wrong} generations are not charged what their tokens cost": wrong,
        }
        mismatches = [f"the books do not agree: {mismatch}" for mismatch in self.mismatches]
        return mismatches + [problem for problem, holds in found.items() if holds]

    def tell(self) -> bool:
        """Say what was found; whether all is well."""
        problems = self.problems()
        for problem in problems:
            sys.stderr.write(f"bench: {problem}\n")
        if not problems:
            sys.stdout.write(f"The books agree after {self.generations} generations.\n")
        return not problems


def closed_books(stand: Stand, *, answered: int) -> Books:
    """The audit once no hold is open, or when waiting for that has taken long enough."""
    found: dict[str, Any] = {}

    def at_rest() -> bool:
        found.update(stand.gateway.run_command("audit_ledger", "--json").json())
        return not found["open_holds"]

    with suppress(TimeoutError):
        processes.eventually(at_rest, within_s=_SETTLE_S, what="the last settlement", log=None)
    prices = PROMPT_NANO, COMPLETION_NANO
    generations, mischarged = read_row(stand.postgres, _COUNTS, *prices, database=DATABASE)
    return Books(found["mismatches"], found["open_holds"], generations, answered, mischarged)
