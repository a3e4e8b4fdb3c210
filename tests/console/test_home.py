"""Home: how today compares, who used most, and where each name leads."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse

from accounts.models import Membership, Workspace
from accounts.services.keys import create_key
from console.queries.usage import UsagePoint, UsageSum
from console.views.home import estimate_yesterday_nano
from routing.history.spans import HOUR
from routing.metering.models import Generation
from routing.reports.models import FailedRequest
from tests.console.people import Team, ask, refuse

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def read_links(text: str, title: str) -> dict[str, str]:
    """Names of a list of what used most, with their addresses."""
    part = text.split(f"<h2>{title}</h2>")[1].split("</section>")[0]
    rows = re.findall(r'<span class="name">(?:<a href="([^"]*)">)?([^<]+)', part)
    return {name: address.replace("&amp;", "&") for address, name in rows}


@pytest.mark.parametrize("role", ["lead", "admin", "operator"])
def test_whoever_used_most_leads_to_their_requests(team: Team, role: str) -> None:
    client = team.client(role)
    text = client.get(reverse("console:top_keys"), {"account": str(team.account.pk)}).text

    people = read_links(text, "People")
    assert set(people) == {"acme-admin", "acme-member"}
    page = client.get(people["acme-member"]).text
    found = set(re.findall(r'href="/console/requests/(gen-[^"?]+)"', page))
    assert found == {"gen-acme-own"}


def test_a_deleted_workspace_is_named_and_leads_nowhere(team: Team) -> None:
    Workspace.objects.filter(slug="led").update(deleted_at=datetime.now(UTC))
    client = team.client("admin")

    workspaces = read_links(client.get(reverse("console:top_keys")).text, "Workspaces")

    assert workspaces["Led"] == ""
    assert client.get(workspaces["Default Workspace"]).status_code == 200


def test_a_lead_of_several_workspaces_sees_which_used_most(team: Team) -> None:
    client = team.client("lead")
    for name in ("home", "top_keys"):
        assert "<h2>Workspaces</h2>" not in client.get(reverse(f"console:{name}")).text
    second = team.account.workspaces.create(name="Second", slug="second")
    membership = Membership.objects.get(account=team.account, user=team.people["lead"])
    second.memberships.create(membership=membership, role="admin")
    key, _ = create_key(
        account=team.account, name="second", workspace=second, creator=team.people["lead"]
    )
    ask(key, "gen-second")

    workspaces = read_links(client.get(reverse("console:top_keys")).text, "Workspaces")

    assert set(workspaces) == {"Led", "Second"}
    assert all(client.get(path).status_code == 200 for path in workspaces.values())


def test_today_is_compared_with_yesterday_up_to_this_time() -> None:
    now = datetime(2026, 11, 10, 6, 15, tzinfo=UTC)
    first = datetime(2026, 11, 8, 7, tzinfo=UTC)
    hours = [
        UsagePoint(first + number * HOUR, UsageSum(spend_nano=10 ** (number // 24 + 1) * 4))
        for number in range(48)
    ]
    # Six hours of yesterday, of which 400 nano-USD were spent from seven on, and a quarter.
    assert hours[-1].start == now - timedelta(minutes=15)

    assert estimate_yesterday_nano(hours, now) == 6 * 40 + 10


def test_a_first_request_that_was_refused_is_told_until_one_is_answered(team: Team) -> None:
    """Home before anything was answered."""
    key = team.keys["own"]
    Generation.objects.all().delete()
    FailedRequest.objects.all().delete()
    client, part = team.client("admin"), reverse("console:first_request")
    assert "Nothing has arrived yet" in client.get(part).text
    # What an answer broke off with is no refusal.
    refuse(key, generation_id="gen-failed")
    row = refuse(key, ago=timedelta(minutes=1), text="The key's limit is reached")

    for text in (client.get(part).text, client.get(reverse("console:home")).text):
        assert "It arrived, and was refused" in text
        assert "answered 402: The key&#x27;s limit is reached" in text
        assert reverse("console:refused", args=[row.pk]) in text

    ask(key, "gen-first", ago=timedelta(minutes=2))
    text = client.get(part).text
    assert reverse("console:request", args=["gen-first"]) in text
    assert "refused" not in text
