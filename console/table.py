"""The table of a list: columns, filters and order in the URL, pages by cursor, the same as CSV."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, TypeVar

from django.http import HttpRequest, HttpResponse
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from console.page import keep_query
from console.words import (
    NOTHING,
    Badge,
    format_count,
    format_money,
    format_ms,
    format_percent,
    format_price,
    plain_value,
    time_element,
)
from gateway.database.db import let_others_run
from gateway.http.jsonio import format_usd

Row = TypeVar("Row")
Kind = Literal["text", "code", "usd", "price", "percent", "count", "ms", "time", "badge", "html"]
_ROWS_AT_ONCE: Final = 10
CSV_ROWS_MAX: Final = 5_000
_CELL_END: Final = SafeString("</td>")
_NUMBERS: Final = frozenset({"usd", "price", "percent", "count", "ms"})
_CSV_UNITS: Final[Mapping[Kind, str]] = {
    "usd": " (USD)",
    "price": " (USD)",
    "ms": " (ms)",
    "time": " (UTC)",
    "percent": " (%)",
}


class Column(NamedTuple):
    """`value` is what a row has: nano-USD, USD of a token, milliseconds, percent or a moment where
    the kind says so.
    `order` is its name in the URL where the list can be sorted by it. A `note` stands below the
    value where it says anything; neither it nor HTML, such as buttons, is in CSV files. A `minor`
    column is there on very wide screens only, a `detail` not on phones."""

    label: str
    value: Callable[[Any], Any]
    kind: Kind = "text"
    link: Callable[[Any], str] | None = None
    order: str = ""
    minor: bool = False
    detail: bool = False
    note: Callable[[Any], str] | None = None


class Table(NamedTuple):
    """The rows of one page. `order` is the current one, with `-` before it where it descends;
    `next_cursor` is empty on the last page. `csv` is what the page's query calls its file, and
    `prefix` what order and cursor begin with in it. `path` is the page's, where the table is on
    others too."""

    columns: Sequence[Column]
    rows: Sequence[Any]
    caption: str
    order: str = ""
    next_cursor: str = ""
    csv: str = "1"
    prefix: str = ""
    path: str = ""


def render_table(request: HttpRequest, table: Table) -> SafeString:
    """The HTML of a table, made without a template: it has hundreds of cells."""
    heads = format_html_join("", "{}", ((_head(request, table, each),) for each in table.columns))
    box = _box(table.columns, table.rows, table.caption, heads)
    more, cursor = "", f"{table.prefix}cursor"
    if table.next_cursor:
        query = table.path + keep_query(request, **{cursor: table.next_cursor})
        more = format_html('<a class="button" rel="next" href="{}">Next page</a>', query)
    first = ""
    if request.GET.get(cursor):
        query = table.path + keep_query(request, **{cursor: None})
        first = format_html('<a class="button" href="{}">First page</a>', query)
    export = format_html(
        '<a class="button quiet" href="{}">Download CSV{}</a>',
        table.path + keep_query(request, **{cursor: None, "csv": table.csv}),
        f" (up to {CSV_ROWS_MAX:,} rows)" if more or first else "",
    )
    return format_html(
        '{}<div class="table-foot">{}{}<span class="spring"></span>{}</div>',
        *(box, first, more, export),
    )


def sort_rows(rows: Sequence[Row], columns: Sequence[Column], order: str) -> list[Row]:
    """A list that is there as a whole, by the column that the URL names. Those without a value come
    last; without such a column they stay as they are."""
    name = order.lstrip("-")
    column = next((each for each in columns if name and each.order == name), None)
    if column is None:
        return list(rows)
    valued = [(column.value(row), row) for row in rows]
    have = [(v.casefold() if isinstance(v, str) else v, row) for v, row in valued if v is not None]
    have.sort(key=itemgetter(0), reverse=order.startswith("-"))
    return [row for _, row in have] + [row for value, row in valued if value is None]


def render_rows(columns: Sequence[Column], rows: Sequence[Any], caption: str) -> SafeString:
    """A table without order, pages and CSV: one of several on a page."""
    heads = format_html_join(
        "",
        '<th scope="col" class="{}">{}</th>',
        ((_class_names(each), each.label) for each in columns),
    )
    return _box(columns, rows, caption, heads)


def _box(
    columns: Sequence[Column], rows: Sequence[Any], caption: str, heads: SafeString
) -> SafeString:
    cells: list[Callable[[Any], SafeString]] = [_cell_writer(each) for each in columns]
    lines = []
    for number, row in enumerate(rows):
        # A row takes a third of a millisecond.
        if number % _ROWS_AT_ONCE == 0:
            let_others_run()
        lines.append((mark_safe("".join([cell(row) for cell in cells])),))  # noqa: S308 - Each cell is HTML.
    body = format_html_join("\n", "<tr>{}</tr>", lines)
    return format_html(
        '<div class="table-box" tabindex="0" role="region" aria-label="{}"><table class="list">'
        '<caption class="sr">{}</caption><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>',
        *(caption, caption, heads, body),
    )


def read_pages(load_page: Callable[[str], Any]) -> list[Any]:
    """The rows of all pages, `CSV_ROWS_MAX` at most. `load_page` takes a cursor; a page has `rows`
    and the `next_cursor`."""
    rows: list[Any] = []
    cursor = ""
    while len(rows) < CSV_ROWS_MAX:
        found = load_page(cursor)
        rows += found.rows
        cursor = found.next_cursor
        if not cursor:
            break
        let_others_run()
    return rows[:CSV_ROWS_MAX]


def csv_response(name: str, columns: Sequence[Column], rows: Iterable[Any]) -> HttpResponse:
    """All rows as a CSV file; money in USD, durations in milliseconds, times in UTC."""
    columns = [column for column in columns if column.kind != "html"]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([column.label + _CSV_UNITS.get(column.kind, "") for column in columns])
    for number, row in enumerate(rows):
        if number % _ROWS_AT_ONCE == 0:
            let_others_run()
        writer.writerow([_csv_value(column, row) for column in columns])
    response = HttpResponse(text.getvalue(), content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response


def _csv_value(column: Column, row: Any) -> str:
    value = column.value(row)
    if column.kind == "usd" and value is not None:
        return format_usd(value)
    if column.kind == "price" and value is not None:
        return f"{value * 1_000_000:f}"
    return plain_value(value)


def _head(request: HttpRequest, table: Table, column: Column) -> SafeString:
    names = _class_names(column)
    if not column.order:
        return format_html('<th scope="col" class="{}">{}</th>', names, column.label)
    is_own = table.order.lstrip("-") == column.order
    descends = is_own and table.order.startswith("-")
    wanted = column.order if descends else f"-{column.order}"
    # With a space that does not break: no line begins with the mark.
    mark = ("\u00a0↓" if descends else "\u00a0↑") if is_own else ""
    sorted_as = ("descending" if descends else "ascending") if is_own else "none"
    changes = {f"{table.prefix}order": wanted, f"{table.prefix}cursor": None}
    return format_html(
        '<th scope="col" class="{}" aria-sort="{}"><a href="{}">{}<span aria-hidden="true">{}'
        "</span></a></th>",
        *(names, sorted_as, table.path + keep_query(request, **changes), column.label, mark),
    )


def _class_names(column: Column) -> str:
    names = ["num"] if column.kind in _NUMBERS else []
    names += [name for name in ("minor", "detail") if getattr(column, name)]
    return " ".join(names)


def _cell_writer(column: Column) -> Callable[[Any], SafeString]:
    """A function of a row. A page has many hundred cells: what they share is written once."""
    write = _WRITERS[column.kind]
    start = format_html('<td class="{}" data-label="{}">', _class_names(column), column.label)

    def cell(row: Any) -> SafeString:
        content = write(column.value(row))
        if column.link is not None and (address := column.link(row)):
            content = format_html('<a href="{}">{}</a>', address, content)
        if column.note is not None and (text := column.note(row)):
            content = format_html('{}<span class="cell-note">{}</span>', content, text)
        return start + conditional_escape(content) + _CELL_END

    return cell


def _write_code(value: Any) -> SafeString:
    return format_html("<code>{}</code>", value) if value else format_html("{}", NOTHING)


def badge(value: Badge) -> SafeString:
    return format_html('<span class="badge {}">{}</span>', value.tone, value.word)


_WRITERS: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    "text": lambda value: value or NOTHING,
    "code": _write_code,
    "usd": format_money,
    "price": format_price,
    "percent": format_percent,
    "count": format_count,
    "ms": format_ms,
    "time": time_element,
    "badge": lambda value: NOTHING if value is None else badge(value),
    "html": lambda value: value,
}
