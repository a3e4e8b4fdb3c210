"""Every page of the console by role and tenant. A new page joins one of the tables here."""

import re
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import AuditRecord
from accounts.services.channels import create_channel
from accounts.services.guardrails import create_guardrail
from accounts.services.records import SYSTEM
from console.urls import urlpatterns
from interns.models import Intern, Status
from interns.vault.service import create_intern_vault
from routing.destinations.services import create_destination
from routing.presets.read import PresetScope
from routing.presets.schema import build_content
from routing.presets.services import save_version
from tests.console.people import ADMINS, LEADS, ROLES, TENANTS, Team

pytestmark = [pytest.mark.django_db, pytest.mark.both]

# Pages of the whole view, and for whom they are there.
PAGES: Final[dict[str, Collection[str]]] = {
    **dict.fromkeys(("home", "top_tags", "first_request", "requests", "playground"), ROLES),
    **dict.fromkeys(("models", "compare_models", "what_if", "keys", "new_key"), ROLES),
    **dict.fromkeys(("providers", "presets", "decisions", "interns"), ROLES),
    # An intern has an owner, who belongs to the account.
    "new_intern": TENANTS,
    **dict.fromkeys(("workspaces", "guardrails", "new_guardrail"), LEADS),
    **dict.fromkeys(("logging", "destinations", "alerts", "new_channel"), LEADS),
    **dict.fromkeys(("people", "new_person", "new_workspace", "settings", "audit"), ADMINS),
    **dict.fromkeys(("credits", "statement"), ("billing", *ADMINS)),
    "new_provider": ("operator",),
}


class Thing(NamedTuple):
    """A page of one thing of a tenant: what it is of, whether it is there to be read, and what is
    sent to change it (None: nothing)."""

    kind: str
    is_read: bool = True
    form: dict[str, str] | None = None


def act(kind: str, **form: str) -> Thing:
    return Thing(kind, False, form)


# What a team has stands in their places.
MEMBER, KEY = "the member", "the member's key"
# In this order each can be done after the other.
THINGS: Final = {
    "request": Thing("request"),
    "refused": Thing("refused"),
    "key": Thing("key", form={"name": "x", "limit_usd": "1", "limit_reset": ""}),
    "key_limits": act("key", part="user", value="*", concurrent="1"),
    "switch_key": act("key", to="disabled"),
    "workspace": Thing("workspace"),
    "change_workspace": act("workspace", name="x", io_logging_sampling_rate="1"),
    "change_budget": act("workspace", interval="daily", limit_usd="1", enforcement="block"),
    "end_budget": act("workspace", interval="daily"),
    "change_end_users": act("workspace", interval="daily", limit_usd="1"),
    "change_tags": act("workspace", tag="team=*", interval="daily", limit_usd="1"),
    "change_member_keys": act("workspace", limit_usd="1", limit_reset="daily"),
    "change_rate_limits": act("workspace", requests_per_minute="5"),
    "change_scoped_limits": act("workspace", part="user", value="*", concurrent="1"),
    "change_members": act("workspace", to="admin", user=MEMBER),
    "preset": Thing("preset"),
    "activate_preset": act("preset", version="1"),
    "guardrail": Thing("guardrail", form={"name": "x"}),
    "guardrail_replay": Thing("guardrail"),
    "try_guardrail": act("guardrail", text="x"),
    "assign_guardrail": act("guardrail", to="add", key=KEY),
    "remove_guardrail": act("guardrail"),
    "renew_key": act("key", grace_s="0"),
    "intern": Thing("intern"),
    "operate_intern": act("intern", operation="delete", name="another"),
    "change_destination": act("destination", to="deleted"),
    "change_channel": act("channel", to="deleted"),
    "change": Thing("change"),
    "person": Thing("person"),
    "change_person": act("person", to="removed"),
}
# What is the gateway's own, or of a type, or of no tenant at all.
OTHERS: Final = {
    *("model", "provider", "prices", "switch_provider", "test_provider", "begin_outage"),
    *("new_destination", "playground_key", "link", "sign_out", "nothing"),
}


def test_every_page_is_in_a_table() -> None:
    names = {each.name for each in urlpatterns}

    assert names == PAGES.keys() | THINGS.keys() | OTHERS


@pytest.mark.parametrize("role", ROLES)
def test_each_page_is_there_for_its_roles_with_their_tenant_s_rows(
    ours: Team, theirs: Team, role: str
) -> None:
    client = ours.client(role)
    account = {"account": str(ours.account.pk)} if role == "operator" else {}
    for name, roles in PAGES.items():
        answer = client.get(reverse(f"console:{name}"), account)

        # Everybody has settings, which begin elsewhere.
        refused = 302 if name == "settings" else 404
        assert (name, answer.status_code) == (name, 200 if role in roles else refused)
        text = re.sub(r"<select.*?</select>", "", answer.text, flags=re.DOTALL)
        assert (name, re.findall(r"theirs[- ]\w+", text)) == (name, [])


@pytest.mark.parametrize("role", TENANTS)
def test_no_page_is_there_for_another_tenant_s_account_or_workspace(
    ours: Team, theirs: Team, role: str
) -> None:
    client, strange = ours.client(role), theirs.account.workspaces.get(slug="led")
    for name in PAGES:
        path = reverse(f"console:{name}")
        for query in ({"account": str(theirs.account.pk)}, {"view": str(strange.pk)}):
            assert (name, query, client.get(path, query).status_code) == (name, query, 404)


def make_things(team: Team) -> dict[str, Any]:
    """One of each kind, by what stands in its address."""
    led, now = team.account.workspaces.get(slug="led"), datetime.now(UTC)
    place: dict[str, Any] = {"account_id": team.account.pk, "by": SYSTEM}
    scope = PresetScope(team.account.pk, led.pk)
    content = build_content("chat", {"model": "acme/one"}, models_max=3)
    intern = Intern.objects.create(
        workspace=led,
        creator=team.people["admin"],
        name="helper",
        status=Status.STOPPED,
        status_since=now,
        created_at=now,
        updated_at=now,
    )
    create_intern_vault(intern, at=now)
    url = "https://example.com/in"
    return {
        "request": team.generations["own"].pk,
        "refused": team.refused["own"].pk,
        "key": team.keys["own"].pk,
        "workspace": led.pk,
        "preset": save_version(
            scope=scope, slug="one", content=content, creator=None, by=SYSTEM
        ).pk,
        "guardrail": create_guardrail(**place, workspace_id=led.pk, settings={"name": "rules"}).pk,
        "intern": intern.pk,
        "destination": create_destination(
            **place, workspace_id=led.pk, type="webhook", config={"url": url}, name="hook"
        ).row.pk,
        "channel": create_channel(
            **place, workspace_id=led.pk, type="webhook", url=url, name="on call"
        ).row.pk,
        "change": AuditRecord.objects.filter(account=team.account).latest("pk").pk,
        "person": team.people["viewer"].public_id,
    }


def try_all(team: Team, client: Client, things: dict[str, Any]) -> dict[str, set[int]]:
    """What reading and changing each thing of the team answers, by page."""
    filled = {MEMBER: team.people["member"].public_id, KEY: team.keys["own"].hash}
    answers: dict[str, set[int]] = {}
    for name, thing in THINGS.items():
        path = reverse(f"console:{name}", args=[things[thing.kind]])
        codes = answers.setdefault(name, set())
        if thing.is_read:
            codes.add(client.get(path).status_code)
        if thing.form is not None:
            form = {field: filled.get(value, value) for field, value in thing.form.items()}
            codes.add(client.post(path, form).status_code)
    return answers


def test_nothing_of_another_tenant_is_there(ours: Team, theirs: Team) -> None:
    things = make_things(theirs)

    for role in TENANTS:
        answers = try_all(theirs, ours.client(role), things)
        assert answers == {name: {404} for name in THINGS}, role

    # Their own owner may do all of it, so nothing else was in the way.
    for name, codes in try_all(theirs, theirs.client("owner"), things).items():
        assert (name, codes <= {200, 302}) == (name, True)
