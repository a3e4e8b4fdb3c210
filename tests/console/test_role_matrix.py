"""Every page of the console by role and tenant. A new page joins one of the tables here."""

import re
from collections.abc import Collection, Iterator
from itertools import product
from typing import Any, Final, NamedTuple

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounts.models import AuditRecord
from accounts.roles import Action
from accounts.services.channels import create_channel
from accounts.services.organization import add_new_person
from accounts.services.records import SYSTEM
from console.urls import urlpatterns
from routing.destinations.services import create_destination
from tests.console.people import ADMINS, LEADS, ROLES, TENANTS, Team, list_allowed
from tests.console.things import make_guardrail, make_intern, save_preset

pytestmark = [pytest.mark.django_db, pytest.mark.both]

# Of each page: session, person, accounts and workspaces; and at most six of its own.
QUERIES_MAX: Final = 4 + 6
# Pages of the whole view, and for whom they are there.
PAGES: Final[dict[str, Collection[str]]] = {
    **dict.fromkeys(("home", "first_token", "top_models", "top_keys", "first_request"), ROLES),
    **dict.fromkeys(("requests", "playground"), ROLES),
    **dict.fromkeys(("models", "compare_models", "what_if", "keys", "new_key"), ROLES),
    **dict.fromkeys(("providers", "presets", "decisions", "interns"), ROLES),
    # An intern has an owner, who belongs to the account.
    "new_intern": TENANTS,
    **dict.fromkeys(("workspaces", "guardrails", "new_guardrail"), LEADS),
    **dict.fromkeys(("logging", "destinations", "alerts", "new_channel"), LEADS),
    **dict.fromkeys(("people", "new_person", "new_workspace", "settings", "audit"), ADMINS),
    **dict.fromkeys(("credits", "statement"), list_allowed(Action.BILLING)),
    "new_provider": ("operator",),
}


class Thing(NamedTuple):
    """A page of one thing of a tenant. It says what it is of, who may read it, and who may send
    what to change it."""

    kind: str
    readers: Collection[str] = ()
    changers: Collection[str] = ()
    form: dict[str, str] = {}


def act(kind: str, changers: Collection[str], **form: str) -> Thing:
    return Thing(kind, (), changers, form)


# What a team has stands in their places.
MEMBER, KEY = "the member", "the member's key"
# The key and the requests are the member's own; others see what the workspace does.
SEERS = {"member", *list_allowed(Action.USAGE)}
# Those who work in the workspace.
WORKERS = {"member", *LEADS}
# In this order each can be done after the other.
THINGS: Final = {
    "request": Thing("request", SEERS),
    "refused": Thing("refused", SEERS),
    "key": Thing("key", SEERS, LEADS, {"name": "x", "limit_usd": "1", "limit_reset": ""}),
    "key_limits": act("key", LEADS, part="user", value="*", concurrent="1"),
    "switch_key": act("key", WORKERS, to="disabled"),
    "workspace": Thing("workspace", LEADS),
    "change_workspace": act("workspace", LEADS, name="x", io_logging_sampling_rate="1"),
    "change_budget": act("workspace", ADMINS, interval="daily", limit_usd="1", enforcement="block"),
    "end_budget": act("workspace", ADMINS, interval="daily"),
    "change_end_users": act("workspace", ADMINS, interval="daily", limit_usd="1"),
    "change_tags": act("workspace", ADMINS, tag="team=*", interval="daily", limit_usd="1"),
    "change_member_keys": act("workspace", ADMINS, limit_usd="1", limit_reset="daily"),
    "change_rate_limits": act("workspace", ADMINS, requests_per_minute="5"),
    "change_scoped_limits": act("workspace", ADMINS, part="user", value="*", concurrent="1"),
    "change_members": act("workspace", LEADS, to="admin", user=MEMBER),
    "preset": Thing("preset", WORKERS),
    "activate_preset": act("preset", WORKERS, version="1"),
    "guardrail": Thing("guardrail", LEADS, LEADS, {"name": "x"}),
    "guardrail_replay": Thing("guardrail", LEADS),
    "try_guardrail": act("guardrail", LEADS, text="x"),
    "assign_guardrail": act("guardrail", LEADS, to="add", key=KEY),
    "remove_guardrail": act("guardrail", LEADS),
    "renew_key": act("key", WORKERS, grace_s="0"),
    "intern": Thing("intern", WORKERS),
    "change_intern": act("intern", LEADS, description="x"),
    "operate_intern": act("intern", LEADS, operation="delete", name="another"),
    "change_destination": act("destination", LEADS, to="deleted"),
    "change_channel": act("channel", LEADS, to="deleted"),
    "change": Thing("change", ADMINS),
    "person": Thing("person", list_allowed(Action.MEMBERS)),
    "renew_link": act("newcomer", list_allowed(Action.MEMBERS)),
    "change_person": act("person", list_allowed(Action.MEMBERS), to="removed"),
}
# What is the gateway's own, or of a type, or of no tenant at all.
OTHERS: Final = {
    *("model", "provider", "prices", "switch_provider", "test_provider", "begin_outage"),
    *("new_destination", "playground_key", "link", "sign_out", "nothing"),
}


def test_every_page_is_in_a_table() -> None:
    names = {each.name for each in urlpatterns}

    assert names == PAGES.keys() | THINGS.keys() | OTHERS


def read_page(client: Client, path: str, query: dict[str, str] | None = None) -> Any:
    """The answer, for which few statements were made. What the process keeps for all pages may be
    over: the next look counts this one's own. What is rolled up is kept for a second only."""
    for _ in range(2):
        with CaptureQueriesContext(connection) as captured:
            answer = client.get(path, query)
        texts = [each["sql"] for each in captured if "routing_usagerolled" not in each["sql"]]
        if len(texts) <= QUERIES_MAX:
            return answer
    raise AssertionError(path, texts)


def test_each_page_is_there_for_its_roles_with_their_tenant_s_rows(
    ours: Team, theirs: Team
) -> None:
    clients = {role: ours.client(role) for role in ROLES}
    # Whoever comes first reads the catalogue for all.
    clients["owner"].get(reverse("console:models"))
    for role, (name, roles) in product(ROLES, PAGES.items()):
        account = {"account": str(ours.account.pk)} if role == "operator" else {}
        answer = read_page(clients[role], reverse(f"console:{name}"), account)
        # Everybody has settings, which begin elsewhere.
        refused = 302 if name == "settings" else 404
        assert (role, name, answer.status_code) == (role, name, 200 if role in roles else refused)
        text = re.sub(r"<select.*?</select>", "", answer.text, flags=re.DOTALL)
        assert (role, name, re.findall(r"theirs[- ]\w+", text)) == (role, name, [])


def test_no_page_is_there_for_another_tenant_s_account_or_workspace(
    ours: Team, theirs: Team
) -> None:
    clients = {role: ours.client(role) for role in TENANTS}
    strange = theirs.led
    queries = {"account": str(theirs.account.pk)}, {"view": str(strange.pk)}
    for role, name, query in product(TENANTS, PAGES, queries):
        status = clients[role].get(reverse(f"console:{name}"), query).status_code
        assert (role, name, query, status) == (role, name, query, 404)


def make_things(team: Team) -> dict[str, Any]:
    """One of each kind, by what stands in its address."""
    led, admin = team.led, team.people["admin"]
    place: dict[str, Any] = {"account_id": team.account.pk, "by": SYSTEM}
    url = "https://example.com/in"
    newcomer = add_new_person(**place, username=f"{team.account.name}-new", role="org:member")
    return {
        "request": team.generations["own"].pk,
        "refused": team.refused["own"].pk,
        "key": team.keys["own"].pk,
        "workspace": led.pk,
        "preset": save_preset(led, "one").pk,
        "guardrail": make_guardrail(led, "rules").pk,
        "intern": make_intern(led, admin, "helper").pk,
        "destination": create_destination(
            **place, workspace_id=led.pk, type="webhook", config={"url": url}, name="hook"
        ).row.pk,
        "channel": create_channel(
            **place, workspace_id=led.pk, type="webhook", url=url, name="on call"
        ).row.pk,
        "change": AuditRecord.objects.filter(account=team.account).latest("pk").pk,
        "person": team.people["viewer"].public_id,
        "newcomer": newcomer.public_id,
    }


def try_all(team: Team, client: Client, things: dict[str, Any]) -> Iterator[tuple[str, str, int]]:
    """What reading and changing each thing of the team answers, by page."""
    filled = {MEMBER: team.people["member"].public_id, KEY: team.keys["own"].hash}
    for name, thing in THINGS.items():
        path = reverse(f"console:{name}", args=[things[thing.kind]])
        if thing.readers:
            yield name, "read", read_page(client, path).status_code
        if thing.changers:
            form = {field: filled.get(value, value) for field, value in thing.form.items()}
            yield name, "change", client.post(path, form).status_code


@pytest.mark.parametrize("role", ROLES)
def test_each_thing_is_there_for_its_roles(ours: Team, role: str) -> None:
    for name, deed, status in try_all(ours, ours.client(role), make_things(ours)):
        roles = THINGS[name].readers if deed == "read" else THINGS[name].changers
        assert (name, deed, status in (200, 302)) == (name, deed, role in roles)
        assert role in roles or status == 404, (name, deed)


def test_nothing_of_another_tenant_is_there(ours: Team, theirs: Team) -> None:
    """To their own owner all of it is, as the test above says."""
    things = make_things(theirs)
    for role in TENANTS:
        for name, deed, status in try_all(theirs, ours.client(role), things):
            assert (role, name, deed, status) == (role, name, deed, 404)
