"""What needs somebody: whom it is told, and where it leads."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.urls import reverse

from accounts.models import ApiKey, SpendCounter
from accounts.spending import find_window_starts
from interns.models import Status
from tests.console.people import Team
from tests.console.things import count_spending, limit_workspace, make_intern

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def find_notices(team: Team, role: str, **query: str) -> str:
    page = team.client(role).get(reverse("console:home"), query).text
    return page.partition('id="attention"')[2].partition("</section>")[0]


def spend_limit(key: ApiKey, **fields: Any) -> None:
    for window, start in find_window_starts(datetime.now(UTC)).items():
        count_spending(key, 5, window, start)
    ApiKey.objects.filter(pk=key.pk).update(**{"limit_nano": 5} | fields)


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

    # Before all of it is spent, too.
    ApiKey.objects.filter(pk=own.pk).update(limit_nano=6)
    assert "acme own has spent 83 % of its limit" in find_notices(team, "member")
    ApiKey.objects.filter(pk=own.pk).update(limit_nano=7)
    assert "of its limit" not in find_notices(team, "member")

    # What is refused for another reason, or not at all, needs nobody for its limit.
    ApiKey.objects.filter(pk=own.pk).update(limit_nano=5)
    for fields in (
        {"disabled": True},
        {"disabled": False, "expires_at": datetime.now(UTC) - timedelta(days=1)},
        {"expires_at": None, "limit_enforcement": "warn"},
    ):
        ApiKey.objects.filter(pk=own.pk).update(**fields)
        assert "reached" not in find_notices(team, "member"), fields


def test_failed_interns_are_told_to_leads_of_their_workspace(team: Team) -> None:
    led = team.led
    default = team.account.workspaces.get(is_default=True)
    admin, interns = team.people["admin"], reverse("console:interns")
    make_intern(default, admin, "helper-far", Status.FAILED)
    assert interns not in find_notices(team, "lead")

    make_intern(led, admin, "helper-led", Status.FAILED)

    lead = find_notices(team, "lead")
    assert ("failed to start: 1" in lead, interns in lead) == (True, True)
    assert "failed to start: 2" in find_notices(team, "admin")
    assert "failed to start" not in find_notices(team, "member")


def test_a_spent_budget_leads_to_its_workspace(team: Team) -> None:
    led = team.led
    limit_workspace(led, 1, "lifetime")
    SpendCounter.objects.filter(scope="workspace").update(spent_nano=2)
    link = reverse("console:workspace", args=[led.pk])

    for role in ("lead", "admin"):
        assert link in find_notices(team, role), role
    # Who only looks may not open it.
    viewer = find_notices(team, "viewer")
    assert ("budget" in viewer, link in viewer) == (True, False)
