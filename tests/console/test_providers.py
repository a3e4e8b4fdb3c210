"""Providers: how they do, adding one with its prices, parking it, and who may."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.urls import reverse

from accounts.events.outbox import record_event
from accounts.models import AuditRecord
from console.queries.providers import judge_health, list_incidents, list_providers
from console.scope import find_scope_of_account
from routing.admin.charts import Stretch
from routing.catalogue.listing import LearnedStats
from routing.catalogue.models import Endpoint, Provider
from routing.catalogue.snapshot import build_snapshot, catalogue
from routing.selection.types import HealthSnapshot
from routing.statistics.models import EndpointSample
from tests.console.people import ROLES, Team, ask, make_team
from tests.console.things import make_model, make_provider
from tests.routing.catalogue.scripted_provider import Handler, ScriptedProvider
from tests.support.local_site import Running
from tests.support.operations import endpoint

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def upstream() -> Iterator[ScriptedProvider]:
    with Running(ScriptedProvider, Handler) as script:
        yield script


def add(team: Team, upstream: ScriptedProvider, role: str = "operator", **fields: str) -> Any:
    form = {"known": "", "slug": "mine", "name": "Mine", "kind": "openai"}
    form["base_url"] = upstream.base_url
    return team.client(role).post(reverse("console:new_provider"), form | fields)


def test_everybody_sees_providers_and_operators_change_them(team: Team) -> None:
    provider = make_provider("open")
    for role in ROLES:
        client, slug = team.client(role), provider.slug
        is_operator = role == "operator"
        listed = client.get(reverse("console:providers"))
        page = client.get(reverse("console:provider", args=[slug]))
        assert (listed.status_code, page.status_code) == (200, 200)
        assert ("http://127.0.0.1:9/v1" in page.text) == is_operator
        for name, args in (("new_provider", []), ("prices", [slug])):
            answer = client.get(reverse(f"console:{name}", args=args))
            assert answer.status_code == (200 if is_operator else 404)
        switch = reverse("console:switch_provider", args=[slug])
        assert client.post(switch, {"to": "parked"}).status_code == (302 if is_operator else 404)
        tested = client.post(reverse("console:test_provider", args=[slug]))
        assert tested.status_code == (200 if is_operator else 404)
        provider.refresh_from_db()
        assert provider.status == (-5 if is_operator else 0)
        assert AuditRecord.objects.filter(object_type="provider").exists() == is_operator


def test_a_provider_is_added_priced_and_enabled(team: Team, upstream: ScriptedProvider) -> None:
    upstream.lists("small", "large")

    answer = add(team, upstream, key="sk-mine")

    prices = reverse("console:prices", args=["mine"])
    assert (answer.status_code, answer["Location"]) == (302, prices)
    provider = Provider.objects.get(slug="mine")
    assert (provider.status, provider.credential()) == (-5, "sk-mine")
    assert build_snapshot().listing == ()
    client = team.client("operator")
    text = client.get(prices).text
    assert ("mine/small" in text, "sk-mine" in text) == (True, False)
    small = Endpoint.objects.get(upstream_model="small")
    wrong = client.post(prices, {f"in_{small.pk}": "x", f"out_{small.pk}": "2"})
    assert (wrong.status_code, "Two amounts of USD" in wrong.text) == (400, True)

    form = {f"in_{small.pk}": "0.15", f"out_{small.pk}": "0.6", "to": "enabled"}
    assert client.post(prices, form).status_code == 302

    small.refresh_from_db()
    assert small.pricing == {"prompt": "0.00000015", "completion": "0.0000006"}
    (model,) = build_snapshot().listing
    assert (model.id, model.endpoints[0].routable) == ("mine/small", True)
    # What had no price before is written once.
    assert client.post(prices, form).status_code == 302
    records = AuditRecord.objects.filter(account=None).exclude(action="signed in")
    actions = records.values_list("action", flat=True)
    assert sorted(actions) == ["added", "priced", "switched"]


def test_the_models_of_a_new_provider_are_asked_what_they_can_do(
    team: Team, upstream: ScriptedProvider
) -> None:
    upstream.lists("small")
    assert add(team, upstream).status_code == 302
    assert upstream.chats == []
    upstream.lists("other")

    answer = add(team, upstream, slug="apt", probes="on")

    assert (answer.status_code, len(upstream.chats)) == (302, 3)
    page = team.client("operator").get(answer["Location"]).text
    assert "tools, JSON schemas, log-probabilities" in page


def test_a_provider_that_does_not_answer_is_not_stored(
    team: Team, upstream: ScriptedProvider
) -> None:
    silent = add(team, upstream, base_url="http://127.0.0.1:9/v1")
    assert (silent.status_code, "Nothing was stored" in silent.text) == (400, True)
    for wrong in ({"slug": "No Slug"}, {"base_url": "ftp://x"}, {"known": "openai"}):
        answer = add(team, upstream, **wrong)
        assert (wrong, answer.status_code) == (wrong, 400)
    assert not Provider.objects.exists()
    upstream.lists("small")
    add(team, upstream)
    taken = add(team, upstream)
    assert (taken.status_code, "has this slug already" in taken.text) == (400, True)


def test_shares_and_failures_are_of_the_view_alone(team: Team) -> None:
    now = datetime.now(UTC)
    for slug in ("one", "two"):
        make_provider(slug)
    for number in range(3):
        ask(team.keys["own"], f"gen-a{number}", endpoint_tag="one/fast", charge_nano=1_000)
    ask(team.keys["own"], "gen-b", endpoint_tag="two", status=502, error_type="server")
    ask(make_team("theirs").keys["own"], "gen-c", endpoint_tag="two")
    scope = find_scope_of_account(team.people["admin"], team.account.pk)

    one, two = list_providers(scope, now - timedelta(days=1), now)

    assert (one.provider.slug, one.use.requests, one.use.spend_nano) == ("one", 3, 3_000)
    assert (two.use.requests, two.use.error_percent) == (1, 100)
    text = team.client("admin").get(reverse("console:provider", args=["two"])).text
    assert ">server<" in text


def test_health_is_said_in_a_word() -> None:
    provider = Provider(slug="one")
    endpoints = [Endpoint(pk=pk, provider=provider, pricing={}) for pk in (1, 2)]

    def judge(*shown: Endpoint, **standing: frozenset[int]) -> str:
        learned = LearnedStats(standing=HealthSnapshot(**standing))
        return judge_health(provider, shown, learned).word

    assert judge(*endpoints) == "works"
    assert judge(*endpoints, unstable=frozenset({1, 2})) == "failing"
    assert judge(*endpoints, parked=frozenset({2})) == "asked for a pause: 1 models"
    assert judge(Endpoint(pk=3)) == "no prices"
    provider.status = -5
    assert judge(*endpoints) == "parked"


def test_incidents_are_stretches_that_failed_and_what_was_told() -> None:
    now = datetime(2026, 11, 10, 12, tzinfo=UTC)
    provider = make_provider("one")

    def stretch(minutes: int, calls: int, errors: int) -> Stretch:
        return Stretch(now - timedelta(minutes=minutes), calls, errors, 0, None, None)

    history = [stretch(60, 10, 1), stretch(55, 10, 9), stretch(50, 4, 2), stretch(20, 2, 2)]
    for kind, ago in (("provider.down", 300), ("provider.up", 290), ("provider.down", 3)):
        record_event(
            kind,  # type: ignore[arg-type]  # Words of `EventKind`.
            key=f"{kind}:{ago}",
            title="One",
            text="It is silent. Requests go to others.",
            data={"provider": "one"},
            at=now - timedelta(minutes=ago),
        )

    since = now - timedelta(days=1)
    last, failing, first = list_incidents(provider, history, since, has_counts=True)

    assert (last.end, last.what) == (None, "It is silent.")
    assert failing.what == "11 of 14 calls failed"
    assert failing.end == now - timedelta(minutes=45)
    assert first.end == now - timedelta(minutes=290)
    # How much other accounts ask is not for everybody.
    _, failing, _ = list_incidents(provider, history, since, has_counts=False)
    assert failing.what == "79 % of calls failed"
    assert len(list_incidents(provider, [], now - timedelta(hours=1), has_counts=False)) == 1


@pytest.mark.parametrize(("role", "counts"), [("owner", False), ("operator", True)])
def test_how_many_calls_all_accounts_make_is_for_operators(
    team: Team, role: str, *, counts: bool
) -> None:
    provider = make_provider("one")
    model = make_model("acme/a")
    started = datetime.now(UTC) - timedelta(hours=2)
    EndpointSample.objects.create(
        endpoint=endpoint(model, provider), started_at=started, calls=977, errors=733
    )
    catalogue.forget()
    for path in (
        reverse("console:provider", args=["one"]),
        reverse("console:model", args=["acme/a"]),
    ):
        text = team.client(role).get(path, {"account": str(team.account.pk)}).text
        assert (path, '"label": "Uptime"' in text) == (path, True)
        assert (path, '"label": "Answered"' in text) == (path, counts)
