"""Full days (UTC): their sums, the same in brief, and how figures spread over each.

Whoever calls this holds the lock of the roll-up's progress.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import product
from typing import Final

from django.db import connection

from routing.history.columns import BRIEF, CUTS, MEASURES, SUMS, bucket_sql
from routing.history.dialect import dialect
from routing.history.spans import DAY


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
