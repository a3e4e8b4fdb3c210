"""Guardrails as rows: who makes and changes them, what one does to a text, and yesterday."""

import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.urls import reverse

from accounts.models import AuditRecord, Guardrail, GuardrailKey, Workspace
from accounts.services.guardrails import create_guardrail
from accounts.services.records import SYSTEM
from console.queries.guardrails import replay_yesterday, try_text
from gateway.http.jsonio import dumps
from gateway.sealing import seal_bytes
from routing.history.contents import PURPOSE
from routing.history.models import GenerationContent
from routing.metering.models import Generation
from tests.console.people import ROLES, Team, ask, make_team

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def team() -> Team:
    return make_team("acme")


def led(team: Team) -> Workspace:
    return team.account.workspaces.get(slug="led")


def make(team: Team, **settings: Any) -> Guardrail:
    return create_guardrail(
        account_id=team.account.pk,
        workspace_id=led(team).pk,
        by=SYSTEM,
        settings={"name": "no secrets", **settings},
    )


RULES = {
    "name": "no secrets",
    "builtin_email": "redact",
    "users_email": "on",
    "builtin_credit-card": "block",
    "pattern_0": "project-[a-z]+",
    "label_0": "PROJECT",
    "action_0": "flag",
    "pattern_1": "",
    "action_1": "flag",
    "forbidden_uses": ["enable_free_model_training"],
    "zdr": ["openai"],
    "limit_usd": "1.5",
    "reset_interval": "daily",
}


@pytest.mark.parametrize("role", ROLES)
def test_who_leads_a_workspace_makes_its_guardrails(team: Team, role: str) -> None:
    client, strangers = team.client(role), make_team("theirs")
    query = {"account": str(team.account.pk)} if role == "operator" else {}
    listed = client.get(reverse("console:guardrails"), query)
    assert listed.status_code == (404 if role == "member" else 200)

    answer = client.post(reverse("console:new_guardrail"), RULES | {"workspace": str(led(team).pk)})

    row = Guardrail.objects.first()
    if role == "member":
        assert (answer.status_code, row) == (404, None)
        return
    assert answer.status_code == 302
    assert row is not None
    assert row.content_filter_builtins == [
        {"slug": "email", "action": "redact", "scan_scope": "user_only"},
        {"slug": "credit-card", "action": "block", "scan_scope": "all_messages"},
    ]
    assert [each["pattern"] for each in row.content_filters] == ["project-[a-z]+"]
    assert (row.enable_free_model_training, row.enable_paid_model_training) == (False, None)
    assert (row.enforce_zdr_openai, row.limit_nano) == (True, 1_500_000_000)
    record = AuditRecord.objects.get(object_type="guardrail")
    assert record.operator_id == team.people[role].pk
    page = reverse("console:guardrail", args=[row.pk])
    assert 'value="project-[a-z]+"' in client.get(page).text
    elsewhere = {"workspace": str(strangers.account.workspaces.get(slug="led").pk)}
    assert client.post(reverse("console:new_guardrail"), RULES | elsewhere).status_code == 404


def test_another_tenant_s_guardrail_is_not_there(team: Team) -> None:
    strangers = make_team("theirs")
    row = make(strangers)
    default = led(strangers).default_guardrail_id
    for pk in (row.pk, default):
        for role in ("member", "lead", "admin"):
            client = team.client(role)
            for name in ("guardrail", "guardrail_replay"):
                assert client.get(reverse(f"console:{name}", args=[pk])).status_code == 404
            for name in ("guardrail", "try_guardrail", "assign_guardrail", "remove_guardrail"):
                answer = client.post(reverse(f"console:{name}", args=[pk]), RULES)
                assert (name, role, answer.status_code) == (name, role, 404)
    assert Guardrail.objects.get().pk == row.pk


def test_the_rules_of_a_workspace_are_made_by_their_first_change(team: Team) -> None:
    pk = led(team).default_guardrail_id
    client, path = team.client("lead"), reverse("console:guardrail", args=[pk])
    assert client.get(path).status_code == 200
    far = team.account.workspaces.get(is_default=True).default_guardrail_id
    assert client.get(reverse("console:guardrail", args=[far])).status_code == 404

    assert client.post(path, {"builtin_phone": "block"}).status_code == 302

    row = Guardrail.objects.get(pk=pk)
    assert [each["slug"] for each in row.content_filter_builtins] == ["phone"]
    assert client.post(reverse("console:remove_guardrail", args=[pk])).status_code == 302
    assert not Guardrail.objects.exists()


def test_what_is_wrong_with_a_rule_is_said(team: Team) -> None:
    row = make(team)
    client, path = team.client("lead"), reverse("console:guardrail", args=[row.pk])
    for wrong in (
        {"pattern_0": "(", "action_0": "flag"},
        {"limit_usd": "1"},
        {"allowed_models": "nobody/none"},
    ):
        answer = client.post(path, {"name": "no secrets", **wrong})
        assert (wrong, answer.status_code) == (wrong, 400)
        assert 'class="errors" role="alert"' in answer.text


def test_a_text_is_tried_and_kept_nowhere(team: Team) -> None:
    row = make(
        team,
        content_filter_builtins=[
            {"slug": "email", "action": "redact", "scan_scope": "all_messages"},
            {"slug": "credit-card", "action": "block", "scan_scope": "all_messages"},
        ],
    )

    assert try_text(row, "Hello").verdict.word == "goes through"
    redacted = try_text(row, "Write to ada@example.org")
    assert (redacted.verdict.word, redacted.text) == ("redacted", "Write to [EMAIL]")
    assert try_text(row, "Pay with 4111 1111 1111 1111").verdict.word == "blocked"
    path = reverse("console:try_guardrail", args=[row.pk])
    answer = team.client("lead").post(path, {"text": "Write to ada@example.org"})
    assert "Write to [EMAIL]" in answer.text
    assert team.client("member").post(path, {"text": "x"}).status_code == 404


def keep(generation: Generation, text: str) -> None:
    """As the recorder keeps a prompt."""
    content = {"input": {"messages": [{"role": "user", "content": text}]}, "output": {}}
    packed = zlib.compress(dumps(content))
    GenerationContent.objects.create(
        pk=generation.pk,
        account_id=generation.account_id,
        created_at=generation.created_at,
        sealed=seal_bytes(packed, purpose=PURPOSE, row=generation.pk),
    )


def test_yesterday_is_told_in_numbers(team: Team) -> None:
    row = make(
        team,
        ignored_providers=["acme"],
        content_filter_builtins=[
            {"slug": "email", "action": "block", "scan_scope": "all_messages"}
        ],
    )
    keep(team.generations["own"], "Write to ada@example.org")
    keep(team.generations["led"], "Hello")
    # Of another workspace, and of the day before.
    keep(team.generations["far"], "Write to bob@example.org")
    keep(ask(team.keys["own"], "gen-old", ago=timedelta(days=3)), "Write to eve@example.org")

    replay = replay_yesterday(row, datetime.now(UTC))

    assert (replay.read, replay.blocked, replay.found) == (2, 1, {"email": 1})
    assert replay.requests == 2
    tags = {team.generations[key].endpoint_tag for key in ("own", "led")}
    expected = 2 if tags == {"acme"} else 0
    assert replay.elsewhere == expected
    text = team.client("lead").get(reverse("console:guardrail_replay", args=[row.pk])).text
    assert "ada@" not in text


def test_keys_are_put_under_it_by_who_leads_them(team: Team) -> None:
    row = make(team)
    client, path = team.client("lead"), reverse("console:assign_guardrail", args=[row.pk])
    own, far = team.keys["own"], team.keys["far"]

    assert client.post(path, {"to": "add", "key": far.hash}).status_code == 404
    user = team.people["member"].public_id
    assert client.post(path, {"to": "add", "user": user}).status_code == 404
    assert client.post(path, {"to": "add", "key": own.hash}).status_code == 302
    assert GuardrailKey.objects.get().api_key == own
    assert own.name in client.get(reverse("console:guardrail", args=[row.pk])).text
    assert client.post(path, {"to": "remove", "key": own.hash}).status_code == 302
    assert not GuardrailKey.objects.exists()
    assert team.client("admin").post(path, {"to": "add", "user": user}).status_code == 302
