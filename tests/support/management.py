"""The management API in process: an account, its keys, and what they are answered."""

from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.authentication import forget_keys
from accounts.models import Account, Membership, User, Workspace
from accounts.services.keys import create_key
from accounts.services.organization import admit_member, open_account, open_workspace
from gateway.http.jsonio import dumps

# What a test's own transaction makes of BEGIN and COMMIT, and the event that a deed records.
_MARKS = (
    "SAVEPOINT",
    "RELEASE",
    "ROLLBACK",
    'INSERT INTO "accounts_event"',
    'INSERT OR IGNORE INTO "accounts_event"',
)
QUERIES_MAX = 6


@dataclass
class Manager:
    """Whoever holds the management key of an account. `queries` is what the last call took."""

    account: Account
    admin: User
    key: str
    queries: int = 0

    def call(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> Any:
        """The status and the JSON of an answer, past the cache of keys, in six queries."""
        forget_keys()
        headers = {"Authorization": f"Bearer {self.key if key is None else key}"}
        client = Client(raise_request_exception=False)
        options: Any = {"headers": headers, "CONTENT_LENGTH": "0"}
        if body is not None:
            text = body if isinstance(body, str | bytes) else dumps(body)
            options = {"headers": headers, "data": text, "content_type": "application/json"}
        with CaptureQueriesContext(connection) as captured:
            response = client.generic(method, f"/api/v1{path}", **options)
        asked = [each["sql"] for each in captured if not each["sql"].startswith(_MARKS)]
        self.queries = len(asked)
        # A workspace takes what is secret with it, each kind by a statement.
        takes_secrets = method == "DELETE" and path.startswith("/workspaces/")
        assert self.queries <= QUERIES_MAX + takes_secrets, asked
        return response.status_code, response.json()

    def ok(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        """The JSON of an answer that must be good."""
        got, said = self.call(method, path, body)
        assert got == status, said
        return said

    def expect_refusal(self, status: int, method: str, path: str, body: Any = None) -> str:
        """The message of an answer that must be a refusal."""
        got, said = self.call(method, path, body)
        assert got == status, said
        assert said["error"]["code"] == status
        message: str = said["error"]["message"]
        return message

    def workspace(self, slug: str) -> Workspace:
        return open_workspace(account=self.account, slug=slug)

    def member(self, name: str, role: Membership.Role = Membership.Role.MEMBER) -> User:
        return admit_member(account=self.account, username=name, role=role)


def manager(name: str) -> Manager:
    """A new account with an admin, whose management key it is."""
    account = open_account(name=name)
    admin = admit_member(account=account, username=f"{name}-admin", role=Membership.Role.ADMIN)
    _, string = create_key(account=account, name="m", workspace=None, creator=admin)
    return Manager(account, admin, string)
