"""Which keys GET /keys lists, and a page of them."""

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from django.db.models import Q

from accounts.models import ApiKey, Workspace
from accounts.services.keys import NoSuchWorkspace
from accounts.views.managed import read_workspace_id
from gateway.http.errors import SchemaInvalid
from gateway.http.paging import parse_page
from gateway.http.validation import Issue, describe_options

PAGE_KEYS: Final = 100
_EMPTY: Final = {"", "null"}
_FLAGS: Final = {"true": True, "false": False} | dict.fromkeys(_EMPTY, False)


class KeyQuery(NamedTuple):
    """Without a workspace the default one is meant."""

    offset: int
    include_disabled: bool
    include_expired: bool
    workspace_id: uuid.UUID | None


def read_key_query(query: Mapping[str, str]) -> KeyQuery:
    """The checked query. Raises `SchemaInvalid`."""
    return KeyQuery(
        parse_page({"offset": query.get("offset", "")}).offset,
        _flag(query, "include_disabled"),
        _flag(query, "include_expired"),
        read_workspace_id(query),
    )


def listed_keys(account_id: uuid.UUID, query: KeyQuery, *, at: datetime) -> list[ApiKey]:
    """A page, newest first. Raises `SchemaInvalid` for a workspace that is not the account's."""
    keys = ApiKey.objects.inference(account_id).filter(
        Q(workspace__is_default=True)
        if query.workspace_id is None
        else Q(workspace=query.workspace_id)
    )
    if not query.include_disabled:
        keys = keys.filter(disabled=False)
    if not query.include_expired:
        keys = keys.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=at))
    page = keys.select_related("creator").order_by("-created_at", "-pk")
    found = list(page[query.offset : query.offset + PAGE_KEYS])
    if (
        not found
        and query.workspace_id is not None
        and not Workspace.objects.filter(account=account_id, pk=query.workspace_id).exists()
    ):
        raise NoSuchWorkspace
    return found


def _flag(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "").lower()
    if text not in _FLAGS:
        raise SchemaInvalid([Issue(name, describe_options(("true", "false")))])
    return _FLAGS[text]
