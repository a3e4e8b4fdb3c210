"""Examinations of the database, its migrations and the shared cache."""

import time
from collections.abc import Iterator
from typing import Any, Final

import redis
from django.conf import settings
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from gateway.database.db import DATABASE_GONE
from gateway.database.migration_state import list_foreign, list_pending
from gateway.database.replica import REPLICA
from gateway.doctor.findings import Finding, Question, State
from gateway.shared_cache import build_pool

# The oldest that Django takes.
POSTGRES_MIN: Final = 14
# Leases and limits of several machines are compared by their clocks.
SKEW_MAX_S: Final = 2.0
# Of what is shown an hour or a day long nobody misses a minute.
LAG_MAX_S: Final = 60.0
_NAMES_MAX: Final = 3
_LOOK_S: Final = 2.0


def examine_database(question: Question) -> Iterator[Finding]:
    connection.ensure_connection()
    if connection.vendor != "postgresql":
        state: State = "warning" if settings.PRODUCTION else "ok"
        advice = "Set DATABASE_URL to a PostgreSQL server: more machines need it."
        yield Finding("database", state, "SQLite, which serves one machine", advice)
        return
    version = _ask("SHOW server_version_num") // 10_000
    if version < POSTGRES_MIN:
        need = f"PostgreSQL {POSTGRES_MIN} or newer is needed."
        yield Finding("database", "problem", f"PostgreSQL {version} is too old", need)
    else:
        yield Finding("database", "ok", f"PostgreSQL {version}")
    yield from _examine_rights()
    yield from _examine_server()
    yield _compare_clocks("database", _ask("SELECT extract(epoch FROM clock_timestamp())::float8"))
    if REPLICA in settings.DATABASES:
        yield _examine_replica(connections[REPLICA])


def _examine_replica(replica: BaseDatabaseWrapper) -> Finding:
    try:
        is_standby = _ask("SELECT pg_is_in_recovery()", replica)
        # Without writes a standby replays nothing, and has all there is.
        lag_s = _ask(
            "SELECT CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0"
            " ELSE coalesce(extract(epoch FROM now() - pg_last_xact_replay_timestamp()), 0)"
            " END::float8",
            replica,
        )
    except DATABASE_GONE as error:
        text = f"it does not answer: {next(iter(str(error).splitlines()), '')}"
        return Finding("read replica", "warning", text, "Sums are read from the database instead.")
    if not is_standby:
        advice = "Name a standby of DATABASE_URL's server in DATABASE_READ_URL."
        return Finding("read replica", "problem", "the server is no standby", advice)
    if lag_s > LAG_MAX_S:
        advice = "Sums are as old as that: see what holds its replay up."
        return Finding("read replica", "warning", f"it is {lag_s:.0f} s behind", advice)
    return Finding("read replica", "ok", f"it is {lag_s:.1f} s behind")


def _examine_rights() -> Iterator[Finding]:
    role, schema = _ask("SELECT current_user"), _ask("SELECT current_schema()")
    rights = {
        "make tables": f"has_schema_privilege('{schema}', 'CREATE')" if schema else "false",
        "make temporary tables": "has_database_privilege(current_database(), 'TEMPORARY')",
    }
    missing = [name for name, right in rights.items() if not _ask(f"SELECT {right}")]
    if missing:
        give = f"GRANT ALL ON DATABASE ... TO {role}; GRANT ALL ON SCHEMA public TO {role};"
        text = f"the role {role} may not {' nor '.join(missing)}"
        yield Finding("database rights", "problem", text, give)
    elif _ask("SELECT rolsuper FROM pg_roles WHERE rolname = current_user"):
        advice = "Give the gateway a role of its own that owns its database and nothing else."
        yield Finding("database rights", "warning", f"the role {role} is a superuser", advice)
    else:
        yield Finding("database rights", "ok", f"the role {role} has what it needs")


def _examine_server() -> Iterator[Finding]:
    if _ask("SHOW transaction_read_only") != "off":
        advice = "Name the primary in DATABASE_URL."
        yield Finding("database writes", "problem", "the server is read-only, a standby", advice)
    lax = [each for each in ("fsync", "full_page_writes") if _ask(f"SHOW {each}") == "off"]
    if _ask("SHOW synchronous_commit") == "off":
        lax.append("synchronous_commit")
    if lax:
        advice = "Turn it on: a charge that was acknowledged must survive a power cut."
        yield Finding("database durability", "problem", f"{' and '.join(lax)} is off", advice)
    else:
        yield Finding("database durability", "ok", "what is committed survives a power cut")
    most = int(_ask("SHOW max_connections"))
    # The pool, the ledger's own, and as many for another master while this one is replaced.
    wanted = 2 * settings.WEB_CONCURRENCY * (settings.DATABASE_POOL_SIZE + 1)
    text = f"{most} connections; web processes of this machine may take {wanted} in an upgrade"
    if wanted > 0.8 * most:
        advice = "Raise max_connections, or lower DATABASE_POOL_SIZE or WEB_CONCURRENCY."
        yield Finding("database connections", "warning", text, advice)
    else:
        yield Finding("database connections", "ok", text)


def _ask(query: str, database: BaseDatabaseWrapper | None = None) -> Any:
    with (database or connection).cursor() as cursor:
        cursor.execute(query)
        value = cursor.fetchone()[0]
    return int(value) if isinstance(value, str) and value.isdigit() else value


def _compare_clocks(other: str, moment: float) -> Finding:
    """`moment` is the other's clock, in seconds since 1970."""
    skew_s = abs(time.time() - moment)
    text = f"this machine's and the {other}'s clocks are {skew_s:.1f} s apart"
    if skew_s > SKEW_MAX_S:
        return Finding("clock", "problem", text, "Run chrony or systemd-timesyncd on both.")
    return Finding("clock", "ok", text)


def examine_migrations(question: Question) -> Iterator[Finding]:
    pending, foreign = list_pending(), list_foreign()
    if pending:
        advice = "Run: manage.py migrate --noinput"
        yield Finding("migrations", "problem", f"{_name(pending)} not applied", advice)
    if foreign:
        advice = "A newer version migrated this database: see manage.py downgrade_check"
        yield Finding("migrations", "warning", f"{_name(foreign)} unknown to this version", advice)
    if not (pending or foreign):
        yield Finding("migrations", "ok", "the tables are those of this version")


def _name(migrations: list[tuple[str, str]]) -> str:
    names = [".".join(each) for each in migrations]
    more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
    return f"{', '.join(names[:_NAMES_MAX])}{more} {'is' if len(names) == 1 else 'are'}"


def examine_hint_store(question: Question) -> Iterator[Finding]:
    if not settings.REDIS_URL:
        if settings.PRODUCTION:
            advice = "Set REDIS_URL: limits and workers need it with more than one process."
            yield Finding("redis", "warning", "no Redis or Valkey is configured", advice)
        else:
            yield Finding("redis", "ok", "none is configured")
        return
    pool = build_pool(settings.REDIS_URL, timeout_s=_LOOK_S, connections=1)
    store = redis.Redis.from_pool(pool)
    try:
        seconds, micros = store.time()
    except (redis.RedisError, OSError) as error:
        advice = "Inference goes on; limits are each process's own, and no jobs are done."
        yield Finding("redis", "problem", f"it does not answer: {error}", advice)
        return
    with store:
        yield Finding("redis", "ok", "it answers")
        yield _compare_clocks("hint store", seconds + micros / 1e6)
        yield _examine_policy(store)


def _examine_policy(store: redis.Redis) -> Finding:
    try:
        policy = store.config_get("maxmemory-policy").get("maxmemory-policy") or ""
    except redis.RedisError:
        return Finding("redis policy", "unknown", "this user may not read maxmemory-policy")
    if policy.startswith("allkeys"):
        advice = "CONFIG SET maxmemory-policy noeviction; what is evicted may be a job."
        return Finding("redis policy", "problem", f"maxmemory-policy is {policy}", advice)
    return Finding("redis policy", "ok", f"maxmemory-policy is {policy}")
