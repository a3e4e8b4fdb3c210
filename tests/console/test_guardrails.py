"""Guardrails as rows: who makes and changes them, what one does to a text, and yesterday."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.urls import reverse

from accounts.models import (
    AuditRecord,
    Guardrail,
    GuardrailKey,
    Membership,
)
from console.queries.guardrail_trials import Replay, replay_yesterday, try_text
from console.scope import find_scope_of_account
from routing.catalogue.snapshot import catalogue
from routing.metering.models import Generation
from tests.console.people import Team, ask, make_team
from tests.console.things import keep_content, make_guardrail, make_model, make_provider, put_under
from tests.support.operations import endpoint

pytestmark = [pytest.mark.django_db, pytest.mark.both]


RULES = {
    "name": "no secrets",
    "builtin_email": "redact",
    "users_email": "on",
    "builtin_credit-card": "block",
    "pattern_0": "project-[a-z]+",
    "label_0": "PROJECT",
    "action_0": "flag",
    "output_phone": "redact",
    "pattern_1": "secret",
    "action_1": "block",
    "place_1": "output_filters",
    "output_shadow": "on",
    "enforce_schema": "on",
    "guard_moderation_who": "careful",
    "guard_moderation_action": "block",
    "guard_moderation_timeout_ms": "500",
    "forbidden_uses": ["enable_free_model_training"],
    "zdr": ["openai"],
    "limit_usd": "1.5",
    "reset_interval": "daily",
}


def test_who_leads_a_workspace_makes_its_guardrails(team: Team) -> None:
    client, strangers = team.client("lead"), make_team("theirs")
    make_provider("careful")
    catalogue.forget()

    answer = client.post(reverse("console:new_guardrail"), RULES | {"workspace": str(team.led.pk)})

    row = Guardrail.objects.first()
    assert answer.status_code == 302
    assert row is not None
    assert row.content_filter_builtins == [
        {"slug": "email", "action": "redact", "scan_scope": "user_only"},
        {"slug": "credit-card", "action": "block", "scan_scope": "all_messages"},
    ]
    assert [each["pattern"] for each in row.content_filters] == ["project-[a-z]+"]
    assert row.output_filter_builtins == [{"slug": "phone", "action": "redact"}]
    assert [(each["pattern"], each["action"]) for each in row.output_filters] == [
        ("secret", "block")
    ]
    assert (row.output_shadow, row.enforce_schema) == (True, True)
    (guard,) = row.external_guards
    assert (guard["provider"], guard["timeout_ms"], guard["on"]) == ("careful", 500, "both")
    assert (row.enable_free_model_training, row.enable_paid_model_training) == (False, None)
    assert (row.enforce_zdr_openai, row.limit_nano) == (True, 1_500_000_000)
    record = AuditRecord.objects.get(object_type="guardrail")
    assert record.operator_id == team.people["lead"].pk
    page = reverse("console:guardrail", args=[row.pk])
    shown = client.get(page).text
    assert 'value="project-[a-z]+"' in shown
    assert 'value="careful"' in shown
    assert 'name="output_shadow"' in shown
    elsewhere = {"workspace": str(strangers.led.pk)}
    assert client.post(reverse("console:new_guardrail"), RULES | elsewhere).status_code == 404


def test_the_rules_of_a_workspace_are_made_by_their_first_change(team: Team) -> None:
    pk = team.led.default_guardrail_id
    client, path = team.client("lead"), reverse("console:guardrail", args=[pk])
    assert client.get(path).status_code == 200
    default = team.account.workspaces.get(is_default=True)
    for elsewhere in (default, make_team("theirs").led):
        far = reverse("console:guardrail", args=[elsewhere.default_guardrail_id])
        assert client.get(far).status_code == client.post(far, RULES).status_code == 404

    assert client.post(path, {"builtin_phone": "block"}).status_code == 302

    row = Guardrail.objects.get(pk=pk)
    assert [each["slug"] for each in row.content_filter_builtins] == ["phone"]
    assert client.post(reverse("console:remove_guardrail", args=[pk])).status_code == 302
    assert not Guardrail.objects.exists()


def test_what_is_wrong_with_a_rule_is_said(team: Team) -> None:
    row = make_guardrail(team.led, "no secrets")
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
    row = make_guardrail(
        team.led,
        "no secrets",
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


def keep_prompt(record: Generation, text: str) -> None:
    keep_content(record, [{"role": "user", "content": text}])


def replay_for(team: Team, role: str, row: Guardrail) -> Replay:
    scope = find_scope_of_account(team.people[role], team.account.pk)
    return replay_yesterday(row, scope, datetime.now(UTC), reads_texts=True)


def test_yesterday_s_requests_are_those_that_it_governs(team: Team) -> None:
    row = make_guardrail(team.led, "no secrets")
    assert replay_for(team, "admin", row).requests == 0
    put_under(row, team.keys["led"], people=[team.people["member"]])
    ask(team.keys["led"], "gen-old", ago=timedelta(days=3))
    assert replay_for(team, "admin", row).requests == 2
    put_under(row, team.keys["far"])
    # A lead learns nothing of keys elsewhere.
    assert [replay_for(team, role, row).requests for role in ("lead", "admin")] == [2, 3]
    default = Guardrail.objects.create(
        pk=team.led.default_guardrail_id, workspace=team.led, is_default=True
    )
    assert replay_for(team, "lead", default).requests == 2


@pytest.mark.parametrize(
    ("rules", "refused"),
    [
        ({}, set()),
        ({"enforce_zdr_other": True}, {"keeps", "trains"}),
        ({"enable_paid_model_training": False}, {"trains"}),
        ({"ignored_providers": ["keeps"]}, {"keeps"}),
        ({"allowed_data_regions": ["europe"]}, {"keeps", "trains"}),
    ],
)
def test_yesterday_is_judged_by_every_rule_of_places(
    team: Team, rules: dict[str, Any], refused: set[str]
) -> None:
    model = make_model("acme/a")
    for slug, data in (
        ("forgets", {"zdr": True, "collects_data": False}),
        ("keeps", {"collects_data": False}),
        ("trains", {"collects_data": True}),
    ):
        provider = make_provider(slug, name=slug, **data)
        endpoint(model, provider, region="europe" if slug == "forgets" else "global")
        ask(team.keys["own"], f"gen-{slug}", model="acme/a", endpoint_tag=slug)
    catalogue.forget()
    row = make_guardrail(team.led, "no secrets")
    put_under(row, team.keys["own"])
    for name, value in rules.items():
        setattr(row, name, value)

    replay = replay_for(team, "lead", row)

    assert set(replay.places) == {f"acme/a at {slug}" for slug in refused}
    # The team's own first request went to what is no longer there.
    assert (replay.requests, replay.elsewhere, replay.unjudged) == (4, len(refused), 1)


def test_yesterday_is_told_in_numbers(team: Team) -> None:
    row = make_guardrail(
        team.led,
        "no secrets",
        ignored_providers=["acme"],
        content_filter_builtins=[
            {"slug": "email", "action": "block", "scan_scope": "all_messages"}
        ],
    )
    keep_prompt(team.generations["own"], "Write to ada@example.org")
    keep_prompt(team.generations["led"], "Hello")
    # Of another workspace, and of the day before.
    keep_prompt(team.generations["far"], "Write to bob@example.org")
    keep_prompt(ask(team.keys["own"], "gen-old", ago=timedelta(days=3)), "Write to eve@example.org")

    put_under(row, team.keys["own"], team.keys["led"])

    replay = replay_for(team, "admin", row)

    assert (replay.read, replay.blocked, replay.found) == (2, 1, {"email": 1})
    part = reverse("console:guardrail_replay", args=[row.pk])
    text = team.client("admin").get(part).text
    assert ("<dt>email</dt>" in text, "ada@" in text) == (True, False)
    # How many prompts match a filter of their own would tell leads what stands in them.
    text = team.client("lead").get(part).text
    assert ("<dt>Requests</dt><dd>2</dd>" in text, "email" in text) == (True, False)
    assert "for who may read these" in text


def test_rules_are_tried_on_yesterday_before_they_are_kept(team: Team) -> None:
    row = make_guardrail(team.led, "no secrets")
    put_under(row, team.keys["own"], team.keys["led"])
    for key in ("own", "led"):
        keep_prompt(team.generations[key], "Write to ada@example.org")
    rules = {"name": "tried", "builtin_email": "block", "try": "1"}
    client = team.client("admin")

    for path, query in (
        (reverse("console:guardrail", args=[row.pk]), {}),
        (reverse("console:new_guardrail"), {"workspace": str(team.led.pk)}),
    ):
        answer = client.post(path, rules | query)

        assert (answer.status_code, "<dt>Blocked</dt><dd>2</dd>" in answer.text) == (200, True)
        assert ("not saved" in answer.text, 'value="tried"' in answer.text) == (True, True)
    kept = Guardrail.objects.get()
    assert (kept.name, kept.content_filter_builtins) == ("no secrets", None)


def test_keys_are_put_under_it_by_who_leads_them(team: Team) -> None:
    row = make_guardrail(team.led, "no secrets")
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


def test_a_lead_takes_no_key_out_of_a_guardrail_of_others(team: Team) -> None:
    default = team.account.workspaces.get(is_default=True)
    strict = make_guardrail(default, "strict")
    key, mine = team.keys["led"], make_guardrail(team.led, "no secrets")
    put_under(strict, key)
    path, form = reverse("console:assign_guardrail", args=[mine.pk]), {"to": "add", "key": key.hash}

    assert team.client("lead").post(path, form).status_code == 404

    assert GuardrailKey.objects.get().guardrail == strict
    assert (
        key.hash not in team.client("lead").get(reverse("console:guardrail", args=[mine.pk])).text
    )
    assert team.client("admin").post(path, form).status_code == 302
    assert GuardrailKey.objects.get().guardrail == mine


CHANGES = {
    "guardrail": {"name": "loose"},
    "assign_guardrail": {"to": "remove"},
    "remove_guardrail": {},
}


@pytest.mark.parametrize("holds", ["a member", "a key of elsewhere"])
def test_a_lead_changes_no_guardrail_that_holds_more_than_they_lead(team: Team, holds: str) -> None:
    row, own, far = make_guardrail(team.led, "no secrets"), team.keys["own"], team.keys["far"]
    if holds == "a member":
        put_under(row, own, people=[team.people["member"]])
    else:
        put_under(row, own, far)
    pages = {name: reverse(f"console:{name}", args=[row.pk]) for name in CHANGES}

    for name, form in CHANGES.items():
        keys = (own, far) if name == "assign_guardrail" else (own,)
        for key in keys:
            answer = team.client("lead").post(pages[name], form | {"key": key.hash})
            assert (name, answer.status_code) == (name, 404)

    row.refresh_from_db()
    assert (row.name, row.deleted_at) == ("no secrets", None)
    assert GuardrailKey.objects.filter(api_key=own).exists()
    text = team.client("lead").get(pages["guardrail"]).text
    assert ("admins of the account change it" in text, far.name in text) == (True, False)
    for name, form in CHANGES.items():
        answer = team.client("admin").post(pages[name], form | {"key": own.hash})
        assert (name, answer.status_code) == (name, 302)


def test_who_leads_nothing_of_the_view_makes_no_guardrail_there(team: Team) -> None:
    watched = team.account.workspaces.create(name="Watched", slug="watched")
    membership = Membership.objects.get(account=team.account, user=team.people["lead"])
    watched.memberships.create(membership=membership, role="viewer")
    client, view = team.client("lead"), {"view": str(watched.pk)}

    assert client.get(reverse("console:new_guardrail"), view).status_code == 404
    assert client.get(reverse("console:guardrails")).status_code == 200
