"""A team with interns, and what its keys are answered about vaults. Everything is in process."""

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import Account, ApiKey, Membership, User, Workspace
from accounts.services.keys import create_key
from accounts.services.organization import admit_member, open_account, open_workspace
from interns.models import Intern, Status, Vault
from interns.vault.effective_secrets import filter_by_host, open_values, read_effective_secrets
from interns.vault.service import create_intern_vault
from tests.interns.farm import ask_api

SHARED = "/vault/secrets"
HOSTS = ["api.example.com"]
FIELDS = {"name", "hosts", "fingerprint", "created_at"}


@dataclass
class Team:
    """`owner` makes interns, `boss` is an admin, `other` a member; each has a key by that name,
    and `nobody` is the organization's own."""

    account: Account
    workspace: Workspace
    owner: User
    keys: dict[str, str] = field(default_factory=dict)
    queries: int = 0

    def ask(
        self, method: str, path: str, body: Any = None, *, key: str = "owner", **more: Any
    ) -> Any:
        """Status and JSON of an answer; `queries` is what it took."""
        with CaptureQueriesContext(connection) as captured:
            said = ask_api(method, path, body, key=self.keys.get(key, key), headers={}, **more)
        marks = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE", "ROLLBACK")
        self.queries = sum(not each["sql"].startswith(marks) for each in captured)
        return said

    def ok(
        self, method: str, path: str, body: Any = None, *, status: int = 200, key: str = "owner"
    ) -> Any:
        got, said = self.ask(method, path, body, key=key)
        assert got == status, said
        return said

    def expect_refusal(
        self, status: int, method: str, path: str, body: Any = None, *, key: str = "owner"
    ) -> str:
        """The message of a refusal, whose body is the vault's: nothing beside code and message."""
        got, said = self.ask(method, path, body, key=key)
        assert got == status, said
        assert said == {"error": {"code": status, "message": said["error"]["message"]}}
        message: str = said["error"]["message"]
        return message

    def put(self, path: str, value: str = "v", hosts: Any = None, *, key: str = "owner") -> Any:
        said = self.ok("PUT", path, {"value": value, "hosts": hosts or HOSTS}, key=key)
        assert set(said) == {"data"}
        assert set(said["data"]) == FIELDS
        return said["data"]

    def names(self, path: str = SHARED, **options: Any) -> list[str]:
        return [each["name"] for each in self.ok("GET", path, **options)["data"]]

    def intern(self, name: str = "helper", *, vault: bool = True, **columns: Any) -> Intern:
        """One that waits for its first boot."""
        now = datetime.now(UTC)
        row = Intern.objects.create(
            workspace=self.workspace,
            creator=self.owner,
            name=name,
            **{"status_since": now, "created_at": now, "updated_at": now} | columns,
        )
        if vault:
            create_intern_vault(row)
        return row

    def create_running(self, name: str = "helper") -> tuple[Intern, str]:
        """One that runs, and its own key's name."""
        row = self.intern(name)
        key, string = create_key(account=self.account, name=name, workspace=self.workspace)
        ApiKey.objects.filter(pk=key.pk).update(intern_id=row.pk)
        Intern.objects.filter(pk=row.pk).update(status=Status.RUNNING, api_key=key)
        self.keys[name] = string
        row.refresh_from_db()
        return row, name

    def another_workspace(self) -> Workspace:
        made = open_workspace(account=self.account, slug=f"w-{secrets.token_hex(4)}")
        options: Any = {"name": "e", "workspace": made, "creator": self.owner}
        self.keys["elsewhere"] = create_key(account=self.account, **options)[1]
        return made


def vault_path(intern: Intern, tail: str = "/secrets") -> str:
    return f"/vault/interns/{intern.pk}{tail}"


def vault_of(intern: Intern) -> Vault:
    return Vault.objects.get(intern=intern)


def read_released_values(intern: Intern, host: str) -> dict[str, str]:
    """All that a request of the intern's to this host may carry, by name."""
    return open_values(filter_by_host(read_effective_secrets(intern), [host]))


def read_effective_secret(intern: Intern, name: str, host: str) -> str | None:
    """What it may carry under one name."""
    return read_released_values(intern, host).get(name)


def open_team(name: str = "mine") -> Team:
    account = open_account(name=name)
    workspace = account.workspaces.get()
    roles = {
        "owner": Membership.Role.MEMBER,
        "boss": Membership.Role.ADMIN,
        "other": Membership.Role.MEMBER,
    }
    people = {
        who: admit_member(account=account, username=f"{name}-{who}", role=role)
        for who, role in roles.items()
    }
    team = Team(account, workspace, people["owner"])
    for who, creator in (*people.items(), ("nobody", None)):
        options: Any = {"name": who, "workspace": workspace, "creator": creator}
        team.keys[who] = create_key(account=account, **options)[1]
    team.keys["management"] = create_key(account=account, name="m", workspace=None)[1]
    return team
