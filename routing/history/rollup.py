"""Rolling up generations, an hour at a time: facts, sums by hour, sums by day.

Each hour is one transaction that replaces earlier results, so it can be repeated. An hour with a
late record is rolled up again. Two concurrent roll-ups wait for each other.
"""

import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, Final

from django.conf import settings
from django.db import connection, transaction

from gateway.database.replica import reading_connection
from gateway.end_users import SEPARATOR
from routing.history.columns import (
    BRIEF,
    CUTS,
    FIGURES,
    LINE,
    LIVING,
    MEASURES,
    SALT,
    SUMS,
    bucket_sql,
    raw_columns,
)
from routing.history.dialect import Dialect, dialect, read_moment
from routing.history.models import (
    LateHour,
    UsageBrief,
    UsageDay,
    UsageHour,
    UsageRolled,
    UsageSpread,
)
from routing.history.spans import DAY, HOUR, RollupState, day_of, hour_of
from routing.ledger.records import ROLLED_AFTER
from routing.metering.models import Generation


def replace_days(day: datetime, until: datetime) -> None:
    """Replace the sums of `day` and of the days after it that end by `until`."""
    sql_dialect = dialect()
    names, sums = ", ".join(SUMS), ", ".join(f"SUM({name})" for name in SUMS)
    with connection.cursor() as cursor:
        while day + DAY <= until:
            span = [sql_dialect.moment(day), sql_dialect.moment(day + DAY)]
            cursor.execute("DELETE FROM routing_usageday WHERE start = %s", span[:1])
            cursor.execute(
                f"INSERT INTO routing_usageday (line_id, account_id, start, {names})"  # noqa: S608 - Constant fragments only; the values are bound.
                f" SELECT line_id, account_id, {bound_time()}, {sums} FROM routing_usagehour"
                " WHERE start >= %s AND start < %s GROUP BY line_id, account_id",
                [span[0], *span],
            )
            replace_spreads(day)
            replace_brief(day)
            day += DAY


def replace_spreads(day: datetime) -> None:
    """Replace how figures spread over the generations of a day, computed from its facts."""
    sql_dialect = dialect()
    span = [sql_dialect.moment(day), sql_dialect.moment(day + DAY)]
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM routing_usagespread WHERE start = %s", span[:1])
        for (cut, columns), measure in product(enumerate(CUTS), MEASURES):
            cursor.execute(
                _SPREAD.format(
                    cut=cut,
                    columns=_list_columns(columns),
                    measure=measure,
                    bucket=bucket_sql(f"f.{measure}").replace("%", "%%"),
                    listed=sql_dialect.aggregate(f"f.{measure}"),
                    start=bound_time(),
                ),
                [span[0], *span, *span],
            )


def replace_brief(day: datetime) -> None:
    """Replace the brief sums of a day, computed from its sums."""
    start = dialect().moment(day)
    names, sums = ", ".join(SUMS), ", ".join(f"SUM(f.{name})" for name in SUMS)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM routing_usagebrief WHERE start = %s", [start])
        cursor.execute(
            _BRIEF.format(names=names, sums=sums, columns=_list_columns(BRIEF)), [start, start]
        )


def _list_columns(names: Sequence[str]) -> str:
    return ", ".join(f"l.{name}" for name in names)


# Of all lines that have the cut's columns in common, one represents the others.
_SPREAD: Final = """
    INSERT INTO routing_usagespread
      (cut, measure, line_id, account_id, start, bucket, many, figures)
    SELECT {cut}, '{measure}', c.shown_id, f.account_id, {start}, {bucket}, COUNT(*), {listed}
    FROM (
      SELECT l.id, MIN(l.id) OVER (PARTITION BY l.account_id, {columns}) AS shown_id
      FROM routing_usageline l WHERE l.id IN (
        SELECT h.line_id FROM routing_usagehour h WHERE h.start >= %s AND h.start < %s)) c
    JOIN routing_generationfact f ON f.line_id = c.id
    WHERE f.at >= %s AND f.at < %s AND f.{measure} IS NOT NULL
    GROUP BY 3, 4, 6
"""


_BRIEF: Final = """
    INSERT INTO routing_usagebrief (line_id, account_id, start, {names})
    SELECT c.shown_id, f.account_id, f.start, {sums}
    FROM (
      SELECT l.id, MIN(l.id) OVER (PARTITION BY l.account_id, {columns}) AS shown_id
      FROM routing_usageline l WHERE l.id IN (
        SELECT d.line_id FROM routing_usageday d WHERE d.start = %s)) c
    JOIN routing_usageday f ON f.line_id = c.id
    WHERE f.start = %s
    GROUP BY 1, 2, 3
"""


def bound_time() -> str:
    """The placeholder of a moment where PostgreSQL cannot infer its type."""
    return "%s" if dialect().sqlite else "CAST(%s AS timestamptz)"


# Queries of single generations reach back 31 days; facts are stored a little longer.
FACTS_ASKED: Final = timedelta(days=32)
FACTS_KEPT: Final = timedelta(days=33)
# Queries of sums reach back 365 days.
_SUMS_KEPT: Final = timedelta(days=400)
_WORK_S: Final = 40.0
_LATE_MAX: Final = 500
_DELETED_AT_ONCE: Final = 5_000
# No day is before it.
_FIRST_DAY: Final = datetime(1970, 1, 1, tzinfo=UTC)


def roll_up(now: datetime, *, work_s: float = _WORK_S) -> int:
    """Roll up finished hours and those with late records; returns how many. After `work_s` seconds
    the rest is left to the next run."""
    stop_at = time.monotonic() + work_s
    done = 0
    ends = hour_of(now - ROLLED_AFTER)
    hours = LateHour.objects.order_by("hour").values_list("hour", flat=True).distinct()
    for hour in hours[:_LATE_MAX]:
        if time.monotonic() < stop_at:
            _redo_late_hour(hour, now)
            done += 1
    while time.monotonic() < stop_at and _roll_up_next_hour(ends, now):
        done += 1
    while time.monotonic() < stop_at and _fill_next_brief(now):
        pass
    return done


def read_rollup_state(now: datetime) -> RollupState:
    """Read what is rolled up at this moment where sums are read, in one query."""
    with reading_connection() as database, database.cursor() as cursor:
        cursor.execute(
            "SELECT 0, until, brief_days_from, brief_days_until FROM routing_usagerolled"
            " WHERE id = 1 UNION ALL SELECT 1, hour, NULL, NULL FROM routing_latehour"
        )
        rows = [
            (kind, *(each and read_moment(each) for each in moments))
            for kind, *moments in cursor.fetchall()
        ]
    until, *briefs = next((row[1:] for row in rows if row[0] == 0), (None, None, None))
    late = frozenset(row[1] for row in rows if row[0] == 1 and row[1])
    return RollupState(until, late, hour_of(now - FACTS_ASKED) + HOUR, *briefs)


def mark_late_since(start: datetime, now: datetime) -> int:
    """Mark every hour from `start` on to be rolled up again, for rows that were not written by the
    ledger's writer; returns how many hours.
    """
    first = Generation.objects.filter(created_at__gte=start).order_by("created_at")
    began = first.values_list("created_at", flat=True).first()
    if began is None:
        return 0
    hours = []
    hour = hour_of(began)
    while hour < now:
        hours.append(LateHour(hour=hour))
        hour += HOUR
    LateHour.objects.bulk_create(hours, batch_size=_LATE_MAX)
    return len(hours)


def forget_old(now: datetime) -> int:
    """Delete sums past their time; returns how many rows."""
    deleted = delete_older(UsageSpread, "start", now - FACTS_KEPT)
    deleted += delete_older(UsageHour, "start", now - _SUMS_KEPT)
    deleted += delete_older(UsageBrief, "start", now - _SUMS_KEPT)
    return deleted + delete_older(UsageDay, "start", now - _SUMS_KEPT)


def _roll_up_next_hour(ends: datetime, now: datetime) -> bool:
    """Roll up the next hour before `ends` that has generations; False where there is none."""
    with transaction.atomic():
        mark = _lock_progress(ends)
        if mark.until >= ends:
            return False
        later = Generation.objects.filter(created_at__gte=mark.until, created_at__lt=ends)
        first = later.order_by("created_at").values_list("created_at", flat=True).first()
        if first is None:
            _advance_progress(mark, ends)
            return False
        hour = hour_of(first)
        _replace_hour(hour, now)
        _advance_progress(mark, hour + HOUR)
    return True


def _redo_late_hour(hour: datetime, now: datetime) -> None:
    """Roll up an hour with late records. One that is still to come only loses its marks, and so
    does one whose generations may be gone."""
    with transaction.atomic():
        progress = _lock_progress(hour)
        until, gone_before = progress.until, progress.forgotten_before
        # Read before the generations: a mark that comes later is for the next run.
        marks = list(LateHour.objects.filter(hour=hour).values_list("pk", flat=True))
        if hour < until and (gone_before is None or hour >= gone_before):
            _replace_hour(hour, now)
            replace_days(day_of(hour), min(until, day_of(hour) + DAY))
        LateHour.objects.filter(pk__in=marks).delete()


def _lock_progress(default: datetime) -> UsageRolled:
    """Lock the progress row until the transaction ends; it begins at the first generation."""
    progress = UsageRolled.objects.select_for_update().filter(pk=1).first()
    if progress is None:
        first = Generation.objects.order_by("created_at").values_list("created_at", flat=True)
        since = min(hour_of(first.first() or default), default)
        briefs = {"brief_days_from": _FIRST_DAY, "brief_days_until": day_of(since)}
        UsageRolled.objects.get_or_create(pk=1, defaults={"until": since, **briefs})
        progress = UsageRolled.objects.select_for_update().get(pk=1)
    return progress


def _advance_progress(mark: UsageRolled, until: datetime) -> None:
    """Move the progress, and sum up the days that end before it."""
    day = day_of(mark.until)
    replace_days(day, until)
    if mark.brief_days_until is None or mark.brief_days_until < day:
        # An older version rolled up before.
        mark.brief_days_from = day
    mark.until, mark.brief_days_until = until, day_of(until)
    # The former version, beside this one, would else make all days anew, by its own cuts.
    mark.briefs_until = mark.brief_days_until
    mark.save(update_fields=["until", "brief_days_from", "brief_days_until", "briefs_until"])


def _fill_next_brief(now: datetime) -> bool:
    """Sum up in brief the last of the days that have only sums; False where there is none."""
    with transaction.atomic():
        mark = UsageRolled.objects.select_for_update().filter(pk=1).first()
        if mark is None or mark.brief_days_from in (None, _FIRST_DAY):
            return False
        days = UsageDay.objects.filter(start__lt=mark.brief_days_from).order_by("-start")
        day = days.values_list("start", flat=True).first()
        if day is not None:
            replace_brief(day)
            if day >= now - FACTS_ASKED:
                replace_spreads(day)
        mark.brief_days_from = day or _FIRST_DAY
        mark.save(update_fields=["brief_days_from"])
    return day is not None


def _replace_hour(hour: datetime, now: datetime) -> None:
    """Replace facts and sums of one hour, computed from its generations."""
    sql_dialect = dialect()
    span = [sql_dialect.moment(hour), sql_dialect.moment(hour + HOUR)]
    with connection.cursor() as cursor:
        _insert_lines(cursor, sql_dialect, span)
        cursor.execute("DELETE FROM routing_generationfact WHERE at >= %s AND at < %s", span)
        cursor.execute("DELETE FROM routing_usagehour WHERE start = %s", span[:1])
        _insert_facts(cursor, sql_dialect, span)
        names, sums = ", ".join(SUMS), ", ".join(f"COALESCE({each}, 0)" for each in SUMS.values())
        cursor.execute(
            f"INSERT INTO routing_usagehour (line_id, account_id, start, {names})"  # noqa: S608 - Constant fragments only; the values are bound.
            f" SELECT line_id, account_id, {bound_time()}, {sums} FROM routing_generationfact"
            " WHERE at >= %s AND at < %s GROUP BY line_id, account_id",
            [span[0], *span],
        )
        if hour < now - FACTS_KEPT:
            cursor.execute("DELETE FROM routing_generationfact WHERE at >= %s AND at < %s", span)


def _insert_lines(cursor: Any, sql_dialect: Dialect, span: list[Any]) -> None:
    """Insert new lines; the first title of an application stays."""
    columns = raw_columns(sql_dialect)
    own = ["account_id", "workspace_id", "api_key_id", *LINE]
    values = ", ".join(columns[name] for name in own)
    cursor.execute(
        f"INSERT INTO routing_usageline (key, {', '.join(own)}, app_title)"  # noqa: S608 - Constant fragments only; the values are bound.
        f" SELECT {_line_key_sql(sql_dialect)}, {values}, MAX({columns['app_title']})"
        f" FROM routing_generation g WHERE g.created_at >= %s AND g.created_at < %s AND {LIVING}"
        f" GROUP BY {_line_key_sql(sql_dialect)}, {values} ON CONFLICT DO NOTHING",
        span,
    )


def _insert_facts(cursor: Any, sql_dialect: Dialect, span: list[Any]) -> None:
    columns = raw_columns(sql_dialect)
    own = [
        *("generation_id", "account_id", "at", "external_user", "status", "error_type", "tags"),
        *FIGURES,
    ]
    # Users of all accounts at once: the salt (`gateway.end_users`) is computed in SQL from
    # the bound secret and the row's account.
    salt = f"%s || {sql_dialect.text_of_uuid('g.account_id')} || {sql_dialect.separator}"
    columns = {**columns, "external_user": columns["external_user"].replace(SALT, salt)}
    values = ", ".join(columns[name] for name in own)
    cursor.execute(
        f"INSERT INTO routing_generationfact (line_id, {', '.join(own)})"  # noqa: S608 - Constant fragments only; the values are bound.
        f" SELECT l.id, {values} FROM routing_generation g"
        f" JOIN routing_usageline l ON l.key = {_line_key_sql(sql_dialect)}"
        f" WHERE g.created_at >= %s AND g.created_at < %s AND {LIVING}",
        [f"{settings.ROUTER_USER_HASH_SECRET}{SEPARATOR}", *span],
    )


def _line_key_sql(sql_dialect: Dialect) -> str:
    columns = raw_columns(sql_dialect)
    ids = [sql_dialect.text_of_uuid(columns[name]) for name in ("account_id", "workspace_id")]
    key = f"CAST({columns['api_key_id']} AS text)"
    return f"md5({sql_dialect.join(*ids, key, *(columns[name] for name in LINE))})"


def delete_older(model: Any, column: str, before: datetime, *, stop_at: float = math.inf) -> int:
    """Delete the oldest rows in portions, so that locks are short; none after `stop_at`, which is
    monotonic. Returns how many."""
    total = 0
    old = model.objects.filter(**{f"{column}__lt": before}).order_by(column)
    while time.monotonic() < stop_at:
        pks: Sequence[Any] = list(old.values_list("pk", flat=True)[:_DELETED_AT_ONCE])
        total += model.objects.filter(pk__in=pks).delete()[0] if pks else 0
        if len(pks) < _DELETED_AT_ONCE:
            break
    return total
