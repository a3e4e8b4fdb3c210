"""Tenants with a key of every kind, and objects of theirs for the rows of the access table."""

import itertools
import re
import secrets
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.urls import URLPattern, URLResolver, get_resolver

from accounts.models import (
    Account,
    ApiKey,
    App,
    ByokCredential,
    Channel,
    Delivery,
    Guardrail,
    Membership,
    ScimGroup,
    ScimGroupMapping,
    ScimSyncJob,
    ScimUser,
    User,
    Workspace,
)
from accounts.services.books.credits import add_credits
from accounts.services.channels import create_channel, send_test_message
from accounts.services.directory.groups import create_mapping
from accounts.services.directory.jobs import queue_job
from accounts.services.directory.users import create_user as create_scim_user
from accounts.services.keys import create_key
from accounts.services.organization import admit_member, open_account, open_workspace
from accounts.services.records import SYSTEM
from interns.models import Intern, Vault, VaultSecret
from interns.vault.secrets import SecretInput, put_secret
from interns.vault.service import create_intern_vault, get_workspace_vault
from routing.destinations.models import Destination
from routing.destinations.services import create_destination
from routing.metering.models import Generation
from routing.presets.models import Preset
from tests.support.access_table import Row
from tests.support.operations import generation, preset

# What stands for an object in a row.
NAMES = re.compile(r"\{([a-z_]+)\}")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Tenant:
    """An account with an admin, a member, credit, and keys by kind."""

    account: Account
    admin: User
    keys: Mapping[str, str] = field(default_factory=dict)

    @property
    def workspace(self) -> Workspace:
        return self.account.workspaces.get(is_default=True)


def new_tenant(name: str) -> Tenant:
    """`inference`, `member` and `admin` are inference keys of nobody, a plain member and an admin;
    `management` and `admin_management` manage."""
    name = f"{name}-{secrets.token_hex(4)}"
    account = open_account(name=name)
    add_credits(account=account, amount_nano=10**9, source="test", source_ref=name)
    workspace = account.workspaces.get()
    admin = admit_member(account=account, username=f"{name}-a", role=Membership.Role.ADMIN)
    member = admit_member(account=account, username=f"{name}-m", role=Membership.Role.MEMBER)
    made: dict[str, tuple[Workspace | None, User | None]] = {
        "inference": (workspace, None),
        "member": (workspace, member),
        "admin": (workspace, admin),
        "management": (None, None),
        "admin_management": (None, admin),
    }
    keys = {
        kind: create_key(account=account, name=kind, workspace=where, creator=creator)[1]
        for kind, (where, creator) in made.items()
    }
    return Tenant(account, admin, keys)


Made = tuple[str, QuerySet[Any] | None]


class Thing(NamedTuple):
    """A kind of object. `make` gives one of a tenant's as it is named and as rows of the database
    (None where there is nothing to harm). `nowhere` is the name of none."""

    make: Callable[[Tenant], Made]
    nowhere: str


def _key(tenant: Tenant) -> Made:
    key, _ = create_key(account=tenant.account, name="k", workspace=tenant.workspace)
    return key.hash, ApiKey.objects.filter(pk=key.pk)


def _workspace(tenant: Tenant) -> Made:
    made = open_workspace(account=tenant.account, slug=f"team-{secrets.token_hex(4)}")
    return str(made.pk), Workspace.objects.filter(pk=made.pk)


def _app(tenant: Tenant) -> Made:
    made = App.objects.create(
        account=tenant.account,
        origin=f"https://{secrets.token_hex(4)}.example",
        name="app",
        authorized_at=datetime.now(UTC),
    )
    return str(made.pk), App.objects.filter(pk=made.pk)


def _group(tenant: Tenant) -> Made:
    now = datetime.now(UTC)
    made = ScimGroup.objects.create(
        account=tenant.account,
        display_name=f"group-{secrets.token_hex(4)}",
        created_at=now,
        updated_at=now,
    )
    return str(made.pk), ScimGroup.objects.filter(pk=made.pk)


def _scim_user(tenant: Tenant) -> Made:
    fields = {"user_name": f"person-{secrets.token_hex(4)}", "active": True, "attributes": {}}
    made = create_scim_user(account_id=tenant.account.pk, fields=fields, by=SYSTEM)
    return str(made.pk), ScimUser.objects.filter(pk=made.pk)


def _mapping(tenant: Tenant) -> Made:
    made = create_mapping(
        account_id=tenant.account.pk,
        group_id=uuid.UUID(_group(tenant)[0]),
        workspace_id=uuid.UUID(_workspace(tenant)[0]),
        role="member",
        by=SYSTEM,
    )
    return str(made.pk), ScimGroupMapping.objects.filter(pk=made.pk)


def _sync_job(tenant: Tenant) -> Made:
    key = ApiKey.objects.filter(account=tenant.account, kind="management").earliest("pk")
    made = queue_job(account_id=tenant.account.pk, management_key_id=key.pk)
    return str(made.pk), ScimSyncJob.objects.filter(pk=made.pk)


def _user(tenant: Tenant) -> Made:
    name = f"user-{secrets.token_hex(6)}"
    user = admit_member(account=tenant.account, username=name, role=Membership.Role.MEMBER)
    return user.public_id, Membership.objects.filter(user=user)


def _generation(tenant: Tenant) -> Made:
    asked = generation(
        id=f"gen-{secrets.token_hex(8)}",
        account=tenant.account,
        workspace=tenant.workspace,
        api_key=ApiKey.objects.inference(tenant.account.pk).earliest("pk"),
        created_at=datetime.now(UTC),
    )
    return asked.pk, Generation.objects.filter(pk=asked.pk)


def _preset(tenant: Tenant) -> Made:
    made = preset(tenant.workspace, tenant.admin, f"p-{secrets.token_hex(4)}")
    return made.slug, Preset.objects.filter(pk=made.pk)


def _credential(tenant: Tenant) -> Made:
    made = ByokCredential.objects.create(
        account=tenant.account,
        workspace=tenant.workspace,
        provider="alpha",
        label="sk-...AbCd",
        sealed="v1:x",
        sort_order=next(_numbers),
    )
    return str(made.pk), ByokCredential.objects.filter(pk=made.pk)


def _channel(tenant: Tenant) -> Made:
    row = _make_webhook(tenant)
    return str(row.pk), Channel.objects.filter(pk=row.pk)


def _delivery(tenant: Tenant) -> Made:
    made = send_test_message(_make_webhook(tenant))
    return str(made.pk), Delivery.objects.filter(pk=made.pk)


def _make_webhook(tenant: Tenant) -> Channel:
    url = "https://hooks.example/in"
    made = create_channel(
        account_id=tenant.account.pk, by=SYSTEM, name="ops", type="webhook", url=url
    )
    return made.row


def _destination(tenant: Tenant) -> Made:
    # Nobody listens there, so a connection test ends at once.
    url = "https://site.invalid/in"
    made = create_destination(
        account_id=tenant.account.pk,
        # A workspace has five of a type at most.
        workspace_id=open_workspace(account=tenant.account, slug=f"w-{secrets.token_hex(4)}").pk,
        type="webhook",
        name="w",
        config={"url": url, "endpoint": url, "apiKey": "k"},
        by=SYSTEM,
    )
    return str(made.row.pk), Destination.objects.filter(pk=made.row.pk)


def _guardrail(tenant: Tenant) -> Made:
    made = Guardrail.objects.create(workspace=tenant.workspace, name=f"g-{secrets.token_hex(4)}")
    return str(made.pk), Guardrail.objects.filter(pk=made.pk)


def _intern(tenant: Tenant) -> Made:
    now = datetime.now(UTC)
    made = Intern.objects.create(
        workspace=tenant.workspace,
        creator=tenant.admin,
        name=f"i{next(_numbers)}-{secrets.token_hex(4)}",
        status_since=now,
        created_at=now,
        updated_at=now,
    )
    return str(made.pk), Intern.objects.filter(pk=made.pk)


def _secret(tenant: Tenant) -> Made:
    """One in the workspace's vault."""
    vault, name = get_workspace_vault(tenant.workspace.pk), f"s{next(_numbers)}"
    return name, _store_secret(vault.pk, name, tenant)


def _intern_with_secrets(tenant: Tenant) -> Made:
    """An intern with two secrets, `token` and `copy`, in its vault."""
    intern_id, rows = _intern(tenant)
    assert rows is not None
    vault = create_intern_vault(rows.get())
    for name in ("token", "copy"):
        _store_secret(vault.pk, name, tenant)
    return intern_id, VaultSecret.objects.filter(vault=vault)


def _store_secret(vault_id: uuid.UUID, name: str, tenant: Tenant) -> QuerySet[Any]:
    stored = SecretInput(name, "value", ["api.example.com"])
    made = put_secret(
        vaults=Vault.objects.filter(pk=vault_id),
        stored=stored,
        account_id=tenant.account.pk,
        by=SYSTEM,
    )
    return VaultSecret.objects.filter(pk=made.pk)


def _new_slug(tenant: Tenant) -> Made:
    del tenant
    return f"new-{next(_numbers)}-{secrets.token_hex(4)}", None


_NO_ID = str(uuid.UUID(int=4 << 76 | 2 << 62))
# Names that nothing of anybody's answers to are no objects, and not tried on other tenants.
THINGS: dict[str, Thing] = {
    "key": Thing(_key, "0" * 64),
    "workspace": Thing(_workspace, _NO_ID),
    "app": Thing(_app, "0"),
    "group": Thing(_group, _NO_ID),
    "scim_user": Thing(_scim_user, _NO_ID),
    "mapping": Thing(_mapping, _NO_ID),
    "sync_job": Thing(_sync_job, _NO_ID),
    "user": Thing(_user, "user_of_nobody"),
    "generation": Thing(_generation, "gen-nowhere"),
    "preset": Thing(_preset, "no-such-preset"),
    "credential": Thing(_credential, _NO_ID),
    "channel": Thing(_channel, _NO_ID),
    "delivery": Thing(_delivery, _NO_ID),
    "destination": Thing(_destination, _NO_ID),
    "guardrail": Thing(_guardrail, _NO_ID),
    "intern": Thing(_intern, _NO_ID),
    "secret": Thing(_secret, "no_such_secret"),
    "vaulted": Thing(_intern_with_secrets, _NO_ID),
    "name": Thing(_new_slug, ""),
    "new_slug": Thing(_new_slug, ""),
}


class Asked(NamedTuple):
    """A row's request with objects in it. `kept` are their rows, `nowhere` the same request with
    names of nothing."""

    path: str
    body: str
    kept: list[QuerySet[Any]]
    nowhere: tuple[str, str]

    def state(self) -> list[Any]:
        """All that the database says of the objects."""
        return [list(rows.order_by("pk").values()) for rows in self.kept]


def asked_of(row: Row, tenant: Tenant) -> Asked:
    """The request of a row about new objects of this tenant's."""
    names = NAMES.findall(row.path + row.body)
    made = {name: THINGS[name].make(tenant) for name in dict.fromkeys(names)}
    ids = {name: each[0] for name, each in made.items()}
    none = {name: THINGS[name].nowhere or ids[name] for name in ids}
    kept = [rows for _, rows in made.values() if rows is not None]
    return Asked(
        _fill(row.path, ids),
        _fill(row.body, ids),
        kept,
        (_fill(row.path, none), _fill(row.body, none)),
    )


def names_objects(row: Row) -> bool:
    """Whether the row speaks of an object that belongs to somebody."""
    return any(THINGS[name].nowhere for name in NAMES.findall(row.path + row.body))


def expected_status(row: Row, kind: str, *, foreign: bool = False) -> int:
    """The status for a key of that kind ("" for none), of another tenant where `foreign`."""
    own = {"": row.nobody, "member": row.member, "admin": row.admin}.get(kind)
    usual = row.management if kind.endswith("management") else row.inference
    status = usual if own is None else own
    if foreign and row.found_first and status == 403:
        return 404
    if not foreign or status in (401, 403) or not names_objects(row):
        return status
    return row.foreign or 404


def routes() -> list[str]:
    """Every route of the URL map, as `resolve` tells it."""
    return sorted(_routes(get_resolver().url_patterns))


def _routes(patterns: Any, prefix: str = "") -> Iterator[str]:
    for pattern in patterns:
        route = str(pattern.pattern)
        route = prefix + route.removeprefix("^") if prefix else route
        if isinstance(pattern, URLResolver):
            yield from _routes(pattern.url_patterns, route)
        else:
            assert isinstance(pattern, URLPattern)
            yield route


def _fill(text: str, values: Mapping[str, str]) -> str:
    return NAMES.sub(lambda found: values[found[1]], text)
