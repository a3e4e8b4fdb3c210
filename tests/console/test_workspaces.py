"""Workspaces and budgets: who sees and changes which, and when a budget runs out."""

import re
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

import pytest
from django.urls import reverse

from accounts.models import ApiKey, AuditRecord, Membership, Workspace
from accounts.services.organization import admit_member
from console.queries.budgets import LimitUse, list_budgets_of
from console.queries.workspaces import PEOPLE_ROWS
from console.table import Column, sort_rows
from gateway.end_users import hash_user
from tests.console.people import ADMINS, LEADS, ROLES, TENANTS, Team, ask, make_team
from tests.console.things import limit_workspace

pytestmark = [pytest.mark.django_db, pytest.mark.both]
MAY_OPEN = {"lead": {"led"}, **{role: {"led", "default"} for role in ADMINS}}


def find(team: Team, slug: str) -> Workspace:
    return team.account.workspaces.get(slug=slug)


def test_workspaces_are_shown_to_who_leads_them(team: Team) -> None:
    strangers = make_team("theirs")
    for role in ROLES:
        client = team.client(role)
        query = {"account": str(team.account.pk)} if role == "operator" else {}
        answer = client.get(reverse("console:workspaces"), query)
        assert answer.status_code == (200 if role in LEADS else 404)
        for slug in ("led", "default"):
            path = reverse("console:workspace", args=[find(team, slug).pk])
            expected = slug in MAY_OPEN.get(role, ())
            assert (slug, client.get(path).status_code == 200) == (slug, expected)
            assert (slug, path in answer.text) == (slug, expected)
        theirs = client.get(reverse("console:workspace", args=[find(strangers, "led").pk]))
        assert theirs.status_code == (200 if role == "operator" else 404)


def test_a_budget_is_set_and_ended(team: Team) -> None:
    led, client = team.led, team.client("admin")
    form = {"interval": "monthly", "limit_usd": "12.5", "enforcement": "block"}

    assert client.post(reverse("console:change_budget", args=[led.pk]), form).status_code == 302

    assert led.budgets.get().limit_nano == 12_500_000_000
    record = AuditRecord.objects.get(object_type="workspace_budget")
    assert record.operator_id == team.people["admin"].pk
    ended = client.post(reverse("console:end_budget", args=[led.pk]), {"interval": "monthly"})
    assert (ended.status_code, led.budgets.count()) == (302, 0)


def test_end_users_of_a_workspace_get_a_budget_and_one_his_own(team: Team) -> None:
    led, client = team.led, team.client("admin")
    path = reverse("console:change_end_users", args=[led.pk])
    each = {"interval": "daily", "limit_usd": "2"}

    for user, limit in (("ann", "0.5"), ("bob", "")):
        said = each | {"user": user, "user_limit_usd": limit}
        assert client.post(path, said).status_code == 302

    ann, bob = (hash_user(team.account.pk, user) for user in ("ann", "bob"))
    limits = {ann: 500_000_000, bob: None}
    wanted = {"interval": "daily", "limit_nano": 2_000_000_000, "limits": limits}
    assert team.led.end_user_budget == wanted
    page = client.get(reverse("console:workspace", args=[led.pk])).text
    assert "2 with limits of their own" in page
    # Who leads the workspace reads what holds, and finds no form that would be refused.
    page = team.client("lead").get(reverse("console:workspace", args=[led.pk])).text
    assert ("Daily: $2" in page, path in page) == (True, False)
    assert client.post(path, {"interval": ""}).status_code == 302
    assert team.led.end_user_budget is None


def test_keys_of_members_get_limits_of_the_workspace(team: Team) -> None:
    led, client = team.led, team.client("admin")
    scoped = {"scope": {"user": "*"}, "concurrent": 1}
    led.member_key_limits = dict.fromkeys(("limit_nano", "limit_reset", "allowed_models"))
    led.member_key_limits["rate_limits"] = [scoped]
    led.save()
    path = reverse("console:change_member_keys", args=[led.pk])
    form = {"limit_usd": "2.5", "limit_reset": "weekly", "requests_per_minute": "9"}

    assert client.post(path, form | {"allowed_models": "nope/none"}).status_code == 400
    assert client.post(path, form).status_code == 302

    assert team.led.member_key_limits == {
        "limit_nano": 2_500_000_000,
        "limit_reset": "weekly",
        "allowed_models": None,
        # What the form does not show stays.
        "rate_limits": [{"requests_per_minute": 9}, scoped],
    }
    page = team.client("lead").get(reverse("console:workspace", args=[led.pk])).text
    words = "2.5 USD weekly; 9 requests per minute; user *: 1 concurrent"
    assert (words in page, path in page) == (True, False)


def test_tags_of_a_workspace_get_budgets_that_are_raised_and_removed(team: Team) -> None:
    led, client = team.led, team.client("admin")
    path = reverse("console:change_tags", args=[led.pk])
    form = {"tag": "team=blue", "interval": "daily", "limit_usd": "2"}

    for said in (form, form | {"tag": "team=*"}, form | {"limit_usd": "3"}):
        assert client.post(path, said).status_code == 302
    stored = team.led.tag_budgets or []
    assert [(each["tag"], each["limit_nano"]) for each in stored] == [
        ("team=*", 2_000_000_000),
        ("team=blue", 3_000_000_000),
    ]
    page = team.client("lead").get(reverse("console:workspace", args=[led.pk])).text
    assert ("<code>team=blue</code>: $3" in page, path in page) == (True, False)

    for wrong in ({"tag": "team"}, {"interval": "hourly"}, {"limit_usd": "0"}):
        assert client.post(path, form | wrong).status_code == 400
    assert client.post(path, {"remove": "2"}).status_code == 404
    for _ in range(2):
        assert client.post(path, {"remove": "0"}).status_code == 302
    assert team.led.tag_budgets is None


def test_a_workspace_gets_rate_limits_for_all_and_for_parts_of_its_requests(team: Team) -> None:
    led, client = team.led, team.client("admin")
    whole, parts = (
        reverse(f"console:{name}", args=[led.pk])
        for name in ("change_rate_limits", "change_scoped_limits")
    )

    assert client.post(whole, {"requests_per_minute": "60", "concurrent": "4"}).status_code == 302
    each = {"part": "user", "value": "*", "requests_per_day": "100"}
    assert client.post(parts, each).status_code == 302
    assert client.post(whole, {"requests_per_minute": "30"}).status_code == 302
    assert client.post(whole, {"requests_per_minute": "0"}).status_code == 400
    assert client.post(parts, {"part": "user", "value": "*"}).status_code == 400

    scoped = {"scope": {"user": "*"}, "requests_per_day": 100}
    assert team.led.rate_limits == [{"requests_per_minute": 30}, scoped]
    # Who leads the workspace reads what holds, and finds no form that would be refused.
    page = team.client("lead").get(reverse("console:workspace", args=[led.pk])).text
    assert ("30 requests per minute" in page, "user *: 100 requests per day" in page) == (
        True,
        True,
    )
    assert (whole in page, parts in page) == (False, False)
    assert client.post(parts, {"remove": "1"}).status_code == 302
    assert client.post(whole, {}).status_code == 302
    assert team.led.rate_limits is None


def test_a_budget_that_would_not_decrease_is_refused_in_words(team: Team) -> None:
    limit_workspace(team.led, 10**9)
    path = reverse("console:change_budget", args=[team.led.pk])

    answer = team.client("admin").post(path, {"interval": "daily", "limit_usd": "2"})

    assert (answer.status_code, "must strictly decrease" in answer.text) == (400, True)


NOON = datetime(2026, 11, 10, 12, tzinfo=UTC)


def use(interval: str, spent: int, day_nano: float, limit_nano: int = 100) -> LimitUse:
    return LimitUse(interval, limit_nano, spent, NOON, day_nano)


def test_a_budget_is_foretold_by_its_pace() -> None:
    assert use("monthly", 40, 10).runs_out_at == NOON + timedelta(days=6)
    assert use("monthly", 40, 10).outlook == "runs out"
    # A month of thirty days ends first.
    assert use("monthly", 40, 2).outlook == "lasts"
    assert use("lifetime", 40, 2).outlook == "runs out"
    assert use("daily", 100, 2).outlook == "spent"
    assert use("daily", 100, 2).resets_at == datetime(2026, 11, 11, tzinfo=UTC)
    assert use("lifetime", 0, 0).outlook == "unused"
    assert use("lifetime", 0, 0.000001).outlook == "lasts"


def test_the_pace_is_what_the_last_seven_days_spent(team: Team) -> None:
    led = team.led
    Workspace.objects.filter(pk=led.pk).update(created_at=datetime.now(UTC) - timedelta(days=30))
    led.refresh_from_db()
    ask(team.keys["own"], "gen-old", ago=timedelta(days=20), charge_nano=10**9)
    ask(team.keys["own"], "gen-new", ago=timedelta(days=2), charge_nano=7 * 10**6 - 8_800)
    limit_workspace(team.led, 10**9)

    (budget,) = list_budgets_of(led, datetime.now(UTC))

    # Two requests of the team's own cost 4,400 each.
    assert budget.day_nano == 10**6
    assert budget.outlook in ("lasts", "runs out")
    assert (
        "At the pace of the last 7 days"
        in team.client("lead").get(reverse("console:workspace", args=[led.pk])).text
    )


def change(team: Team, role: str, **form: str) -> Any:
    path = reverse("console:change_members", args=[team.led.pk])
    return team.client(role).post(path, form)


def test_a_lead_looks_after_the_people_of_the_workspace(team: Team) -> None:
    admin, member = team.people["admin"], team.people["member"]
    rows = team.led.memberships

    assert change(team, "lead", user=admin.public_id, to="add").status_code == 302
    assert rows.filter(membership__user=admin).exists()
    assert change(team, "lead", user=member.public_id, to="admin").status_code == 302
    assert rows.get(membership__user=member).role == "admin"
    assert change(team, "lead", user=member.public_id, to="member").status_code == 302
    assert rows.get(membership__user=member).own_role == "member"
    # Who still has keys there stays.
    refused = change(team, "lead", user=member.public_id, to="remove")
    assert (refused.status_code, "still has active API keys" in refused.text) == (400, True)
    ApiKey.objects.filter(creator=member).update(disabled=True)
    assert change(team, "lead", user=member.public_id, to="remove").status_code == 302
    assert not rows.filter(membership__user=member).exists()
    assert change(team, "member", user=member.public_id, to="admin").status_code == 404
    assert change(team, "lead", user="user_nobody", to="admin").status_code == 404
    assert AuditRecord.objects.filter(action="member changed").count() == 2


SETTINGS = {
    "name": "Led",
    "io_logging_sampling_rate": "0.5",
    "is_observability_io_logging_enabled": "on",
    "is_observability_broadcast_enabled": "on",
    "disabled_server_tools": ["router:shell"],
    "default_provider_sort": "price",
    "rescue": "on",
}


def read_privacy(workspace: Workspace) -> tuple[bool, float, bool]:
    workspace.refresh_from_db()
    return (
        workspace.is_observability_io_logging_enabled,
        workspace.io_logging_sampling_rate,
        workspace.is_observability_broadcast_enabled,
    )


@pytest.mark.parametrize("role", TENANTS)
def test_leads_set_defaults_and_who_may_read_prompts_what_is_kept_and_sent(
    team: Team, role: str
) -> None:
    led, client = team.led, team.client(role)
    path = reverse("console:change_workspace", args=[led.pk])
    before = read_privacy(led)

    answer = client.post(path, SETTINGS)

    if role not in LEADS:
        assert (answer.status_code, read_privacy(led)) == (404, before)
        return
    assert answer.status_code == 302
    assert read_privacy(led) == (before if role == "lead" else (True, 0.5, True))
    assert (led.disabled_server_tools, led.default_provider_sort) == (["router:shell"], "price")
    assert (led.hedge, led.rescue) == (False, True)
    wrong = client.post(path, SETTINGS | {"default_text_model": "nobody/none"})
    assert (wrong.status_code, wrong.text.count('class="error" role="alert"')) == (400, 1)
    # A lead does not stop what admins began either.
    Workspace.objects.filter(pk=led.pk).update(is_observability_broadcast_enabled=True)
    silent = {"name": "Led", "io_logging_sampling_rate": "1"}
    assert client.post(path, silent).status_code == 302
    assert read_privacy(led)[2] == (role == "lead")


def test_an_admin_makes_a_workspace(team: Team) -> None:
    path, form = reverse("console:new_workspace"), {"name": "Lab", "slug": "lab"}

    assert team.client("lead").post(path, form).status_code == 404
    assert team.client("admin").post(path, form).status_code == 302
    assert find(team, "lab").name == "Lab"
    again = team.client("admin").post(path, form)
    assert (again.status_code, "slug already exists" in again.text) == (400, True)
    # Without a short name it gets one made of its name.
    assert team.client("admin").post(path, {"name": "Sales & Support"}).status_code == 302
    assert find(team, "sales-support").name == "Sales & Support"
    nameless = team.client("admin").post(path, {"name": "\N{HIRAGANA LETTER A}"})
    assert (nameless.status_code, "choose one" in nameless.text) == (400, True)


def test_lists_that_are_there_as_a_whole_are_sorted_by_the_columns_of_the_address() -> None:
    columns = (Column("Name", itemgetter(0), order="name"), Column("Spent", itemgetter(1)))
    spent = (*columns[:1], Column("Spent", itemgetter(1), "usd", order="spent"))
    rows = [("b", 3), ("A", None), ("c", 7)]

    assert sort_rows(rows, spent, "name") == [("A", None), ("b", 3), ("c", 7)]
    # What has no value comes last either way.
    assert sort_rows(rows, spent, "spent") == [("b", 3), ("c", 7), ("A", None)]
    assert sort_rows(rows, spent, "-spent") == [("c", 7), ("b", 3), ("A", None)]
    for unknown in ("", "-", "spent"):
        assert sort_rows(rows, columns, unknown) == rows


@pytest.mark.parametrize("slug", ["led", "default"])
def test_all_members_are_found(team: Team, slug: str) -> None:
    workspace = find(team, slug)
    for name in (*(f"many-{number:03}" for number in range(PEOPLE_ROWS)), "zoe"):
        user = admit_member(account=team.account, username=name, role=Membership.Role.MEMBER)
        if slug == "led":
            membership = Membership.objects.get(account=team.account, user=user)
            workspace.memberships.create(membership=membership, role="member")
    client, path = team.client("admin"), reverse("console:workspace", args=[workspace.pk])
    cell = '<td class="" data-label="Name">zoe</td>'

    first = client.get(path).text
    (more,) = re.findall(r'rel="next" href="([^"]+)"', first)

    assert (cell in first, cell in client.get(more.replace("&amp;", "&")).text) == (False, True)
    found = client.get(path, {"members_text": "ZO"}).text
    assert (cell in found, 'data-label="Name">many-000' in found) == (True, False)


def test_a_viewer_becomes_a_member_and_a_member_a_viewer(team: Team) -> None:
    workspace, client = team.led, team.client("lead")
    path = reverse("console:change_members", args=[workspace.pk])
    page = client.get(reverse("console:workspace", args=[workspace.pk])).text
    for role, word in (("admin", "lead"), ("member", "member"), ("viewer", "viewer")):
        assert f'value="{role}">Make {word}</button>' in page

    for name, role in (("viewer", "member"), ("member", "viewer")):
        client.post(path, {"user": team.people[name].public_id, "to": role})
        row = workspace.memberships.get(membership__user=team.people[name])
        assert row.role == role
    # Who may make no keys there has none that works, unless their role in the account allows it.
    assert ApiKey.objects.get(pk=team.keys["own"].pk).disabled
    admin = team.people["admin"]
    membership = admin.memberships.get(account=team.account)
    workspace.memberships.create(membership=membership, role="member", own_role="member")
    client.post(path, {"user": admin.public_id, "to": "viewer"})
    assert not ApiKey.objects.get(pk=team.keys["led"].pk).disabled
