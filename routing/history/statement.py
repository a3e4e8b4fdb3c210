"""One statement that sums up an account's generations, over all sources of the queried time.

Each source is summed by the query's groups before the union, so that few rows are joined. Columns
come from fixed lists only; every value of a caller is bound.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final, NamedTuple
from uuid import UUID

from gateway.end_users import user_salt
from routing.history.columns import (
    BRIEF,
    LINE_PREFIX,
    LINES,
    REFUSED,
    ROWS,
    SALT,
    SUMS,
    TABLES,
    TAG,
    bucket_sql,
    find_cut,
    get_columns,
)
from routing.history.dialect import Dialect, Granularity, Sql, sum_by_groups, union_all
from routing.history.metrics import Metric
from routing.history.percentiles import (
    find_needed_buckets,
    rank_values,
    rank_values_of_buckets,
)
from routing.history.spans import Finest, RollupState, Source, Span, split_by_source

_CREATORS: Final = " JOIN accounts_apikey k ON k.id = {key}"
# A name, or the text between two names.
_WORDS: Final = re.compile(r"[a-z_]+|[^a-z_]+")
_AGGREGATES: Final = {**SUMS, REFUSED: f"SUM({REFUSED})"}
_ADDITIVE_OF_SUMS: Final = {name: f"SUM({name})" for name in _AGGREGATES}


class QueryCondition(NamedTuple):
    """`sql` has `{column}` in place of the source's column."""

    column: str
    sql: str
    values: tuple[Any, ...] = ()


@dataclass(frozen=True)
class UsageQuery:
    """A query over [start, end): `groups` are columns, `time` is a period to group by as well.

    `metrics` are by name. `order` are pairs of a name (a metric, a group, "period") and whether it
    descends. `limit` bounds the rows, `group_limit` those of each combination of groups; with
    `fair` the groups share `limit` where there are more. With `titles` each row has an
    application's title; `singles` is for columns that only single generations have.
    """

    account_id: UUID
    start: datetime
    end: datetime
    metrics: Mapping[str, Metric]
    groups: tuple[str, ...] = ()
    time: Granularity | None = None
    conditions: tuple[QueryCondition, ...] = ()
    order: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None
    group_limit: int | None = None
    fair: bool = False
    titles: bool = False
    singles: bool = False


@dataclass
class Statement:
    """The query as SQL, for what is rolled up at this moment."""

    query: UsageQuery
    rolled: RollupState
    dialect: Dialect

    @cached_property
    def names(self) -> list[str]:
        """The columns of the answer, in order; the number of all rows follows them."""
        query = self.query
        titles = ["title"] if query.titles else []
        return [*self._group_names, *query.metrics, *titles]

    @cached_property
    def _group_names(self) -> list[str]:
        query = self.query
        period = ["period"] if query.time else []
        return [*period, *(f"by_{number}" for number in range(len(query.groups)))]

    def text(self) -> Sql:
        """The statement. Where nothing matches, a query without groups returns a row of zeros."""
        ranked = list(dict.fromkeys(m.value for m in self.query.metrics.values() if m.percent))
        parts = [("sums", self._build_sums())]
        parts += [part for value in ranked for part in self._build_ranks(value)]
        parts.append(("joined", self._join_parts(ranked)))
        heads = ", ".join(f"{name} AS ({text.sql})" for name, text in parts)
        rows = self._select_rows()
        values = [value for _, text in parts for value in text.values]
        return Sql(f"WITH {heads} {rows.sql}", (*values, *rows.values))

    # --- Sums -----------------------------------------------------------------------------------

    def _build_sums(self) -> Sql:
        query = self.query
        metrics = query.metrics.values()
        finest: Finest = "day"
        if query.singles or query.time == "minute":
            finest = "fact"
        elif query.time == "hour":
            finest = "hour"
        elif self._list_columns() <= set(BRIEF) and not query.titles and self._has_briefs:
            finest = "brief"
        # At least one sum is needed, so that a group without rows does not appear.
        sum_names = dict.fromkeys(name for m in metrics for name in m.sums) or {"requests": None}
        sources = dict(self._sources(finest))
        if REFUSED in sum_names:
            whole = [(query.start, query.end)]
            sources |= {"refusal": whole, "refusal_count": whole}
        branches = []
        for source, spans in sources.items():
            columns = get_columns(source, self.dialect)
            # Rows of rolled tables are sums already.
            aggregates = _AGGREGATES if source in {"raw", "fact"} else _ADDITIVE_OF_SUMS
            selected = []
            for name in sum_names:
                # The names in an aggregate of `SUMS` are replaced by the source's columns.
                words = _WORDS.findall(aggregates[name])
                selected.append(f"{''.join(columns.get(word, word) for word in words)} AS {name}")
            if query.titles:
                selected.append(f"MAX({columns['app_title']}) AS title")
            branches.append(self._branch(source, spans, selected))
        groups = self._group_names
        sums = [f"COALESCE(SUM({name}), 0) AS {name}" for name in sum_names]
        if query.titles:
            sums.append("MAX(title) AS title")
        return sum_by_groups(branches, [*groups, *sums], groups)

    # --- Percentiles ----------------------------------------------------------------------------

    def _build_ranks(self, value: str) -> list[tuple[str, Sql]]:
        """The percentiles of one value by the groups, as `p50` and so on, in the last part."""
        metrics = self.query.metrics.values()
        percents = list(dict.fromkeys(m.percent for m in metrics if m.value == value))
        groups = self._group_names
        # The cut whose spreads answer for full days; None where none does.
        cut = None
        if not self.query.singles and self.query.time not in {"minute", "hour"}:
            cut = find_cut(self._list_columns(), has_briefs=self._has_briefs)
        sources = self._sources("fact" if cut is None else "spread")
        if cut is None or "spread" not in sources:
            branches = []
            for source, spans in sources.items():
                column = get_columns(source, self.dialect)[value]
                selected = [f"{column} AS value", "COUNT(*) AS many"]
                known = Sql(f"{column} IS NOT NULL")
                branches.append(self._branch(source, spans, selected, by=[column], more=(known,)))
            return [(f"ranks_{value}", rank_values(branches, groups, percents))]
        heaps, needed = f"heaps_{value}", f"needed_{value}"
        branches = [
            self._sort_into_buckets(each, spans, value, cut) for each, spans in sources.items()
        ]
        return [
            (heaps, union_all(branches)),
            (needed, find_needed_buckets(heaps, groups, percents)),
            (
                f"ranks_{value}",
                rank_values_of_buckets(heaps, needed, groups, percents, self.dialect),
            ),
        ]

    @property
    def _has_briefs(self) -> bool:
        return self.rolled.has_briefs(self.query.start)

    def _list_columns(self) -> set[str]:
        """The columns that the query groups by or has conditions on."""
        query = self.query
        names = {*query.groups, *(condition.column for condition in query.conditions)} - {""}
        return {"api_key_id" if name == "user" else name for name in names}

    def _sort_into_buckets(
        self, source: Source, spans: Sequence[Span], value: str, cut: int
    ) -> Sql:
        """The values of each bucket with their number, and how many `times` each of them counts;
        of what has no spreads single values."""
        if source == "spread":
            selected = ["f.bucket AS bucket", "f.many AS many", "1 AS times"]
            selected.append("f.figures AS figures")
            chosen = Sql("f.cut = %s AND f.measure = %s", (cut, value))
            return self._branch(source, spans, selected, by=None, more=(chosen,))
        column = get_columns(source, self.dialect)[value]
        held = bucket_sql(column).replace("%", "%%")
        single = f"{self.dialect.build_list(column)} AS figures"
        selected = [f"{held} AS bucket", "COUNT(*) AS many", "COUNT(*) AS times", single]
        known = Sql(f"{column} IS NOT NULL")
        return self._branch(source, spans, selected, by=[column], more=(known,))

    # --- One source -----------------------------------------------------------------------------

    def _sources(self, finest: Finest) -> Mapping[Source, list[Span]]:
        query = self.query
        return split_by_source(query.start, query.end, self.rolled, finest=finest)

    def _branch(
        self,
        source: Source,
        spans: Sequence[Span],
        selected: Sequence[str],
        *,
        by: Sequence[str] | None = (),
        more: Iterable[Sql] = (),
    ) -> Sql:
        """The `selected` columns of the account's rows of one source, grouped by the groups and
        `by`; with None ungrouped."""
        columns = {
            **get_columns(source, self.dialect),
            "user": "COALESCE(k.creator_id, 0)",
            "tag": f"COALESCE({TAG}, '')",
            "": "''",
        }
        groups = {f"by_{number}": columns[name] for number, name in enumerate(self.query.groups)}
        if self.query.time:
            period = self.dialect.period_start(self.query.time, columns["at"])
            groups = {"period": period, **groups}
        columns_sql = [f"{sql} AS {name}" for name, sql in groups.items()] + list(selected)
        conditions = [*self._build_conditions(source, spans, columns), *more]
        where = " AND ".join(each.sql for each in conditions)
        grouped = [] if by is None else [*(str(1 + n) for n in range(len(groups))), *by]
        if grouped and self.query.time and source in {"hour", "day", "brief"}:
            # The period of each moment, not of each row: sums have many rows of one moment.
            grouped[0] = columns["at"]
        grouping = f" GROUP BY {', '.join(grouped)}" if grouped else ""
        values = [salt for sql in columns_sql for salt in self._salts(sql)]
        values += [value for each in conditions for value in each.values]
        tables = self._list_tables(source, columns)
        return Sql(
            f"SELECT {', '.join(columns_sql)} FROM {tables} WHERE {where}{grouping}",  # noqa: S608 - Constant fragments only; the values are bound.
            tuple(values),
        )

    def _list_tables(self, source: Source, columns: Mapping[str, str]) -> str:
        """The source's table, joined with others only where a column needs them."""
        query = self.query
        names = {*query.groups, *(condition.column for condition in query.conditions)}
        names |= {"app_title"} if query.titles else set()
        names |= {"api_key_id"} if "user" in names else set()
        needed = any(columns[name].startswith(LINE_PREFIX) for name in names)
        creators = _CREATORS.format(key=columns["api_key_id"]) if "user" in names else ""
        tags = ""
        if "tag" in names:
            # A row of each tag, and one of what has none.
            tags = f" LEFT JOIN {self.dialect.tags(columns['tags'])} ON 1 = 1"
        return TABLES[source] + (LINES if needed else "") + creators + tags

    def _build_conditions(
        self, source: Source, spans: Sequence[Span], columns: Mapping[str, str]
    ) -> list[Sql]:
        query, sql_dialect = self.query, self.dialect
        at = columns["at"]
        within = " OR ".join([f"({at} >= %s AND {at} < %s)"] * len(spans))
        moments = tuple(sql_dialect.moment(each) for span in spans for each in span)
        conditions = [
            Sql(f"{columns['account_id']} = %s", (sql_dialect.uuid(query.account_id),)),
            Sql(f"({within})", moments),
        ]
        if source in ROWS:
            conditions.append(Sql(ROWS[source]))
        for each in query.conditions:
            conditions.append(self._insert_column(each, columns[each.column]))
        return conditions

    def _insert_column(self, condition: QueryCondition, column: str) -> Sql:
        """Insert the column, and the values it binds among the condition's own."""
        pieces = condition.sql.split("{column}")
        values: list[Any] = []
        left = list(condition.values)
        for number, piece in enumerate(pieces):
            values += self._salts(column) if number else ()
            count = piece.count("%s")
            values += left[:count]
            left = left[count:]
        return Sql(column.join(pieces), tuple(values))

    def _salts(self, sql: str) -> tuple[str, ...]:
        return (user_salt(self.query.account_id),) * sql.count(SALT)

    # --- All of it ------------------------------------------------------------------------------

    def _join_parts(self, ranked: Sequence[str]) -> Sql:
        groups = self._group_names
        selected = [f"sums.{name}" for name in groups]
        for name, metric in self.query.metrics.items():
            ranks = f"ranks_{metric.value}.p{metric.percent}"
            selected.append(f"{ranks if metric.percent else metric.sql} AS {name}")
        if self.query.titles:
            selected.append("title")
        joins = ""
        for value in ranked:
            same = " AND ".join(f"sums.{name} = ranks_{value}.{name}" for name in groups)
            joins += f" LEFT JOIN ranks_{value} ON {same or '1 = 1'}"
        return Sql(f"SELECT {', '.join(selected)} FROM sums{joins}")  # noqa: S608 - Constant fragments only.

    def _select_rows(self) -> Sql:
        """The rows in order, each with the number of rows before any limit."""
        query = self.query
        order = self._build_order()
        names = ", ".join(self.names)
        if not (query.group_limit or query.fair):
            limit = "" if query.limit is None else " LIMIT %s"
            values = () if query.limit is None else (query.limit,)
            counted = f"SELECT {names}, COUNT(*) OVER () AS rows_found FROM joined"  # noqa: S608 - Constant fragments only.
            return Sql(f"{counted}{order}{limit}", values)
        dimensions = [name for name in self._group_names if name != "period"]
        among = f"PARTITION BY {', '.join(dimensions)}" if dimensions else ""
        placed = (
            f"SELECT {names}, COUNT(*) OVER () AS rows_found,"  # noqa: S608 - Constant fragments only.
            f" ROW_NUMBER() OVER ({among}{order}) AS place FROM joined"
        )
        if query.group_limit:
            rows = Sql("place <= %s", (query.group_limit,))
        else:
            distinct = f"SELECT DISTINCT {', '.join(dimensions)} FROM joined"  # noqa: S608 - Constant fragments only.
            share = f"%s / (SELECT COUNT(*) FROM ({distinct}) combinations)"  # noqa: S608 - Constant fragments only.
            most = query.limit
            rows = Sql(f"(rows_found <= %s OR place = 1 OR place <= {share})", (most, most))
        return Sql(
            f"SELECT {names}, rows_found FROM ({placed}) placed WHERE {rows.sql}{order} LIMIT %s",  # noqa: S608 - Constant fragments only.
            (*rows.values, query.limit),
        )

    def _build_order(self) -> str:
        query = self.query
        by_column = {group: f"by_{number}" for number, group in enumerate(query.groups)}
        texts = {f"by_{n}" for n, group in enumerate(query.groups) if group not in _NO_TEXTS}
        chosen = [(by_column.get(name, name), down) for name, down in query.order]
        named = {name for name, _ in chosen}
        chosen += [(name, False) for name in self._group_names if name not in named]
        terms = [
            f"{name}{self.dialect.bytewise if name in texts else ''}"
            f" {'DESC' if down else 'ASC'} NULLS LAST"
            for name, down in chosen
        ]
        return f" ORDER BY {', '.join(terms)}" if terms else ""


_NO_TEXTS: Final = frozenset({"api_key_id", "user", "workspace_id", "status"})
