"""`Idempotency-Key` on management POSTs, in process."""

import gzip
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.authentication import forget_keys
from accounts.models import ApiKey, RepeatableRequest, Workspace
from accounts.services.keys import create_key
from gateway.http.jsonio import dumps
from tests.accounts.dump import database_text
from tests.support.management import Manager

pytestmark = [pytest.mark.django_db, pytest.mark.both]
TEAM = {"name": "Team", "slug": "team"}
_MARKS = ("SAVEPOINT", "RELEASE", "ROLLBACK")


def send(
    mine: Manager, path: str, body: Any, key: str = "k-1", *, credential: str = "", coding: str = ""
) -> Any:
    forget_keys()
    headers = {"Authorization": f"Bearer {credential or mine.key}", "Idempotency-Key": key}
    headers["Content-Encoding"] = coding or "identity"
    raw = body if isinstance(body, bytes) else dumps(body)
    client = Client(raise_request_exception=False)
    with CaptureQueriesContext(connection) as captured:
        response = client.post(f"/api/v1{path}", raw, "application/json", headers=headers)
    mine.queries = len([q for q in captured if not q["sql"].startswith(_MARKS)])
    return response


def reason(response: Any) -> str:
    assert response.status_code == 409, response.content
    word: str = response.json()["error"]["metadata"]["reason"]
    return word


def test_a_workspace_is_made_once_and_told_again(mine: Manager) -> None:
    first = send(mine, "/workspaces", TEAM)
    assert (first.status_code, first["Content-Type"]) == (201, "application/json")
    assert "Idempotent-Replayed" not in first.headers
    for at in (1, 2):
        again = send(mine, "/workspaces", gzip.compress(dumps(TEAM), mtime=at), coding="gzip")
        assert (again.status_code, again.content) == (201, first.content)
        assert again["Idempotent-Replayed"] == "true"
        assert again["Content-Type"] == "application/json"
    assert Workspace.objects.filter(slug="team").count() == 1


def test_another_body_or_path_or_credential(mine: Manager) -> None:
    # What was refused may be put right under the same key.
    assert send(mine, "/workspaces", TEAM | {"slug": "-"}).status_code == 400
    assert send(mine, "/workspaces", TEAM).status_code == 201
    _, other = create_key(account=mine.account, name="m2", workspace=None)

    assert reason(send(mine, "/workspaces", TEAM | {"name": "x"})) == "idempotency_key_reused"
    assert send(mine, "/workspaces", TEAM, credential=other).status_code == 400
    assert send(mine, "/keys", {"name": "k"}).status_code == 201


@pytest.mark.parametrize("path", ["/keys", "rotate"])
def test_a_new_key_s_string_is_kept_nowhere(mine: Manager, path: str) -> None:
    body: dict[str, Any] = {"name": "k"}
    if path == "rotate":
        key, _ = create_key(account=mine.account, name="k", workspace=mine.workspace("default"))
        path, body = f"/keys/{key.hash}/rotate", {}
    first = send(mine, path, body).json()

    refused = send(mine, path, body)

    assert reason(refused) == "answer_not_kept"
    assert refused.json()["error"]["metadata"]["made"] == first["data"]["hash"]
    assert first["key"] not in database_text()
    assert RepeatableRequest.objects.get().sealed_answer is None
    assert ApiKey.objects.filter(workspace__isnull=False).count() == 1


def test_whoever_is_refused_leaves_no_row(mine: Manager) -> None:
    _, inference = create_key(account=mine.account, name="i", workspace=mine.workspace("default"))
    bare = Client(headers={"Idempotency-Key": "k"})

    assert send(mine, "/workspaces", TEAM, credential="nope").status_code == 401
    assert bare.post("/api/v1/workspaces", TEAM).status_code == 401
    assert bare.post("/api/v1/credits/coinbase").status_code == 410
    assert send(mine, "/keys", {"name": "x"}, credential=inference).status_code == 403
    for raw in (b"{", b"[]"):
        assert send(mine, "/workspaces", raw).status_code == 400
    for key in ("", "k" * 256):
        response = send(mine, "/workspaces", TEAM, key)
        assert response.status_code == 400
        assert "1 to 255" in response.json()["error"]["message"]
    assert not RepeatableRequest.objects.exists()
    assert send(mine, "/workspaces", TEAM, "k" * 255).status_code == 201


def test_a_bug_is_forgotten_and_an_answer_told_though_it_cannot_be_kept(
    mine: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise OperationalError("gone")

    with monkeypatch.context() as broken:
        broken.setattr("accounts.services.workspaces.create_workspace", lambda **_: 1 / 0)
        response = send(mine, "/workspaces", TEAM)
    assert response.status_code == 500
    assert response.json()["user_id"] == mine.admin.public_id
    monkeypatch.setattr("accounts.services.repeatable.finish_request", gone)
    assert send(mine, "/workspaces", TEAM).status_code == 201
    assert reason(send(mine, "/workspaces", TEAM)) == "idempotency_key_in_use"


@pytest.mark.parametrize(("path", "body"), [("/workspaces", TEAM), ("/keys", {"name": "k"})])
def test_it_costs_two_queries(mine: Manager, path: str, body: dict[str, str]) -> None:
    mine.call("POST", path, {**body, "name": "other"} | ({"slug": "o"} if "slug" in body else {}))
    usual = mine.queries

    send(mine, path, body)
    # A deed within a transaction marks where its event begins.
    assert mine.queries == usual + 2 + (path == "/keys")
    send(mine, path, body)
    assert mine.queries == 3
