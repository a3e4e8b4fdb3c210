"""Whose presets a key reads and writes (management reference 4.4 and 4.7)."""

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Q

from accounts.caller import Caller
from gateway.http.errors import SchemaInvalid
from gateway.http.validation import Issue


class Place(NamedTuple):
    """One workspace of an account, or the default one where none is named. `all_of_them` is for
    lists: a management key that names none looks at every workspace."""

    account_id: UUID
    workspace_id: UUID | None
    all_of_them: bool = False

    @property
    def workspace(self) -> Q:
        """The workspace among all."""
        wanted = Q(pk=self.workspace_id) if self.workspace_id else Q(is_default=True)
        return wanted & Q(account=self.account_id)

    @property
    def presets(self) -> Q:
        """The presets among all."""
        owned = Q(account=self.account_id, workspace__deleted_at__isnull=True)
        if self.workspace_id:
            return owned & Q(workspace=self.workspace_id)
        return owned if self.all_of_them else owned & Q(workspace__is_default=True)


def place_of(caller: Caller, query: Mapping[str, Any], *, lists: bool = False) -> Place:
    """An inference key's own workspace, whatever the query says; a management key's as the query
    says. Raises `SchemaInvalid`."""
    if not caller.management:
        return Place(caller.account_id, caller.workspace_id)
    named = query.get("workspace_id")
    if named is None:
        return Place(caller.account_id, None, all_of_them=lists)
    try:
        return Place(caller.account_id, UUID(named))
    except ValueError:
        raise SchemaInvalid([Issue("workspace_id", "Invalid UUID")]) from None
