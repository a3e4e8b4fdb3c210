"""One `Idempotency-Key`, one carrying out: the rows behind it, with time in the test's hands."""

import gzip
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext

from accounts import tasks
from accounts.authentication import forget_keys
from accounts.caller import Caller, read_caller
from accounts.models import ApiKey, LedgerEntry, RepeatableRequest, Workspace
from accounts.services import repeatable
from accounts.services.keys import create_key
from accounts.services.repeatable import (
    ANSWER_BYTES_MAX,
    AnswerNotStored,
    Claim,
    IdempotencyKeyReused,
    RequestIdentity,
    RequestInProgress,
    StoredAnswer,
    claim_request,
    delete_expired_requests,
    finish_request,
    forget_request,
)
from gateway.http.jsonio import dumps
from tests.accounts.dump import database_text
from tests.accounts.office import charge, hold
from tests.support.management import Manager

pytestmark = [pytest.mark.django_db, pytest.mark.both]
NOW = datetime.now(UTC)
LEASE = timedelta(seconds=900)
SECRET = b'{"text": "a secret of the answer"}'


@pytest.fixture
def caller(key: ApiKey) -> Caller:
    found = read_caller(key.hash)
    assert found is not None
    return found


def make_identity(caller: Caller, **changes: Any) -> RequestIdentity:
    usual = RequestIdentity(
        caller, "/api/v1/chat/completions", "k", "0" * 64, f"gen-{uuid.uuid4().hex}"
    )
    return usual._replace(**changes)


def make_claim(caller: Caller, now: datetime = NOW, **changes: Any) -> Claim:
    got = claim_request(make_identity(caller, **changes), now=now)
    assert isinstance(got, Claim)
    return got


def row() -> RepeatableRequest:
    return RepeatableRequest.objects.get()


def test_the_first_carries_out_and_the_second_is_told_the_same(caller: Caller) -> None:
    mine = make_claim(caller)
    with pytest.raises(RequestInProgress) as under_way:
        claim_request(make_identity(caller), now=NOW)
    assert under_way.value.headers == {"Retry-After": "1"}

    finish_request(mine, status=200, body=SECRET)

    assert claim_request(make_identity(caller)) == StoredAnswer(200, SECRET, mine.generation_id)


def test_neither_key_nor_answer_is_to_be_read_in_the_table(caller: Caller) -> None:
    finish_request(make_claim(caller, key="customer@example.com"), status=200, body=SECRET)

    text = database_text()
    assert "customer@example.com" not in text
    assert "a secret of the answer" not in text
    with override_settings(VAULT_MASTER_KEY="another"), pytest.raises(AnswerNotStored):
        claim_request(make_identity(caller, key="customer@example.com"))
    sealed, other = row().sealed_answer, make_claim(caller, key="other")
    finish_request(other, status=200, body=b"{}")
    RepeatableRequest.objects.filter(pk=other.row_id).update(sealed_answer=sealed)
    with pytest.raises(AnswerNotStored):
        claim_request(make_identity(caller, key="other"))


def test_another_body_is_refused_unless_the_first_was(caller: Caller) -> None:
    def reuse() -> str:
        with pytest.raises(IdempotencyKeyReused) as refused:
            claim_request(make_identity(caller, body_hash="1" * 64), now=NOW)
        reason: str = refused.value.metadata["reason"]
        return reason

    first = make_claim(caller)
    assert reuse() == "idempotency_key_reused"
    finish_request(first, status=200, body=b"{}")
    assert reuse() == "idempotency_key_reused"
    forget_request(make_claim(caller, key="refused"))
    make_claim(caller, key="refused", body_hash="1" * 64)


def test_a_key_means_something_to_one_api_key_on_one_path(caller: Caller) -> None:
    make_claim(caller)
    make_claim(caller, path="/api/v1/messages")
    make_claim(replace(caller, key_id=caller.key_id + 1))
    make_claim(caller, key="k2")
    assert RepeatableRequest.objects.count() == 4


@pytest.mark.parametrize("body", [None, b"x" * (ANSWER_BYTES_MAX + 1)])
def test_without_a_kept_answer_its_generation_is_told(caller: Caller, body: bytes | None) -> None:
    mine, largest = make_claim(caller), make_claim(caller, key="largest")
    finish_request(largest, status=200, body=b"x" * ANSWER_BYTES_MAX)
    assert isinstance(claim_request(make_identity(caller, key="largest")), StoredAnswer)
    finish_request(mine, status=200, body=body)

    with pytest.raises(AnswerNotStored) as refused:
        claim_request(make_identity(caller))

    assert refused.value.metadata["generation_id"] == mine.generation_id
    assert refused.value.headers == {"X-Generation-Id": mine.generation_id}
    assert RepeatableRequest.objects.get(pk=mine.row_id).sealed_answer is None


def test_answers_are_told_for_an_hour_and_remembered_for_a_day(caller: Caller) -> None:
    finish_request(make_claim(caller, now=datetime.now(UTC)), status=200, body=SECRET)
    kept = row()
    assert kept.answer_until is not None
    assert timedelta(minutes=59) < kept.answer_until - kept.created_at < timedelta(minutes=61)
    late, later = kept.answer_until, kept.created_at + timedelta(hours=24)

    assert isinstance(
        claim_request(make_identity(caller), now=late - timedelta(seconds=1)), StoredAnswer
    )
    with pytest.raises(AnswerNotStored):
        claim_request(make_identity(caller), now=late)
    assert delete_expired_requests(now=late) == 1
    assert row().sealed_answer is None
    assert delete_expired_requests(now=late) == 0
    assert isinstance(claim_request(make_identity(caller), now=later), Claim)
    assert delete_expired_requests(now=later + timedelta(days=1)) == 1
    assert not RepeatableRequest.objects.exists()


def test_old_rows_go_in_batches(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeatable, "_BATCH", 2)
    for number in range(5):
        finish_request(make_claim(caller, key=str(number)), status=200, body=SECRET)

    monkeypatch.setattr(repeatable, "_BATCHES_MAX", 1)
    assert delete_expired_requests(now=NOW + timedelta(days=3650)) == 4
    monkeypatch.setattr(repeatable, "_BATCHES_MAX", 200)
    delete_expired_requests(now=NOW + timedelta(days=3650))
    assert not RepeatableRequest.objects.exists()
    assert tasks.forget_repeatable_requests() == 0


# --- A process that died --------------------------------------------------------------------------


def test_what_was_never_charged_begins_anew_under_a_new_generation(caller: Caller) -> None:
    dead = make_claim(caller)
    with pytest.raises(RequestInProgress):
        claim_request(make_identity(caller), now=NOW + LEASE - timedelta(seconds=1))

    mine = make_claim(caller, now=NOW + LEASE)

    # One of many takes over.
    for _ in range(3):
        with pytest.raises(RequestInProgress):
            claim_request(make_identity(caller), now=NOW + LEASE)
    assert mine.row_id == dead.row_id
    assert mine.generation_id != dead.generation_id
    closed = LedgerEntry.objects.get(generation_id=dead.generation_id)
    assert (closed.kind, closed.amount_nano, closed.source) == ("usage", 0, "generation")
    finish_request(dead, status=200, body=b"{}")
    forget_request(dead)
    assert row().finished_at is None, "whoever lost the lease writes nothing"
    finish_request(mine, status=200, body=SECRET)
    assert claim_request(make_identity(caller)) == StoredAnswer(200, SECRET, mine.generation_id)


def test_what_still_holds_money_is_not_taken_over(caller: Caller, key: ApiKey) -> None:
    dead = make_claim(caller)
    assert dead.generation_id is not None
    hold(key, 1, dead.generation_id, NOW)

    with pytest.raises(RequestInProgress):
        claim_request(make_identity(caller), now=NOW + LEASE)

    assert not LedgerEntry.objects.exists()


def test_what_was_charged_is_never_carried_out_again(caller: Caller, key: ApiKey) -> None:
    dead = make_claim(caller)
    assert dead.generation_id is not None
    charge(key, 5, dead.generation_id, NOW)
    # A charge of this moment is about to be told.
    with pytest.raises(RequestInProgress):
        claim_request(make_identity(caller), now=NOW + timedelta(seconds=1))
    for after in (timedelta(seconds=61), LEASE, timedelta(hours=23)):
        with pytest.raises(AnswerNotStored) as refused:
            claim_request(make_identity(caller), now=NOW + after)
        assert refused.value.metadata["generation_id"] == dead.generation_id


def test_a_management_request_is_free_after_a_minute(caller: Caller) -> None:
    make_claim(caller, generation_id=None)
    with pytest.raises(RequestInProgress):
        claim_request(make_identity(caller, generation_id=None), now=NOW + timedelta(seconds=59))
    make_claim(caller, now=NOW + timedelta(seconds=60), generation_id=None)
    assert not LedgerEntry.objects.exists()


# --- On management POSTs, over HTTP in process ----------------------------------------------------


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
    def fail_write(*_: Any, **__: Any) -> None:
        raise OperationalError("gone")

    with monkeypatch.context() as broken:
        broken.setattr("accounts.services.workspaces.create_workspace", lambda **_: 1 / 0)
        response = send(mine, "/workspaces", TEAM)
    assert response.status_code == 500
    assert response.json()["user_id"] == mine.admin.public_id
    monkeypatch.setattr("accounts.services.repeatable.finish_request", fail_write)
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
