"""A team's management key at work, in process and past the key cache."""

import json
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.authentication import forget_keys
from accounts.models import Account
from accounts.services.accounts import open_account
from accounts.services.keys import create_key

KEYS = "/api/v1/keys"
# Not questions to the database: the beginning and end of transactions.
_MARKS = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE", "ROLLBACK")


@dataclass
class Office:
    """`ask` answers with status and body; `queries` counts what the last one asked the database."""

    account: Account
    management_key: str
    queries: int = 0

    def ask(self, method: str, path: str = KEYS, body: Any = None, key: str = "") -> Any:
        forget_keys()
        # A client of its own each time: none of them is anyone's session.
        client = Client(headers={"Authorization": f"Bearer {key or self.management_key}"})
        sent = "" if body is None else json.dumps(body)
        with CaptureQueriesContext(connection) as captured:
            response = client.generic(
                method, path, sent, content_type="application/json", CONTENT_LENGTH=str(len(sent))
            )
        asked = [query["sql"] for query in captured.captured_queries]
        self.queries = sum(not sql.startswith(_MARKS) for sql in asked)
        return response.status_code, response.json()

    def ok(self, method: str, path: str = KEYS, body: Any = None, *, status: int = 200) -> Any:
        """The body of an answer with that status, which took at most six queries."""
        got, answer = self.ask(method, path, body)
        assert got == status, answer
        assert self.queries <= 6
        return answer

    def refused(self, status: int, method: str, path: str = KEYS, body: Any = None) -> str:
        """The message of a refusal."""
        got, answer = self.ask(method, path, body)
        assert got == status, answer
        assert answer["error"]["code"] == status
        message: str = answer["error"]["message"]
        return message

    def new(self, **body: Any) -> Any:
        """A new key's `data` and `key`."""
        return self.ok("POST", body={"name": "k"} | body, status=201)

    def hashes(self, query: str = "") -> list[str]:
        return [key["hash"] for key in self.ok("GET", KEYS + query)["data"]]

    def status_of(self, string: str) -> int:
        """What GET /key answers to that key."""
        status: int = self.ask("GET", "/api/v1/key", key=string)[0]
        return status


def open_office(name: str = "mine") -> Office:
    account = open_account(name=name)
    return Office(account, create_key(account=account, name="m", workspace=None)[1])


def at(made: Any, tail: str = "") -> str:
    """The path of a key that was made, or of its data."""
    data = made.get("data", made)
    return f"{KEYS}/{data['hash']}{tail}"
