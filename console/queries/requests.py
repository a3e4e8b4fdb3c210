"""The requests of a view, answered and refused ones alike: a page of them by cursor.

Requests that an upstream was asked for are generations; refused ones stand in a table of their own.
Both are read in the same order and merged. A cursor is the place of the last row in that order.
"""

import heapq
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, NamedTuple

from django.db.models import F, Q, QuerySet, TextField, Value
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast, Coalesce, NullIf

from accounts.models import ApiKey, User, Workspace
from console.queries.paging import Page
from console.scope import Scope
from routing.catalogue.snapshot import catalogue
from routing.history.generations import find_generation_id
from routing.metering.models import Generation
from routing.reports.models import FailedRequest

PAGE_ROWS: Final = 50
NEWEST_FIRST: Final = "-time"
KEYS_MAX: Final = 200
OUTCOMES: Final = {
    "answered": "Answered",
    "retried": "Answered by a later attempt",
    "failed": "Failed at the providers",
    "refused": "Refused by the gateway",
    "cancelled": "Cancelled by the caller",
    "lost": "Lost when the gateway stopped",
}
_ASKED, _REFUSED = "asked", "refused"
# Fewer than the largest value of the column has.
_DIGITS_MAX: Final = {"api_key_id": 18, "status": 4}
_PEOPLE_MAX: Final = 200
_REASONS_OF: Final = 1_000
# What the list can be ordered by, in either table.
_ORDERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "time": {_ASKED: F("created_at"), _REFUSED: F("at")},
    "cost": {_ASKED: F("charge_nano"), _REFUSED: Value(0)},
    "duration": {_ASKED: Coalesce(F("generation_time_ms"), 0), _REFUSED: F("duration_ms")},
}
# Attempts are short; traces are not, and no list shows them.
_ASKED_FIELDS: Final = (
    *("pk", "created_at", "model", "provider_name", "status", "error_type", "cancelled", "lost"),
    *("streamed", "charge_nano", "tokens_prompt", "tokens_completion", "latency_ms"),
    *("attempts", "session_id", "external_user", "workspace_id", "place"),
)
_REFUSED_FIELDS: Final = (
    *("pk", "status", "error_type", "streamed"),
    *("duration_ms", "workspace_id", "place", "tags"),
)


class RequestFilter(NamedTuple):
    """What a list is narrowed to; empty fields narrow nothing. `text` is an id: of the generation,
    the request, the session, the end user or the upstream's answer. `tag` is `name=value` or the
    name of a tag. `person` is the public id of who made the key, `reason` why the gateway refused.
    """

    text: str = ""
    model: str = ""
    provider: str = ""
    outcome: str = ""
    key: str = ""
    tag: str = ""
    person: str = ""
    status: str = ""
    reason: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> "RequestFilter":
        """The fields of a URL's query. A value that names nothing matches nothing."""
        return cls(*(query.get(name, "").strip() for name in cls._fields))

    @property
    def is_empty(self) -> bool:
        return not any(self)


class RequestRow(NamedTuple):
    """A request in a list. `refusal` says why one was refused. A refused one has no provider, no
    tokens and no cost, and `pk` is its number in its own table."""

    source: str
    place: Any
    pk: Any
    created_at: datetime
    model: str
    status: int
    duration_ms: int | None
    key_id: int
    workspace_id: Any
    streamed: bool
    error_type: str | None = None
    provider_name: str | None = None
    charge_nano: int = 0
    tokens_prompt: int | None = None
    tokens_completion: int | None = None
    latency_ms: int | None = None
    attempts: list[dict[str, Any]] = []
    cancelled: bool = False
    lost: bool = False
    session_id: str | None = None
    external_user: str | None = None
    tags: Mapping[str, str] | None = None
    refusal: str = ""
    key_name: str = ""
    person: str = ""
    workspace: str = ""

    @property
    def is_refused(self) -> bool:
        return self.source == _REFUSED


class _Cursor(NamedTuple):
    place: Any
    source: str
    pk: str


def list_requests(
    scope: Scope,
    wanted: RequestFilter,
    *,
    start: datetime,
    order: str = NEWEST_FIRST,
    cursor: str = "",
    limit: int = PAGE_ROWS,
) -> Page[RequestRow]:
    """The requests since `start`. An order or a cursor that is none counts as absent."""
    name, descends = order.lstrip("-"), order.startswith("-")
    if name not in _ORDERS:
        name, descends = "time", True
    behind = _read_cursor(cursor, name)
    lists = [
        _list_rows(source, _narrow[source](scope, wanted, start), name, behind, descends, limit + 1)
        for source in (_ASKED, _REFUSED)
    ]
    merged = heapq.merge(*lists, key=lambda row: (row.place, row.source), reverse=descends)
    found = list(islice(merged, limit + 1))
    rows = _add_names(scope, found[:limit])
    if len(found) <= limit:
        return Page(rows, "")
    place, source, pk = rows[-1].place, rows[-1].source, rows[-1].pk
    return Page(rows, f"{place.isoformat() if name == 'time' else place}~{source}~{pk}")


def has_requests(scope: Scope) -> bool:
    """Whether the view has any request that a provider was asked for."""
    begun_at = _find_beginning(scope)
    if begun_at is None:
        return False
    return scope.filter(Generation.objects.filter(created_at__gte=begun_at)).exists()


def find_newest(scope: Scope) -> RequestRow | None:
    """The newest request that a provider was asked for; where there is none, the newest that was
    refused."""
    if (begun_at := _find_beginning(scope)) is None:
        return None
    for source in (_ASKED, _REFUSED):
        rows = _narrow[source](scope, RequestFilter(), begun_at)
        if found := _list_rows(source, rows, "time", None, True, 1):
            return found[0]
    return None


def _find_beginning(scope: Scope) -> datetime | None:
    """Since when to look: for ever, but where the view has no key there is nothing to look for."""
    has_keys = scope.filter_keys(ApiKey.objects.all()).exists()
    return datetime(1970, 1, 1, tzinfo=UTC) if has_keys else None


def list_keys(scope: Scope, chosen: str = "") -> list[tuple[str, str]]:
    """The first keys of the view by name, and the chosen one, as values of the filter and names."""
    keys = scope.filter_keys(ApiKey.objects.living().filter(kind=ApiKey.Kind.INFERENCE))
    rows = list(keys.order_by("name").values_list("pk", "name")[:KEYS_MAX])
    if _is_number(chosen, _DIGITS_MAX["api_key_id"]) and int(chosen) not in dict(rows):
        every = scope.filter_keys(ApiKey.objects.filter(kind=ApiKey.Kind.INFERENCE))
        rows += every.filter(pk=int(chosen)).values_list("pk", "name")
    return [(str(pk), name) for pk, name in rows]


def list_people(scope: Scope) -> list[tuple[str, str]]:
    """Who made the keys of the view, as values of the filter and names."""
    keys = scope.filter_keys(ApiKey.objects.filter(kind=ApiKey.Kind.INFERENCE))
    people = User.objects.filter(pk__in=keys.values("creator")).order_by("username")
    return list(people.values_list("public_id", "username")[:_PEOPLE_MAX])


def list_reasons(scope: Scope, start: datetime, wanted: str) -> list[tuple[str, str]]:
    """Why the newest refused requests were, and the wanted reason, as values of the filter and
    words."""
    rows = scope.filter(FailedRequest.objects.filter(at__gte=start, generation_id__isnull=True))
    newest = rows.order_by("-at").values_list("reason", flat=True)[:_REASONS_OF]
    return [(each, each.replace("_", " ")) for each in sorted({*newest, wanted} - {""})]


# --- What is asked of each table ------------------------------------------------------------------


def _narrow_generations(
    scope: Scope, wanted: RequestFilter, start: datetime
) -> QuerySet[Generation]:
    rows = scope.filter(Generation.objects.filter(created_at__gte=start))
    if wanted.text:
        is_id = Q(pk=wanted.text) | Q(session_id=wanted.text) | Q(upstream_id=wanted.text)
        if own_id := find_generation_id(scope.account.pk, wanted.text):
            is_id |= Q(pk=own_id)
        rows = rows.filter(is_id | Q(external_user=wanted.text))
    if wanted.reason:
        return rows.none()
    if wanted.model:
        rows = rows.filter(_match_model("model", wanted.model))
    if wanted.provider:
        rows = rows.filter(provider_name__icontains=wanted.provider)
    match wanted.outcome:
        case "answered":
            rows = rows.filter(status=200, cancelled=False, lost=False)
        case "retried":
            rows = rows.filter(status=200, cancelled=False, lost=False)
            rows = rows.filter(attempts__1__isnull=False)
        case "failed":
            rows = rows.exclude(status=200).filter(cancelled=False, lost=False)
        case "cancelled":
            rows = rows.filter(cancelled=True, lost=False)
        case "lost":
            rows = rows.filter(lost=True)
        case "refused":
            rows = rows.none()
    rows = _narrow_tag(rows, KeyTransform("tags", "detail"), wanted)
    return _narrow_shared(scope, rows, wanted)


def _narrow_refused(
    scope: Scope, wanted: RequestFilter, start: datetime
) -> QuerySet[FailedRequest]:
    """Failed requests that no upstream was asked for: the others are generations."""
    rows = scope.filter(FailedRequest.objects.filter(at__gte=start, generation_id__isnull=True))
    if wanted.provider or wanted.outcome not in ("", "refused"):
        return rows.none()
    if wanted.text:
        rows = rows.filter(request_id=wanted.text)
    if wanted.model:
        rows = rows.filter(_match_model("requested_model", wanted.model))
    if wanted.reason:
        rows = rows.filter(reason=wanted.reason)
    return _narrow_shared(scope, _narrow_tag(rows, "tags", wanted), wanted)


def _match_model(field: str, model: str) -> Q:
    """The id of a model of the catalogue means that one, as links do; other text is a part."""
    lookup = field if model in catalogue.current().models else f"{field}__icontains"
    return Q(**{lookup: model})


def _narrow_tag(rows: QuerySet[Any], tags: Any, wanted: RequestFilter) -> QuerySet[Any]:
    if not wanted.tag:
        return rows
    name, equals, value = wanted.tag.partition("=")
    # Compared as text: a lookup of a JSON key takes its value for JSON.
    rows = rows.annotate(tag_value=Cast(KeyTextTransform(name, tags), TextField()))
    return rows.filter(tag_value=value) if equals else rows.filter(tag_value__isnull=False)


def _narrow_shared(scope: Scope, rows: QuerySet[Any], wanted: RequestFilter) -> QuerySet[Any]:
    """By what both tables have a column of: key, person and status."""
    for column, number in (("api_key_id", wanted.key), ("status", wanted.status)):
        if number:
            fits = _is_number(number, _DIGITS_MAX[column])
            rows = rows.filter(**{column: int(number)}) if fits else rows.none()
    if wanted.person:
        own = ApiKey.objects.filter(account=scope.account, creator__public_id=wanted.person)
        rows = rows.filter(api_key_id__in=own.values("pk"))
    return rows


def _is_number(text: str, digits_max: int) -> bool:
    return text.isdecimal() and len(text) <= digits_max


_narrow: Final[Mapping[str, Any]] = {_ASKED: _narrow_generations, _REFUSED: _narrow_refused}


def _list_rows(
    source: str,
    rows: QuerySet[Any],
    name: str,
    behind: _Cursor | None,
    descends: bool,
    limit: int,
) -> list[RequestRow]:
    rows = rows.annotate(place=_ORDERS[name][source])
    if behind is not None:
        rows = rows.filter(_skip_to(source, behind, descends))
    by = "-" if descends else ""
    rows = rows.order_by(f"{by}place", f"{by}pk")
    key_id = F("api_key_id")
    if source == _ASKED:
        asked = rows.values(
            *_ASKED_FIELDS,
            duration_ms=F("generation_time_ms"),
            key_id=key_id,
            tags=F("detail__tags"),
        )
        return [RequestRow(source, **row) for row in asked[:limit]]
    refused = rows.values(
        *_REFUSED_FIELDS,
        created_at=F("at"),
        model=F("requested_model"),
        key_id=key_id,
        refusal=Coalesce(NullIf("text", Value("")), "reason", output_field=TextField()),
    )
    return [RequestRow(source, **row) for row in refused[:limit]]


def _skip_to(source: str, behind: _Cursor, descends: bool) -> Q:
    """The rows of a table behind the cursor: by place, then table, then key."""
    beyond = "lt" if descends else "gt"
    further = Q(**{f"place__{beyond}": behind.place})
    comes_later = source < behind.source if descends else source > behind.source
    if comes_later:
        return further | Q(place=behind.place)
    if source == behind.source:
        # The first part lets an index begin there.
        same = Q(place=behind.place, **{f"pk__{beyond}": behind.pk})
        return Q(**{f"place__{beyond}e": behind.place}) & (further | same)
    return further


def _add_names(scope: Scope, rows: list[RequestRow]) -> list[RequestRow]:
    """With the names of keys, their creators and workspaces, deleted ones too."""
    keys = ApiKey.objects.filter(pk__in={row.key_id for row in rows})
    names = {
        pk: (name, creator or "")
        for pk, name, creator in keys.values_list("pk", "name", "creator__username")
    }
    workspaces = {each.pk: each.name for each in (*scope.own_workspaces, *scope.workspaces)}
    if unknown := {row.workspace_id for row in rows} - {None, *workspaces}:
        found = Workspace.everything.filter(pk__in=unknown)
        workspaces |= dict(found.values_list("pk", "name"))
    return [
        row._replace(
            key_name=names.get(row.key_id, ("deleted", ""))[0],
            person=names.get(row.key_id, ("", ""))[1],
            workspace=workspaces.get(row.workspace_id, ""),
        )
        for row in rows
    ]


def _read_cursor(cursor: str, name: str) -> _Cursor | None:
    place, _, rest = cursor.partition("~")
    source, _, pk = rest.partition("~")
    if source not in _narrow or not pk or (source == _REFUSED and not pk.isdecimal()):
        return None
    try:
        return _Cursor(datetime.fromisoformat(place) if name == "time" else int(place), source, pk)
    except ValueError:
        return None
