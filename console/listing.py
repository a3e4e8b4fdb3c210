"""Lists of a page: filters, order and place stand in the URL, and all rows come as CSV too.

A page that has several gives each a name, which its fields of the URL begin with.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from console.page import keep_query
from console.queries.paging import Page, cut_page
from console.table import Column, Table, csv_response, read_pages, render_table, sort_rows

Row = TypeVar("Row")
PAGE_ROWS: Final = 50
# A glance finds what is among so few.
_SHORT_ROWS: Final = 10
Fits = Callable[[Any, str], bool]


class Filter(NamedTuple):
    """A field above a list: of text, of a number, or of `choices`. `fits` says whether a row has
    what the field says, in lists that are there as a whole."""

    name: str
    label: str
    fits: Fits | None = None
    choices: Sequence[tuple[str, str]] = ()
    is_number: bool = False


class FilterField(NamedTuple):
    """A filter with its value, as the form shows it. `is_search` says that `/` leads there."""

    id: str
    name: str
    label: str
    value: str
    choices: Sequence[tuple[str, str]]
    is_number: bool
    is_search: bool


def has_words(value: Callable[[Any], str]) -> Fits:
    """Every word is in the text of the row, in whichever case."""

    def fits(row: Any, text: str) -> bool:
        own = value(row).casefold()
        return all(word in own for word in text.casefold().split())

    return fits


def is_value(value: Callable[[Any], Any]) -> Fits:
    """The row has the chosen value."""
    return lambda row, text: str(value(row)) == text


def write_buttons(request: HttpRequest, template: str, **more: Any) -> Column:
    """A column of what can be done to a row, which the template knows as `row`."""

    def write(row: Any) -> str:
        return render_to_string(template, {"row": row, **more}, request)

    return Column("Change", write, "html")


def list_choices(values: Iterable[str]) -> list[tuple[str, str]]:
    """The values that there are, each its own label."""
    return [(each, each) for each in sorted(set(values) - {""})]


class Listing(Generic[Row]):
    """One list of a page. `load...` reads the rows that the URL asks for: those of a page, or of
    all pages where it asks for CSV. `wanted` is what each filter says, empty where nothing."""

    def __init__(
        self,
        request: HttpRequest,
        columns: Sequence[Column],
        caption: str,
        *,
        filters: Sequence[Filter] = (),
        order: str = "",
        name: str = "",
        csv_columns: Sequence[Column] = (),
        path: str = "",
    ) -> None:
        self._request = request
        self._columns = columns
        self._csv_columns = csv_columns or columns
        self._caption = caption
        self._filters = filters
        self._prefix = f"{name}_" if name else ""
        self.path = path
        self._csv = name or "1"
        self.wanted = {each.name: self._read(each.name) for each in filters}
        given = self._read("order")
        has_order = any(each.order and each.order == given.lstrip("-") for each in columns)
        self.order = given if has_order else order
        self.cursor = self._read("cursor")
        self.is_csv = request.GET.get("csv") == self._csv
        self.rows: list[Row] = []
        self._next_cursor = ""

    def load(self, load_page: Callable[[str], Page[Row]]) -> None:
        """From what gives a page for a cursor."""
        if self.is_csv:
            self.rows = read_pages(load_page)
        else:
            self.rows, self._next_cursor = load_page(self.cursor)

    def load_whole(self, rows: Iterable[Row]) -> None:
        """From all rows, which are few: they are filtered and sorted here."""
        for each in self._filters:
            wanted, fits = self.wanted[each.name], each.fits
            if wanted and fits is not None:
                rows = [row for row in rows if fits(row, wanted)]
        ordered = sort_rows(list(rows), self._columns, self.order)
        self.load(lambda cursor: cut_page(ordered, cursor, PAGE_ROWS))

    def load_query(
        self,
        rows: QuerySet[Any],
        fields: Mapping[str, str],
        build: Callable[[list[Any]], list[Row]] = list,
    ) -> None:
        """From a query, in order of the field that the order stands for."""
        by = "-" if self.order.startswith("-") else ""
        ordered = rows.order_by(f"{by}{fields[self.order.lstrip('-')]}", f"{by}pk")

        def load_page(cursor: str) -> Page[Row]:
            found = cut_page(ordered, cursor, PAGE_ROWS)
            return Page(build(found.rows), found.next_cursor)

        self.load(load_page)

    def respond(self) -> HttpResponse:
        """The rows as a CSV file, which has the caption's name."""
        name = self._caption.lower().replace(" ", "-")
        return csv_response(name, self._csv_columns, self.rows)

    # --- For templates ----------------------------------------------------------------------------

    @property
    def table(self) -> SafeString:
        table = Table(
            self._columns,
            self.rows,
            self._caption,
            self.order,
            self._next_cursor,
            self._csv,
            self._prefix,
            self.path,
        )
        return render_table(self._request, table)

    @property
    def is_narrowed(self) -> bool:
        return any(self.wanted.values())

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to list, whatever the filters say."""
        return not (self.rows or self.is_narrowed or self.cursor)

    @property
    def has_form(self) -> bool:
        """Whether there is enough to search. A page's main list always has its form."""
        is_main = not self._prefix
        is_long = bool(self._next_cursor or self.cursor) or len(self.rows) > _SHORT_ROWS
        return bool(self._filters) and (is_main or is_long or self.is_narrowed)

    @property
    def fields(self) -> list[FilterField]:
        first = next((each.name for each in self._filters if not each.choices), None)
        return [
            FilterField(
                f"filter-{self._prefix}{each.name}",
                self._prefix + each.name,
                each.label,
                self.wanted[each.name],
                each.choices,
                each.is_number,
                each.name == first,
            )
            for each in self._filters
        ]

    @property
    def other_parameters(self) -> list[tuple[str, str]]:
        """What else the URL says, which a search keeps."""
        own = {self._prefix + name for name in (*self.wanted, "cursor")} | {"csv", "part"}
        given = self._request.GET.dict()
        return [(name, str(value)) for name, value in given.items() if name not in own]

    @property
    def path_without_search(self) -> str:
        names = (self._prefix + name for name in (*self.wanted, "cursor"))
        return self.path + keep_query(self._request, **dict.fromkeys(names))

    def _read(self, name: str) -> str:
        return self._request.GET.get(self._prefix + name, "").strip()
