"""What needs somebody: whom it is told, and where it leads."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.urls import reverse

from accounts.models import ApiKey, SpendCounter, Workspace
from accounts.services.records import SYSTEM
from accounts.services.workspace_budgets import set_budget
from accounts.spending import find_window_starts
from interns.models import Intern, Status
from tests.console.people import Team

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def find_notices(team: Team, role: str, **query: str) -> str:
    page = team.client(role).get(reverse("console:home"), query).text
    return page.partition('id="attention"')[2].partition("</section>")[0]


def spend_limit(key: ApiKey, **fields: Any) -> None:
    starts = find_window_starts(datetime.now(UTC))
    for window, start in starts.items():
        row, _ = SpendCounter.objects.get_or_create(
            scope="key",
            scope_id=str(key.pk),
            window=window,
            window_start=start,
        )
        SpendCounter.objects.filter(pk=row.pk).update(spent_nano=5)
    ApiKey.objects.filter(pk=key.pk).update(**{"limit_nano": 5} | fields)


def fail_intern(workspace: Workspace, creator: Any, name: str) -> None:
    now = datetime.now(UTC)
    Intern.objects.create(
        workspace=workspace,
        creator=creator,
        name=name,
        status=Status.FAILED,
        status_since=now,
        created_at=now,
        updated_at=now,
    )


def test_keys_at_their_limit_are_told_to_those_who_see_them(team: Team) -> None:
    own, far = team.keys["own"], team.keys["far"]
    spend_limit(own)
    link = reverse("console:key", args=[own.pk])
    for role in ("member", "lead", "admin"):
        assert link in find_notices(team, role), role

    spend_limit(far)
    assert "acme far" not in find_notices(team, "lead")
    both = find_notices(team, "admin")
    assert (reverse("console:keys") in both, "acme far" in both) == (True, True)

    # What is refused for another reason, or not at all, needs nobody for its limit.
    for fields in (
        {"disabled": True},
        {"disabled": False, "expires_at": datetime.now(UTC) - timedelta(days=1)},
        {"expires_at": None, "limit_enforcement": "warn"},
    ):
        ApiKey.objects.filter(pk=own.pk).update(**fields)
        assert "reached" not in find_notices(team, "member"), fields


def test_failed_interns_are_told_to_leads_of_their_workspace(team: Team) -> None:
    led = team.account.workspaces.get(slug="led")
    default = team.account.workspaces.get(is_default=True)
    admin, interns = team.people["admin"], reverse("console:interns")
    fail_intern(default, admin, "helper-far")
    assert interns not in find_notices(team, "lead")

    fail_intern(led, admin, "helper-led")

    lead = find_notices(team, "lead")
    assert ("failed to start: 1" in lead, interns in lead) == (True, True)
    assert "failed to start: 2" in find_notices(team, "admin")
    assert "failed to start" not in find_notices(team, "member")


def test_a_spent_budget_leads_to_its_workspace(team: Team) -> None:
    led = team.account.workspaces.get(slug="led")
    set_budget(
        account_id=team.account.pk,
        reference="led",
        interval="lifetime",
        limit_nano=1,
        include_byok=None,
        by=SYSTEM,
    )
    SpendCounter.objects.filter(scope="workspace").update(spent_nano=2)
    link = reverse("console:workspace", args=[led.pk])

    for role in ("lead", "admin"):
        assert link in find_notices(team, role), role
    # Who only looks may not open it.
    viewer = find_notices(team, "viewer")
    assert ("budget" in viewer, link in viewer) == (True, False)
