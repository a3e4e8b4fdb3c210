"""A page that waits for somebody else holds none of the process's few connections meanwhile."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connections
from django.test import Client
from django.urls import reverse

from accounts.identity.issuers import forget_issuers
from accounts.services.records import SYSTEM
from console.views.outage import SimulatedProvider, SimulatorGone, fail_for_a_minute
from gateway.environment.sign_in import OidcProvider
from gateway.outbound.doors import door_for
from routing.destinations.services import create_destination
from tests.console.people import Team, make_team
from tests.support.local_site import LocalSite, Running, SiteHandler

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Observer(LocalSite):
    """Notes of each request whether the one that asks holds a connection to the database."""

    held: list[bool] = field(default_factory=list)
    database: Any = field(default_factory=lambda: connections["default"])


class _Handler(SiteHandler):
    site: Observer

    def _refuse(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.site.held.append(self.site.database.connection is not None)
        self.answer(b"{}", status=503)

    do_GET = do_POST = do_PUT = _refuse


@pytest.fixture
def site(settings: Any) -> Iterator[Observer]:
    settings.DESTINATION_PRIVATE_HOSTS = frozenset({"127.0.0.1"})
    forget_issuers()
    with Running(Observer, _Handler) as site:
        yield site
        door_for("127.0.0.1", private={"127.0.0.1"}).close_idle()
    forget_issuers()


def ask_destination(team: Team, site: Observer, _: Any) -> None:
    row = create_destination(
        account_id=team.account.pk,
        workspace_id=None,
        type="webhook",
        config={"url": site.url},
        by=SYSTEM,
        name="hook",
    ).row
    team.client("admin").post(
        reverse("console:change_destination", args=[row.pk]), {"to": "tested"}
    )


def add_provider(team: Team, site: Observer, _: Any) -> None:
    form = {"known": "", "slug": "mine", "name": "Mine", "kind": "openai", "base_url": site.url}
    team.client("operator").post(reverse("console:new_provider"), form)


def sign_in(team: Team, site: Observer, settings: Any) -> None:
    settings.OIDC_PROVIDERS = (OidcProvider("acme", "Acme", site.url, "gateway", "secret"),)
    # Its queries are those of a session.
    client: Client = team.client("member")
    client.get(reverse("provider_sign_in", args=["acme"]))


def cause_outage(team: Team, site: Observer, _: Any) -> None:
    team.account.refresh_from_db()
    with pytest.raises(SimulatorGone):
        fail_for_a_minute(SimulatedProvider("one", "One", site.url))


@pytest.mark.parametrize("wait", [ask_destination, add_provider, sign_in, cause_outage])
def test_no_connection_is_held(
    site: Observer, settings: Any, wait: Callable[[Team, Observer, Any], None]
) -> None:
    wait(make_team("acme"), site, settings)

    assert site.held
    assert not any(site.held)
