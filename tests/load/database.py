"""What PostgreSQL itself says: commits so far, and how long one takes."""

import time

import psycopg

from tests.load.figures import percentile
from tests.support.postgres import PostgresCluster

# A backend hands its counts over at once if it has not done so for a second, else when it has been
# idle for ten.
COUNTERS_LAG_S = 10.5


class CommitCounter:
    """`xact_commit` of one database, read from another, so that reading adds nothing to it."""

    def __init__(self, cluster: PostgresCluster, database: str) -> None:
        self._connection = psycopg.connect(cluster.url("postgres"), autocommit=True)
        self._database = database

    def settled(self) -> int:
        """The count once every idle backend has reported. Takes some ten seconds."""
        time.sleep(COUNTERS_LAG_S)
        row = self._connection.execute(
            "SELECT xact_commit FROM pg_stat_database WHERE datname = %s", [self._database]
        ).fetchone()
        assert row is not None
        return int(row[0])

    def close(self) -> None:
        self._connection.close()


def server_version(cluster: PostgresCluster) -> str:
    with psycopg.connect(cluster.url("postgres")) as connection:
        version = connection.info.server_version
    return f"{version // 10_000}.{version % 10_000}"


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
