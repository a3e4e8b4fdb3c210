"""GET /interns: the query and its pages by cursor."""

import base64
import binascii
import re
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from django.db.models import Q, QuerySet
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
    workspace_id: UUID | None = None


class InternsPage(NamedTuple):
    interns: list[Intern]
    next_cursor: str | None


def read_query(given: QueryDict, own_workspace_id: UUID | None) -> InternsQuery:
    """A key of a workspace names no other one. Raises `InvalidListQuery`."""
    query = {name: values[0] for name, values in given.lists() if len(values) == 1}
    if set(query) != set(given) or set(query) - _FIELDS:
        raise InvalidListQuery
    workspace_id = own_workspace_id
    if "workspace_id" in query:
        try:
            workspace_id = UUID(query["workspace_id"])
        except ValueError:
            raise InvalidListQuery from None
        if own_workspace_id not in (None, workspace_id):
            raise InvalidListQuery
    limit = query.get("limit", str(LIMIT_DEFAULT))
    if not _NUMBER.fullmatch(limit) or not 1 <= int(limit) <= LIMIT_MAX:
        raise InvalidListQuery
    statuses = tuple(dict.fromkeys(query["status"].split(","))) if "status" in query else ()
    if len(statuses) > STATUSES_MAX or not set(statuses) <= set(Status.values):
        raise InvalidListQuery
    after = _read_cursor(query["starting_after"]) if "starting_after" in query else None
    return InternsQuery(int(limit), statuses, after, workspace_id)


def read_interns_page(rows: QuerySet[Intern], query: InternsQuery) -> InternsPage:
    """One page of these, newest first."""
    if query.workspace_id is not None:
        rows = rows.filter(workspace=query.workspace_id)
    if query.statuses:
        rows = rows.filter(status__in=query.statuses)
    if query.after is not None:
        at, pk = query.after
        rows = rows.filter(Q(created_at__lt=at) | Q(created_at=at, pk__lt=pk))
    interns = list(rows.order_by("-created_at", "-pk")[: query.limit + 1])
    if len(interns) <= query.limit:
        return InternsPage(interns, None)
    last = interns[query.limit - 1]
    return InternsPage(interns[: query.limit], Cursor(last.created_at, last.pk).serialize())


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
