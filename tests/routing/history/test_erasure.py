"""Erasing an end user takes what names him and what he said, and leaves the books alone."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from accounts.authentication import forget_keys
from accounts.models import AuditRecord, RepeatableRequest
from accounts.services.keys import create_key
from gateway.end_users import hash_user
from routing.history.models import GenerationContent, GenerationFact, GenerationFeedback
from routing.history.rollup import roll_up
from routing.metering.models import Generation
from routing.reports.models import FailedRequest
from tests.routing.history.records import Fact, Office, office, save
from tests.support.operations import failed_request

pytestmark = [pytest.mark.django_db, pytest.mark.both]
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=3)
NAMES = (
    *("generations", "facts", "contents", "kept_answers", "comments", "keys", "sessions"),
    "failures",
)
ALICE = {"customer": "alice"}
HERS = {"team": "blue", **ALICE}
NOTHING = dict.fromkeys(NAMES, 0)


@pytest.fixture
def mine() -> Office:
    """Two of alice's generations on two days, one in a session of her name, and others'."""
    made, other = office(), office("other")
    days = {"gen-a1": 0, "gen-a2": 1, "gen-s": 1, "gen-b": 1}
    users = {"gen-a1": "alice", "gen-a2": "alice", "gen-s": None, "gen-b": "bob"}
    save(
        made,
        [
            Fact(id, NOON + timedelta(days=day), 0, user=users[id], charge=7)
            for id, day in days.items()
        ],
    )
    save(other, [Fact("gen-o", NOON, 0, user="alice")])
    roll_up(datetime.now(UTC))
    Generation.objects.filter(pk="gen-s").update(session_id="alice")
    tags = {"tags": HERS}
    personal = {"user_agent": "alice's phone", "app": "https://one.example"} | tags
    Generation.objects.filter(pk="gen-a1").update(session_id="s1", detail=personal)
    for id in ("gen-a1", "gen-b", "gen-o"):
        account_id = other.account.pk if id == "gen-o" else made.account.pk
        GenerationContent.objects.create(
            generation_id=id, account_id=account_id, created_at=NOON, sealed=b"x"
        )
    GenerationFeedback.objects.create(
        account_id=made.account.pk,
        generation_id="gen-a2",
        api_key_id=made.keys[0].pk,
        category="other",
        comment="alice complains",
        created_at=NOON,
        generation_at=NOON,
    )
    refuse(made, HERS)
    refuse(made, {"customer": "bob"})
    refuse(made, None)
    refuse(other, ALICE)
    for id in ("gen-a1", "gen-s", "gen-b"):
        refuse(made, generation_id=id)
    keep_answer(made, "gen-a1")
    create_key(
        account=made.account, name="hers", workspace=made.workspaces[0], external_user="alice"
    )
    return made


def refuse(
    owner: Office, tags: dict[str, str] | None = None, generation_id: str | None = None
) -> None:
    whose = {"account_id": owner.account.pk, "api_key_id": owner.keys[0].pk}
    failed_request(NOON, **whose, request_id="x", tags=tags, generation_id=generation_id)


def keep_answer(mine: Office, generation_id: str) -> None:
    now = datetime.now(UTC)
    RepeatableRequest.objects.create(
        account=mine.account,
        api_key=mine.keys[0],
        path="/api/v1/chat/completions",
        body_hash="0" * 64,
        lease_id="00000000-0000-0000-0000-000000000001",
        lease_until=now,
        generation_id=generation_id,
        sealed_answer="sealed",
        answer_until=now + timedelta(days=1),
        created_at=now,
        expires_at=now + timedelta(days=1),
    )


def erase(mine: Office, body: Any, status: int = 200) -> Any:
    forget_keys()
    response = Client().post(
        "/api/v1/privacy/erasures",
        json.dumps(body),
        content_type="application/json",
        headers={"Authorization": f"Bearer {mine.management}"},
    )
    assert response.status_code == status, response.json()
    return response.json().get("data")


@pytest.mark.parametrize("by_hash", [False, True])
def test_what_names_her_goes_and_everything_else_stays(mine: Office, by_hash: bool) -> None:
    hashed = hash_user(mine.account.pk, "alice")
    body = {"user_hash": hashed} if by_hash else {"user": "alice"}
    assert erase(mine, body) == {
        "user_hash": hashed,
        "generations": 3,
        "facts": 2,
        "contents": 1,
        "kept_answers": 1,
        "comments": 1,
        "keys": 1,
        "sessions": 0,
        "failures": 3,
    }

    columns = ("pk", "external_user", "session_id", "charge_nano")
    rows = Generation.objects.filter(account=mine.account).order_by("pk")
    assert list(rows.values_list(*columns)) == [
        ("gen-a1", None, None, 7),
        ("gen-a2", None, None, 7),
        ("gen-b", "bob", None, 7),
        ("gen-s", None, None, 7),
    ]
    kept = {"app": "https://one.example", "tags": {"team": "blue"}}
    assert Generation.objects.get(pk="gen-a1").detail == kept
    assert not GenerationFact.objects.filter(external_user=hashed).exists()
    assert GenerationFact.objects.exclude(external_user="").count() == 2
    tags = FailedRequest.objects.order_by("pk").values_list("tags", flat=True)
    assert list(tags[:4]) == [{"team": "blue"}, {"customer": "bob"}, None, {"customer": "alice"}]
    failed = FailedRequest.objects.filter(generation_id__isnull=False).order_by("generation_id")
    assert list(failed.values_list("generation_id", "request_id")) == [
        ("gen-a1", ""),
        ("gen-b", "x"),
        ("gen-s", ""),
    ]
    contents = GenerationContent.objects.order_by("pk").values_list("pk", flat=True)
    assert list(contents) == ["gen-b", "gen-o"]
    assert Generation.objects.get(pk="gen-o").external_user == "alice"

    assert erase(mine, body) == NOTHING | {"user_hash": hashed}
    records = AuditRecord.objects.filter(object_type="end_user").order_by("pk")
    assert [(each.action, each.object_id) for each in records] == [("erased", hashed)] * 2
    first, second = (each.after or {} for each in records)
    assert (first["generations"], second) == (3, NOTHING)


def test_an_erasure_names_exactly_one_user(mine: Office) -> None:
    hashed = "0" * 64
    for body in ({}, {"user": "a", "user_hash": hashed}, {"user": ""}, {"user_hash": "x"}):
        erase(mine, body, 400)
    erase(mine, {"user": "a\0b"}, 400)


def test_an_operator_erases_by_command(mine: Office, capsys: Any) -> None:
    account = f"--account={mine.account.pk}"
    call_command("erase_user", account, "--user=alice", "--json")
    result = json.loads(capsys.readouterr().out)
    assert (result["generations"], result["keys"]) == (3, 1)
    assert AuditRecord.objects.get(object_type="end_user").command == "erase_user"
    for odd in ([account, "--user-hash=x"], ["--account=x", "--user=a"]):
        with pytest.raises(CommandError):
            call_command("erase_user", *odd)


def test_figures_whose_generations_are_gone_are_reached(mine: Office) -> None:
    Generation.objects.filter(account=mine.account).delete()

    assert erase(mine, {"user": "alice"})["facts"] == 2
    hashed = hash_user(mine.account.pk, "alice")
    facts = GenerationFact.objects.filter(account_id=mine.account.pk)
    assert not facts.filter(external_user=hashed).exists()
