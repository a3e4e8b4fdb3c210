"""What a management key may do, from where a key may be used, and by which regional hosts.

A key without scopes may do everything in its account. One with scopes reads what `read` or the
area's own scope opens, and changes what the area's own scope opens. A key that is for some
workspaces manages these, their keys and interns; a key of a person does no more than that person
may. Interns are open to keys that name their scope only.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_network
from typing import Final, Literal, get_args
from urllib.parse import unquote
from uuid import UUID

from django.db.models import Q
from django.http import HttpRequest

from accounts.caller import Caller
from accounts.models import Workspace
from accounts.models.account import default_workspace_id
from accounts.roles import Action, may_key_of
from gateway.database.db import Lane, run_queries
from gateway.http.address import Network, find_address
from gateway.http.errors import PermissionDenied

Scope = Literal[
    "read", "keys", "workspaces", "guardrails", "billing", "catalogue", "interns", "scim"
]
SCOPES: Final[tuple[str, ...]] = get_args(Scope)
NETWORKS_MAX: Final = 100
_READS: Final = frozenset({"GET", "HEAD"})
# Questions that take a body.
_READ_PATHS: Final = frozenset({"/api/v1/analytics/query", "/api/v1/routing/what-if"})
# Any key may ask about itself.
_OWN_KEY: Final = "/api/v1/key"
_AREAS: Final = {
    "keys": "keys auth",
    "workspaces": "workspaces organization scim presets observability notifications",
    "guardrails": "guardrails",
    "billing": "credits",
    "catalogue": "byok",
    "interns": "interns",
}
_AREA_OF_WORD: Final = {word: area for area, words in _AREAS.items() for word in words.split()}
_FIRST_WORD: Final = re.compile(r"/api/v1/([a-z-]+)")
_WORKSPACE_PATH: Final = re.compile(r"/api/v1/workspaces/([^/]+)")
# Their views look at the workspace of each.
_FILTERED_PATHS: Final = re.compile(r"/api/v1/(keys|interns)(/|$)")
# Who is there and what was said takes more than reading the account.
_OF_CONTENTS: Final = "/api/v1/generation/content"
_OF_MEMBERS: Final = re.compile(r"/api/v1/(organization|workspaces/[^/]+)/members$|/scim/v2/")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CONNECTOR: Final = "/scim/v2"


class ScopeMissing(PermissionDenied):
    """`scope` is what would open it; None where only a key without scopes may."""

    def __init__(self, scope: str | None) -> None:
        text = "This needs a management key without scopes"
        if scope is not None:
            text = f'This management key lacks the scope "{scope}"'
        super().__init__(text, metadata={"required_scope": scope})


class RoleTooLow(PermissionDenied):
    """`role` is the creator's in the account."""

    def __init__(self, role: str) -> None:
        text = "The role of this key's creator does not allow this"
        super().__init__(text, metadata={"role": role})


class WorkspaceRefused(PermissionDenied):
    message = "This management key is for some workspaces only, and this is not in them"


class AddressRefused(PermissionDenied):
    default_reason = "key_address"
    message = "This key cannot be used from this address"


def check_scope(caller: Caller, request: HttpRequest) -> None:
    """Raise `ScopeMissing`, `RoleTooLow` or `WorkspaceRefused` for what the management key may not
    do."""
    path, area = request.path_info.rstrip("/"), find_area(request.path_info)
    if path == _OWN_KEY:
        return
    is_read = request.method in _READS or path in _READ_PATHS
    if caller.creator_role is not None:
        # A key of a person does no more than the person.
        allowed = {Action(area)} if area else {Action.ACCOUNT}
        if is_read:
            allowed.add(_find_reading(path))
        if not any(may_key_of(caller.creator_role, action) for action in allowed):
            raise RoleTooLow(caller.creator_role)
    if caller.managed_workspaces is not None:
        _check_workspace_path(caller, path)
    if caller.scopes is None or area in caller.scopes or (is_read and "read" in caller.scopes):
        return
    raise ScopeMissing("read" if is_read and area is None else area)


def _find_reading(path: str) -> Action:
    """What lets a person see the path."""
    if path == _OF_CONTENTS:
        return Action.CONTENTS
    return Action.MEMBERS if _OF_MEMBERS.match(path) else Action.READ


def check_managed_workspace(caller: Caller, workspace_id: UUID | None) -> None:
    """Raise `WorkspaceRefused` for a workspace that the key is not for; None is the default one."""
    wanted = workspace_id or default_workspace_id(caller.account_id)
    if caller.managed_workspaces is not None and wanted not in caller.managed_workspaces:
        raise WorkspaceRefused


def _check_workspace_path(caller: Caller, path: str) -> None:
    """Of the API keys, interns and single workspaces are open to a key that is for some
    workspaces."""
    match = _WORKSPACE_PATH.match(path)
    if match is None:
        if _FILTERED_PATHS.match(path):
            return
        raise WorkspaceRefused
    reference = unquote(match[1])
    wanted = Q(slug=reference)
    if _UUID.fullmatch(reference):
        wanted |= Q(pk=UUID(reference))
    rows = Workspace.objects.filter(wanted, account=caller.account_id).values_list("pk", flat=True)
    found = set(run_queries(Lane.READ, lambda: list(rows)))
    assert caller.managed_workspaces is not None
    # A slug may read like another one's id.
    if not found <= caller.managed_workspaces:
        raise WorkspaceRefused


def find_area(path: str) -> str | None:
    """The scope that a path belongs to; None for one that none opens for writing."""
    if path.startswith(_CONNECTOR):
        return "scim"
    match = _FIRST_WORD.match(path)
    return _AREA_OF_WORD.get(match[1]) if match else None


def check_address(networks: tuple[Network, ...], request: HttpRequest) -> None:
    """Raise `AddressRefused` for a request from outside the networks."""
    address = find_address(request)
    if address is None or not any(address in network for network in networks):
        raise AddressRefused


def clean_networks(texts: Iterable[str]) -> list[str]:
    """Addresses and networks as they are stored, each once. Raises `ValueError` for others."""
    return list(dict.fromkeys(str(ip_network(text.strip(), strict=False)) for text in texts))
