"""GET /interns: the query and its pages by cursor."""

import base64
import binascii
import re
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from django.db.models import Q
from django.http import QueryDict

from interns.errors import InvalidListQuery
from interns.models import Intern, Status

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 500
STATUSES_MAX: Final = 8
_FIELDS: Final = {"limit", "status", "workspace_id", "starting_after"}
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class Cursor(NamedTuple):
    """The last intern of the page before."""

    created_at: datetime
    id: UUID

    def serialize(self) -> str:
        text = f"{self.created_at.isoformat()}|{self.id}"
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


class InternsQuery(NamedTuple):
    limit: int = LIMIT_DEFAULT
    statuses: tuple[str, ...] = ()
    after: Cursor | None = None


class InternsPage(NamedTuple):
    interns: list[Intern]
    next_cursor: str | None


def read_query(given: QueryDict, workspace_id: UUID) -> InternsQuery:
    """Raises `InvalidListQuery`."""
    query = {name: values[0] for name, values in given.lists() if len(values) == 1}
    if set(query) != set(given) or set(query) - _FIELDS:
        raise InvalidListQuery
    if "workspace_id" in query and _parse_uuid(query["workspace_id"]) != workspace_id:
        raise InvalidListQuery
    return InternsQuery(
        _read_limit(query["limit"]) if "limit" in query else LIMIT_DEFAULT,
        _read_statuses(query["status"]) if "status" in query else (),
        _read_cursor(query["starting_after"]) if "starting_after" in query else None,
    )


def read_interns_page(
    workspace_id: UUID, query: InternsQuery, only: UUID | None = None
) -> InternsPage:
    """One page, newest first. `only` is for a key that sees one intern."""
    rows = Intern.objects.filter(workspace=workspace_id).select_related("vault")
    if only is not None:
        rows = rows.filter(pk=only)
    if query.statuses:
        rows = rows.filter(status__in=query.statuses)
    if query.after is not None:
        at, pk = query.after
        rows = rows.filter(Q(created_at__lt=at) | Q(created_at=at, pk__lt=pk))
    rows_found = list(rows.order_by("-created_at", "-pk")[: query.limit + 1])
    shown = rows_found[: query.limit]
    if len(rows_found) <= query.limit:
        return InternsPage(shown, None)
    return InternsPage(shown, Cursor(shown[-1].created_at, shown[-1].pk).serialize())


def _read_limit(text: str) -> int:
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= LIMIT_MAX:
        raise InvalidListQuery
    return int(text)


def _read_statuses(text: str) -> tuple[str, ...]:
    rows_found = tuple(dict.fromkeys(text.split(",")))
    if len(rows_found) > STATUSES_MAX or not set(rows_found) <= set(Status.values):
        raise InvalidListQuery
    return rows_found


def _read_cursor(text: str) -> Cursor:
    try:
        padded = text + "=" * (-len(text) % 4)
        decoded = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
        moment, _, number = decoded.partition("|")
        cursor = Cursor(datetime.fromisoformat(moment), UUID(number))
    except (binascii.Error, ValueError):
        raise InvalidListQuery from None
    # Only what was given out: the same moment can be written in many ways, without a zone too.
    if cursor.created_at.tzinfo is None or cursor.serialize() != text:
        raise InvalidListQuery
    return cursor


def _parse_uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise InvalidListQuery from None
