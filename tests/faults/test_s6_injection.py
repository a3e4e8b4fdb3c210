"""S6: whatever a caller writes is data: the same statements, no 5xx, no trace of it in the SQL."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from accounts.authentication import forget_keys
from accounts.services.accounts import open_account
from accounts.services.credits import add_credits
from accounts.services.keys import create_key
from routing.catalogue.document import parse
from routing.catalogue.load import load
from routing.catalogue.snapshot import catalogue
from tests.support.catalogue import CONFORMANCE

pytestmark = [pytest.mark.django_db, pytest.mark.both]
MARK = "zqx"
HARMLESS = f"{MARK}word"
INJECTIONS = [
    f"{MARK}' OR '1'='1",
    f'{MARK}" OR ""="',
    f"{MARK}'; DROP TABLE accounts_account; --",
    f"{MARK}') UNION SELECT hash FROM accounts_apikey --",  # noqa: S608 - Never executed.
    f"{MARK}\\'; SELECT pg_sleep(9); --",
    f"{MARK}%' AND 1=CAST((SELECT 1) AS int) --",
    f"{MARK}/**/OR/**/1=1",
    f"{MARK}%s%s%s%n %(name)s {{0}} ${{7*7}} {{{{7*7}}}} <%= 7*7 %>",
    f"{MARK};cat /etc/passwd|`id`$(id)",
    f"{MARK}../../../../etc/passwd",
    f"{MARK}<script>alert(1)</script>",
    f"{MARK}*)(uid=*))(|(uid=*",
    f"{MARK}__import__('os').system('id')",
    f"{MARK}\t\x01\x7f",
    f"{MARK}é漢👩‍🚀\u202e\ufffe",
    MARK + "A" * 3000,
]
IN_PATHS: dict[str, Callable[[str], tuple[str, dict[str, str]]]] = {
    "generation id": lambda text: ("/api/v1/generation", {"id": text}),
    "model author": lambda text: (f"/api/v1/models/{_quoted(text)}/small/endpoints", {}),
    "model slug": lambda text: (f"/api/v1/model/acme/{_quoted(text)}", {}),
    "model search": lambda text: ("/api/v1/models", {"q": text}),
    "model authors": lambda text: ("/api/v1/models", {"model_authors": text}),
    "model category": lambda text: ("/api/v1/models", {"category": text}),
    "model limit": lambda text: ("/api/v1/models", {"limit": text}),
    "unknown parameter": lambda text: ("/api/v1/key", {text: text}),
    "unknown path": lambda text: (f"/api/v1/{_quoted(text)}", {}),
}
IN_HEADERS = [
    "Authorization",
    "X-Session-Id",
    "X-Router-Title",
    "X-Router-Categories",
    "X-Router-Metadata",
    "HTTP-Referer",
    "Referer",
    "User-Agent",
    "X-Forwarded-For",
    "Accept",
    "Content-Type",
    "Cookie",
]
FIELDS: dict[str, Callable[[str], dict[str, Any]]] = {
    "model": lambda text: {"model": text},
    "models": lambda text: {"model": "acme/none", "models": [text]},
    "preset": lambda text: {"preset": text},
    "user": lambda text: {"user": text, "temperature": 9},
    "session": lambda text: {"session_id": text, "temperature": 9},
    "role": lambda text: {"messages": [{"role": text, "content": text}]},
    "provider": lambda text: {"provider": {text: text}},
    "field": lambda text: {text: text, "model": text},
}


def _quoted(text: str) -> str:
    return text.replace("/", "_").replace("?", "_").replace("#", "_").replace("%", "%25")


@pytest.fixture
def key() -> Iterator[str]:
    assert load(parse(CONFORMANCE.read_text(encoding="utf-8")))["errors"] == []
    account = open_account(name="someone")
    add_credits(account=account, amount_nano=10**9, source="t", source_ref="t")
    catalogue.forget()
    catalogue.current()
    yield create_key(account=account, name="k", workspace=account.workspaces.get())[1]
    catalogue.forget()


class Asked:
    """One request: its status, and the statements it made, without their parameters."""

    def __init__(self, ask: Callable[[Client], Any]) -> None:
        self.statements: list[str] = []
        forget_keys()
        with connection.execute_wrapper(self._note):
            response = ask(Client())
        self.status: int = response.status_code
        self.body = response.content
        assert self.status < 500, (self.status, response.content)
        assert response["Content-Type"] == "application/json"
        assert not any(MARK in statement for statement in self.statements)

    def _note(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self.statements.append(sql)
        return execute(sql, params, many, context)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize("place", IN_PATHS)
def test_in_a_path_or_a_query(key: str, place: str) -> None:
    def ask(text: str) -> Asked:
        path, query = IN_PATHS[place](text)
        return Asked(lambda client: client.get(path, query, headers=bearer(key)))

    usual = ask(HARMLESS)
    for text in INJECTIONS:
        assert ask(text).statements in (usual.statements, usual.statements[:1]), text


@pytest.mark.parametrize("header", IN_HEADERS)
def test_in_a_header(key: str, header: str) -> None:
    def ask(text: str) -> Asked:
        headers = bearer(key) | {header: text}
        return Asked(lambda client: client.get("/api/v1/key", headers=headers))

    usual = ask(HARMLESS)
    for text in INJECTIONS:
        assert ask(text).statements == usual.statements, text


@pytest.mark.parametrize("prefix", ["Bearer ", "bearer ", "Bearer sk-rt-v1-", "Basic "])
def test_in_a_credential_no_query_is_made_at_all(key: str, prefix: str) -> None:
    def ask(text: str) -> Asked:
        headers = {"Authorization": prefix + text}
        return Asked(lambda client: client.get("/api/v1/key", headers=headers))

    for text in INJECTIONS:
        asked = ask(text)
        assert (asked.status, asked.statements) == (401, [])


@pytest.mark.parametrize("field", FIELDS)
def test_in_a_body(key: str, field: str) -> None:
    def ask(text: str) -> Asked:
        body = {"model": "acme/none", "messages": [{"role": "user", "content": text}]}
        return Asked(
            lambda client: client.post(
                "/api/v1/chat/completions",
                body | FIELDS[field](text),
                content_type="application/json",
                headers=bearer(key),
            )
        )

    usual = ask(HARMLESS)
    assert usual.status in (400, 404)
    for text in INJECTIONS:
        asked = ask(text)
        assert asked.status in (400, 404), (text, asked.body)
        if field == "preset":  # What no slug can be is not looked up.
            assert asked.statements == usual.statements[: len(asked.statements)], text
        else:
            assert asked.statements == usual.statements, text


def test_the_tables_are_still_there(key: str) -> None:
    assert {"accounts_account", "accounts_apikey"} <= set(connection.introspection.table_names())
