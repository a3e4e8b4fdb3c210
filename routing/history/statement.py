"""One statement that sums an account's generations up, over whatever sources tell of their time.

Every source is summed by the groups that are asked for before they are put together, so that few
rows are. Columns come from lists of ours alone; everything a caller said is bound.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final, NamedTuple
from uuid import UUID

from routing.entities.end_users import user_salt
from routing.history.columns import (
    LINE_PREFIX,
    LINES,
    LIVING,
    SALT,
    SUMS,
    TABLES,
    bucket_sql,
    find_cut,
    get_columns,
)
from routing.history.dialect import Dialect, Granularity
from routing.history.metrics import Metric
from routing.history.percentiles import (
    needed_buckets,
    percentiles_in,
    percentiles_of,
)
from routing.history.spans import Finest, RollupState, Source, Span, split_by_source
from routing.history.sql import Sql, sum_by_groups, union_all

_CREATORS: Final = " JOIN accounts_apikey k ON k.id = {key}"
# A name, or whatever stands between two.
_WORDS: Final = re.compile(r"[a-z_]+|[^a-z_]+")
_ADDITIVE_OF_SUMS: Final = {name: f"SUM({name})" for name in SUMS}


class QueryCondition(NamedTuple):
    """`sql` has `{column}` where the column of the source is to stand."""

    column: str
    sql: str
    values: tuple[Any, ...] = ()


@dataclass(frozen=True)
class UsageQuery:
    """What of [start, end) is asked: `groups` are columns, `time` the period to group by besides.

    `metrics` are by name. `order` are pairs of a name (a metric, a group, "period") and whether it
    descends. `limit` bounds the rows, `group_limit` those of each combination of groups; with
    `fair` the groups share `limit` where there are more. With `titles` each row has the title of
    an application in it; `singles` is for columns that only single generations have.
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
    """The question as SQL, for what is rolled up at this moment."""

    question: UsageQuery
    rolled: RollupState
    dialect: Dialect

    @cached_property
    def names(self) -> list[str]:
        """The columns of the answer, in order; behind them stands how many rows there are."""
        asked = self.question
        titles = ["title"] if asked.titles else []
        return [*self._group_names, *asked.metrics, *titles]

    @cached_property
    def _group_names(self) -> list[str]:
        asked = self.question
        period = ["period"] if asked.time else []
        return [*period, *(f"by_{number}" for number in range(len(asked.groups)))]

    def text(self) -> Sql:
        """The whole statement. Of no rows at all, a question without groups has one of zeros."""
        ranked = self._ranked_values()
        parts = [("sums", self._sums())]
        parts += [part for value in ranked for part in self._ranks(value)]
        parts.append(("told", self._told(ranked)))
        heads = ", ".join(f"{name} AS ({text.sql})" for name, text in parts)
        rows = self._rows()
        values = [value for _, text in parts for value in text.values]
        return Sql(f"WITH {heads} {rows.sql}", (*values, *rows.values))

    # --- Sums -----------------------------------------------------------------------------------

    def _sums(self) -> Sql:
        metrics = self.question.metrics.values()
        # Something is counted in any case: a group without a row must not become one.
        wanted = dict.fromkeys(name for m in metrics for name in m.sums) or {"requests": None}
        branches = [
            self._summed(source, spans, list(wanted))
            for source, spans in self._sources(self._finest()).items()
        ]
        groups = self._group_names
        sums = [f"COALESCE(SUM({name}), 0) AS {name}" for name in wanted]
        if self.question.titles:
            sums.append("MAX(title) AS title")
        return sum_by_groups(branches, [*groups, *sums], groups)

    def _summed(self, source: Source, spans: Sequence[Span], wanted: Sequence[str]) -> Sql:
        """One source by the groups. Rows of rolled tables are sums already."""
        columns = get_columns(source, self.dialect)
        rolled = source in {"hour", "day"}
        whole = _ADDITIVE_OF_SUMS if rolled else SUMS
        told = [f"{_of_columns(whole[name], columns)} AS {name}" for name in wanted]
        if self.question.titles:
            told.append(f"MAX({columns['app_title']}) AS title")
        return self._branch(source, spans, told)

    # --- Percentiles ----------------------------------------------------------------------------

    def _ranked_values(self) -> list[str]:
        return list(dict.fromkeys(m.value for m in self.question.metrics.values() if m.percent))

    def _percents(self, value: str) -> list[int]:
        metrics = self.question.metrics.values()
        return list(dict.fromkeys(m.percent for m in metrics if m.value == value))

    def _ranks(self, value: str) -> list[tuple[str, Sql]]:
        """The percentiles of one value by the groups, as `p50` and so on, in the last part."""
        groups, percents = self._group_names, self._percents(value)
        cut = self._cut()
        sources = self._sources("fact" if cut is None else "spread")
        if "spread" not in sources:
            branches = [self._counted(each, spans, value) for each, spans in sources.items()]
            return [(f"ranks_{value}", percentiles_of(branches, groups, percents))]
        assert cut is not None
        heaps, needed = f"heaps_{value}", f"needed_{value}"
        branches = [self._in_buckets(each, spans, value, cut) for each, spans in sources.items()]
        return [
            (heaps, union_all(branches)),
            (needed, needed_buckets(heaps, groups, percents)),
            (f"ranks_{value}", percentiles_in(heaps, needed, groups, percents, self.dialect)),
        ]

    def _cut(self) -> int | None:
        """The cut that tells of whole days."""
        asked = self.question
        if asked.singles or asked.time in {"minute", "hour"}:
            return None
        names = {*asked.groups, *(condition.column for condition in asked.conditions)} - {""}
        return find_cut({"api_key_id" if name == "user" else name for name in names})

    def _counted(self, source: Source, spans: Sequence[Span], value: str) -> Sql:
        column = get_columns(source, self.dialect)[value]
        told = [f"{column} AS value", "COUNT(*) AS many"]
        known = Sql(f"{column} IS NOT NULL")
        return self._branch(source, spans, told, by=[column], more=(known,))

    def _in_buckets(self, source: Source, spans: Sequence[Span], value: str, cut: int) -> Sql:
        """How many values are in each bucket, and which; often one value alone, how often."""
        if source == "spread":
            told = ["f.bucket AS bucket", "f.many AS many", "f.figures AS figures"]
            chosen = Sql("f.cut = %s AND f.measure = %s", (cut, value))
            return self._branch(source, spans, told, by=None, more=(chosen,))
        column = get_columns(source, self.dialect)[value]
        held = bucket_sql(column).replace("%", "%%")
        single = f"{self.dialect.list_of(column)} AS figures"
        told = [f"{held} AS bucket", "COUNT(*) AS many", single]
        known = Sql(f"{column} IS NOT NULL")
        return self._branch(source, spans, told, by=[column], more=(known,))

    # --- One source -----------------------------------------------------------------------------

    def _sources(self, finest: Finest) -> Mapping[Source, list[Span]]:
        asked = self.question
        return split_by_source(asked.start, asked.end, self.rolled, finest=finest)

    def _finest(self) -> Finest:
        asked = self.question
        if asked.singles or asked.time == "minute":
            return "fact"
        return "hour" if asked.time == "hour" else "day"

    def _branch(
        self,
        source: Source,
        spans: Sequence[Span],
        told: Sequence[str],
        *,
        by: Sequence[str] | None = (),
        more: Iterable[Sql] = (),
    ) -> Sql:
        """`told` by the groups and whatever else is named, of the account's rows of one source;
        with None row for row."""
        columns = self._columns(source)
        groups = self._group_columns(columns)
        shown = [f"{sql} AS {name}" for name, sql in groups.items()] + list(told)
        conditions = [*self._conditions(source, spans, columns), *more]
        where = " AND ".join(each.sql for each in conditions)
        grouped = [] if by is None else [*(str(1 + n) for n in range(len(groups))), *by]
        grouping = f" GROUP BY {', '.join(grouped)}" if grouped else ""
        values = [salt for sql in shown for salt in self._salts(sql)]
        values += [value for each in conditions for value in each.values]
        tables = self._tables(source, columns)
        return Sql(
            f"SELECT {', '.join(shown)} FROM {tables} WHERE {where}{grouping}",  # noqa: S608 - Constant fragments only; the values are bound.
            tuple(values),
        )

    def _columns(self, source: Source) -> Mapping[str, str]:
        columns = get_columns(source, self.dialect)
        return {**columns, "user": "COALESCE(k.creator_id, 0)", "": "''"}

    def _group_columns(self, columns: Mapping[str, str]) -> dict[str, str]:
        asked = self.question
        found: dict[str, str] = {}
        if asked.time:
            found["period"] = self.dialect.began(asked.time, columns["at"])
        for number, group in enumerate(asked.groups):
            found[f"by_{number}"] = columns[group]
        return found

    def _tables(self, source: Source, columns: Mapping[str, str]) -> str:
        """With what the columns need: for many a question the sums alone will do."""
        asked = self.question
        names = {*asked.groups, *(condition.column for condition in asked.conditions)}
        names |= {"app_title"} if asked.titles else set()
        names |= {"api_key_id"} if "user" in names else set()
        needed = any(columns[name].startswith(LINE_PREFIX) for name in names)
        creators = _CREATORS.format(key=columns["api_key_id"]) if "user" in names else ""
        return TABLES[source] + (LINES if needed else "") + creators

    def _conditions(
        self, source: Source, spans: Sequence[Span], columns: Mapping[str, str]
    ) -> list[Sql]:
        asked, spelled = self.question, self.dialect
        found = [Sql(f"{columns['account_id']} = %s", (spelled.uuid(asked.account_id),))]
        found.append(self._within(spans, columns["at"]))
        if source == "raw":
            found.append(Sql(LIVING))
        found += [self._condition(each, columns[each.column]) for each in asked.conditions]
        return found

    def _condition(self, condition: QueryCondition, column: str) -> Sql:
        """With the column in it, and what that binds among the condition's own values."""
        pieces = condition.sql.split("{column}")
        values: list[Any] = []
        left = list(condition.values)
        for number, piece in enumerate(pieces):
            values += self._salts(column) if number else ()
            count = piece.count("%s")
            values += left[:count]
            left = left[count:]
        return Sql(column.join(pieces), tuple(values))

    def _within(self, spans: Sequence[Span], column: str) -> Sql:
        spelled = self.dialect
        told = " OR ".join([f"({column} >= %s AND {column} < %s)"] * len(spans))
        return Sql(f"({told})", tuple(spelled.moment(each) for span in spans for each in span))

    def _salts(self, sql: str) -> tuple[str, ...]:
        return (user_salt(self.question.account_id),) * sql.count(SALT)

    # --- All of it ------------------------------------------------------------------------------

    def _told(self, ranked: Sequence[str]) -> Sql:
        groups = self._group_names
        told = [f"sums.{name}" for name in groups]
        told += [f"{self._metric(m)} AS {name}" for name, m in self.question.metrics.items()]
        if self.question.titles:
            told.append("title")
        joins = ""
        for value in ranked:
            same = " AND ".join(f"sums.{name} = ranks_{value}.{name}" for name in groups)
            joins += f" LEFT JOIN ranks_{value} ON {same or '1 = 1'}"
        return Sql(f"SELECT {', '.join(told)} FROM sums{joins}")  # noqa: S608 - Constant fragments only.

    def _metric(self, metric: Metric) -> str:
        return f"ranks_{metric.value}.p{metric.percent}" if metric.percent else metric.sql

    def _rows(self) -> Sql:
        """The rows in order, and on each how many there were before any limit."""
        asked = self.question
        order = self._order()
        names = ", ".join(self.names)
        if not (asked.group_limit or asked.fair):
            limit = "" if asked.limit is None else " LIMIT %s"
            values = () if asked.limit is None else (asked.limit,)
            counted = f"SELECT {names}, COUNT(*) OVER () AS rows_found FROM told"  # noqa: S608 - Constant fragments only.
            return Sql(f"{counted}{order}{limit}", values)
        dimensions = [name for name in self._group_names if name != "period"]
        among = f"PARTITION BY {', '.join(dimensions)}" if dimensions else ""
        placed = (
            f"SELECT {names}, COUNT(*) OVER () AS rows_found,"  # noqa: S608 - Constant fragments only.
            f" ROW_NUMBER() OVER ({among}{order}) AS place FROM told"
        )
        kept = self._kept(dimensions)
        return Sql(
            f"SELECT {names}, rows_found FROM ({placed}) placed WHERE {kept.sql}{order} LIMIT %s",  # noqa: S608 - Constant fragments only.
            (*kept.values, asked.limit),
        )

    def _kept(self, dimensions: Sequence[str]) -> Sql:
        asked = self.question
        if asked.group_limit:
            return Sql("place <= %s", (asked.group_limit,))
        distinct = f"SELECT DISTINCT {', '.join(dimensions)} FROM told"  # noqa: S608 - Constant fragments only.
        share = f"%s / (SELECT COUNT(*) FROM ({distinct}) combinations)"  # noqa: S608 - Likewise.
        most = asked.limit
        return Sql(f"(rows_found <= %s OR place = 1 OR place <= {share})", (most, most))

    def _order(self) -> str:
        asked = self.question
        by_column = {group: f"by_{number}" for number, group in enumerate(asked.groups)}
        texts = {f"by_{n}" for n, group in enumerate(asked.groups) if group not in _NO_TEXTS}
        chosen = [(by_column.get(name, name), down) for name, down in asked.order]
        named = {name for name, _ in chosen}
        chosen += [(name, False) for name in self._group_names if name not in named]
        terms = [
            f"{name}{self.dialect.bytewise if name in texts else ''}"
            f" {'DESC' if down else 'ASC'} NULLS LAST"
            for name, down in chosen
        ]
        return f" ORDER BY {', '.join(terms)}" if terms else ""


_NO_TEXTS: Final = frozenset({"api_key_id", "user", "workspace_id"})


def _of_columns(aggregate: str, columns: Mapping[str, str]) -> str:
    """An aggregate of `SUMS` with a source's own columns in it."""
    words = _WORDS.findall(aggregate)
    return "".join(columns.get(word, word) for word in words)
