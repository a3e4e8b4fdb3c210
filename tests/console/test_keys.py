"""Keys: who may make, limit, rotate and disable which; what is shown once."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse

from accounts.keystring import hash_key
from accounts.models import ApiKey, AuditRecord
from accounts.spending import find_window_starts
from console.forms.rate_limits import FiguresForm, ScopedLimitForm, find_whole_limit
from gateway.limits.rules import LIMITS_MAX
from tests.console.people import ADMINS, ROLES, Team, ask, make_team
from tests.console.things import count_spending, make_model, make_provider

pytestmark = [pytest.mark.django_db, pytest.mark.both]
KEY = re.compile(r"sk-rt-v1-[0-9a-f]{64}")
ALL = {"own", "led", "far"}
MAY_SEE = {
    "member": {"own"},
    "viewer": {"own", "led"},
    "billing": ALL,
    "lead": {"own", "led"},
    **dict.fromkeys(ADMINS, ALL),
}
MAY_SWITCH = {**MAY_SEE, "viewer": set(), "billing": set()}


def make(client: Client, team: Team, **fields: str) -> Any:
    led = team.led
    usual = {"name": "new", "workspace": str(led.pk), "limit_usd": "", "limit_reset": ""}
    return client.post(reverse("console:new_key"), usual | {"lifetime": ""} | fields)


@pytest.mark.parametrize("role", ROLES)
def test_a_new_key_is_shown_once_and_is_the_person_s_own(team: Team, role: str) -> None:
    client = team.client(role)
    fields = {"limit_usd": "1.25", "limit_reset": "daily", "lifetime": "30"}
    answer = make(client, team, workspace=str(team.workspace_of(role).pk), **fields)

    (string,) = set(KEY.findall(answer.text))
    key = ApiKey.objects.get(name="new")
    assert key.hash == hash_key(string)
    assert (key.limit_nano, key.limit_reset) == (1_250_000_000, "daily")
    assert key.expires_at is not None
    # An operator who belongs to no account owns no keys.
    assert key.creator == (None if role == "operator" else team.people[role])
    assert answer["Cache-Control"] == "no-store"
    for path in (reverse("console:keys"), reverse("console:key", args=[key.pk])):
        assert string not in client.get(path).text
    assert not any(string in str(row.get_decoded()) for row in Session.objects.all())
    record = AuditRecord.objects.get(object_type="key", object_id=str(key.pk))
    assert (record.action, record.operator_id) == ("created", team.people[role].pk)


def test_a_key_is_there_for_who_may_see_it_alone(team: Team) -> None:
    strangers = make_team("theirs")
    for role in ROLES:
        client = team.client(role)
        for name, key in team.keys.items():
            expected = 200 if name in MAY_SEE[role] else 404
            assert client.get(reverse("console:key", args=[key.pk])).status_code == expected
        for action in ("switch_key", "renew_key"):
            for name, key in {**team.keys, **strangers.keys}.items():
                theirs = key.account_id != team.account.pk
                refused = role != "operator" if theirs else name not in MAY_SWITCH[role]
                if refused:
                    path = reverse(f"console:{action}", args=[key.pk])
                    assert client.post(path, {"to": "disabled", "grace_s": "0"}).status_code == 404
        hashes = {key.pk: key.hash for key in strangers.keys.values()}
        if role != "operator":
            assert dict(ApiKey.objects.filter(pk__in=hashes).values_list("pk", "hash")) == hashes


def test_a_key_is_made_only_where_the_person_belongs(team: Team) -> None:
    far, strangers = team.account.workspaces.create(name="Far", slug="far"), make_team("theirs")
    elsewhere = strangers.account.workspaces.first()
    assert elsewhere is not None
    led = team.led
    strange = (
        ("member", far),
        ("lead", far),
        ("admin", elsewhere),
        ("viewer", led),
        ("billing", led),
    )
    for role, workspace in strange:
        answer = make(team.client(role), team, workspace=str(workspace.pk))
        assert (role, answer.status_code) == (role, 400)
    assert not ApiKey.objects.filter(name="new").exists()


def test_only_who_leads_changes_a_limit_or_enables(team: Team) -> None:
    key, fields = team.keys["own"], {"name": "own", "limit_usd": "2", "limit_reset": ""}
    path = reverse("console:key", args=[key.pk])
    switch = reverse("console:switch_key", args=[key.pk])

    assert team.client("member").post(path, fields).status_code == 404
    assert team.client("member").post(switch, {"to": "disabled"}).status_code == 302
    assert team.client("member").post(switch, {"to": "enabled"}).status_code == 404
    key.refresh_from_db()
    assert (key.disabled, key.limit_nano) == (True, None)

    assert team.client("lead").post(path, fields).status_code == 302
    assert team.client("lead").post(switch, {"to": "enabled"}).status_code == 302
    key.refresh_from_db()
    assert (key.disabled, key.limit_nano) == (False, 2_000_000_000)


def test_a_key_wants_what_its_page_says_else_what_its_workspace_wants(team: Team) -> None:
    client = team.client("lead")
    make(client, team, hedge="True", rescue="False")
    key = ApiKey.objects.get(name="new")
    assert (key.hedge, key.rescue) == (True, False)
    path, fields = reverse("console:key", args=[key.pk]), {"name": "new", "limit_usd": ""}
    assert '<option value="False" selected' in client.get(path).text

    client.post(path, fields | {"hedge": "", "rescue": "True"})
    key.refresh_from_db()
    assert (key.hedge, key.rescue) == (None, True)


def test_a_rotated_key_shows_its_new_string_once(team: Team) -> None:
    key, client = team.keys["own"], team.client("member")
    answer = client.post(reverse("console:renew_key", args=[key.pk]), {"grace_s": "3600"})

    (string,) = set(KEY.findall(answer.text))
    assert ApiKey.objects.get(pk=key.pk).hash == hash_key(string)
    assert ApiKey.objects.of_string(key.hash).get() == key
    odd = client.post(reverse("console:renew_key", args=[key.pk]), {"grace_s": "1"})
    assert odd.status_code == 404


def test_a_key_s_end_and_models_are_changed_on_its_page(team: Team) -> None:
    make_model("acme/small", make_provider("from"))
    key, client = team.keys["own"], team.client("lead")
    path, fields = reverse("console:key", args=[key.pk]), {"name": "own", "limit_usd": ""}

    client.post(path, fields | {"lifetime": "7", "allowed_models": "acme/small"})
    key.refresh_from_db()
    assert key.expires_at is not None
    left = key.expires_at - datetime.now(UTC)
    assert timedelta(days=6.9) < left < timedelta(days=7)
    assert key.allowed_models == ["acme/small"]
    assert "acme/small</dd>" in client.get(path).text

    client.post(path, fields | {"lifetime": "", "allowed_models": ""})
    former = key.expires_at
    key.refresh_from_db()
    assert (key.expires_at, key.allowed_models) == (former, None)
    client.post(path, fields | {"lifetime": "never"})
    assert client.post(path, fields | {"allowed_models": "acme/none"}).status_code == 400
    key.refresh_from_db()
    assert key.expires_at is None


def test_a_new_key_is_for_the_models_that_are_named(team: Team) -> None:
    client = team.client("lead")
    make_model("acme/one", make_provider("from"))

    assert make(client, team, allowed_models="acme/one").status_code == 200
    assert ApiKey.objects.get(name="new").allowed_models == ["acme/one"]
    wrong = make(client, team, name="other", allowed_models="acme/none")
    assert (wrong.status_code, "acme/none" in wrong.text) == (400, True)


def test_a_key_s_limit_is_foretold_by_its_pace(team: Team) -> None:
    key = team.keys["own"]
    ask(key, "gen-dear", charge_nano=10**9)
    path = reverse("console:key", args=[key.pk])
    for limit_nano, words in ((2 * 10**9, "it runs out on"), (10**15, "it lasts for years")):
        ApiKey.objects.filter(pk=key.pk).update(limit_nano=limit_nano)

        assert words in team.client("member").get(path).text


@pytest.mark.parametrize(
    "fields", [{"name": ""}, {"limit_usd": "-1"}, {"limit_usd": "x"}, {"lifetime": "3"}]
)
def test_what_is_wrong_is_said_at_its_field(team: Team, fields: dict[str, str]) -> None:
    answer = make(team.client("admin"), team, **fields)

    assert (answer.status_code, answer.text.count('class="error" role="alert"')) == (400, 1)
    assert not ApiKey.objects.filter(name="new").exists()


def test_the_list_finds_keys_by_name_and_as_csv(team: Team) -> None:
    client, path = team.client("admin"), reverse("console:keys")

    assert "acme led" in client.get(path).text
    found = client.get(path, {"text": "far"}).text
    assert ("acme far" in found, "acme led" in found) == (True, False)
    assert client.get(path, {"csv": "1"}).text.startswith("Name,Key,Status")
    assert "Nothing fits this search" in client.get(path, {"text": "nothing"}).text


def test_the_page_s_figures_are_those_of_all_requests_and_limits_with_a_scope_stay(
    team: Team,
) -> None:
    key, scoped = team.keys["own"], {"scope": {"user": "*"}, "concurrent": 2}
    ApiKey.objects.filter(pk=key.pk).update(rate_limits=[{"requests_per_day": 9}, scoped])
    client, path = team.client("lead"), reverse("console:key", args=[key.pk])
    shown = client.get(path).text
    assert 'name="requests_per_day" value="9"' in shown
    assert "user *: 2 concurrent" in shown
    # A key that has some is no place to hide them.
    folded = "<details><summary>Rate limits"
    assert folded not in shown
    assert shown.index("<summary>Rate limits") < shown.index('name="burst"')
    assert folded in client.get(reverse("console:new_key")).text

    fields = {"name": key.name, "limit_usd": "", "limit_reset": ""}
    figures = {"requests_per_minute": "5", "concurrent": "3", "burst": "2", "weights": "acme/*=4"}
    client.post(path, fields | figures)
    key.refresh_from_db()
    weights = {"acme/*": 4}
    kept = [{"requests_per_minute": 5, "concurrent": 3, "burst": 2, "weights": weights}, scoped]
    assert key.rate_limits == kept
    assert "acme/*=4</textarea>" in client.get(path).text
    for typed, words in (
        ("acme/none=2", "not a valid model ID"),
        ("acme/*", "a whole number"),
        ("acme/*=0", "expected number to be"),
    ):
        assert words in client.post(path, fields | figures | {"weights": typed}).text
    assert "no limit for them" in client.post(path, fields | {"weights": "acme/*=4"}).text
    assert "No more than the requests" in client.post(path, fields | figures | {"burst": "6"}).text
    many = fields | figures | {"requests_per_minute": "121"}
    assert "no less than a sixtieth" in client.post(path, many).text
    key.refresh_from_db()
    assert key.rate_limits == kept
    client.post(path, fields)
    key.refresh_from_db()
    assert key.rate_limits == [scoped]


def test_a_lead_limits_a_part_of_a_key_s_requests(team: Team) -> None:
    key = team.keys["led"]
    path, client = reverse("console:key_limits", args=[key.pk]), team.client("lead")
    tag = {"part": "tag", "value": "team=*", "requests_per_minute": "5"}

    assert team.client("member").post(path, tag).status_code == 404
    assert client.post(path, tag).status_code == 302
    unknown = client.post(path, {"part": "model", "value": "acme/none", "concurrent": "1"})
    nothing = client.post(path, {"part": "user", "value": "*"})

    key.refresh_from_db()
    assert key.rate_limits == [{"scope": {"tag": "team=*"}, "requests_per_minute": 5}]
    assert (unknown.status_code, "acme/none is not a valid model ID" in unknown.text) == (400, True)
    assert (nothing.status_code, "expected one of" in nothing.text) == (400, True)
    assert (
        "tag team=*: 5 requests per minute"
        in client.get(reverse("console:key", args=[key.pk])).text
    )
    for nowhere in ("1", "-1", "9" * 5_000):
        assert client.post(path, {"remove": nowhere}).status_code == 404
    assert client.post(path, {"remove": "0"}).status_code == 302
    key.refresh_from_db()
    assert key.rate_limits is None


def test_an_intern_s_key_gets_no_new_string(team: Team) -> None:
    key = team.keys["own"]
    ApiKey.objects.filter(pk=key.pk).update(intern_id=uuid4())
    client, rotation = team.client("admin"), reverse("console:renew_key", args=[key.pk])

    page = client.get(reverse("console:key", args=[key.pk])).text

    assert ("would cut the intern off" in page, rotation in page) == (True, False)
    assert client.post(rotation, {"grace_s": "0"}).status_code == 404
    assert ApiKey.objects.get(pk=key.pk).hash == key.hash


@pytest.mark.parametrize(("order", "window"), [("today", "day"), ("month", "month")])
def test_keys_are_sorted_by_what_they_spent(team: Team, order: str, window: str) -> None:
    now = datetime.now(UTC)
    for name, nano in (("own", 7), ("led", 9)):
        count_spending(team.keys[name], nano, window, find_window_starts(now)[window])
    # What was spent before the window does not count in it.
    count_spending(team.keys["far"], 1_000, window, (now - timedelta(days=40)).date())

    text = team.client("admin").get(reverse("console:keys"), {"order": f"-{order}"}).text

    found = re.findall(r'href="/console/keys/(\d+)"', text)
    assert found == [str(team.keys[name].pk) for name in ("led", "own", "far")]
    text = team.client("admin").get(reverse("console:keys"), {"order": order}).text
    assert re.findall(r'href="/console/keys/(\d+)"', text) == found[::-1]


SCOPED = {"scope": {"model": "acme/small"}, "concurrent": 2}


def test_several_limits_of_all_requests_are_shown_and_kept_as_they_hold() -> None:
    limits: list[dict[str, Any]] = [
        {"requests_per_minute": 60, "concurrent": 9},
        SCOPED,
        {"requests_per_minute": 90, "tokens_per_minute": 200_000},
    ]
    whole = find_whole_limit(limits)
    assert whole == {"requests_per_minute": 60, "tokens_per_minute": 200_000, "concurrent": 9}

    form = FiguresForm({**whole, "requests_per_minute": 80})
    assert form.is_valid()
    assert form.read_rate_limits(limits) == [{**whole, "requests_per_minute": 80}, SCOPED]


def test_the_console_keeps_no_more_limits_than_the_api_takes() -> None:
    form = ScopedLimitForm({"part": "model", "value": "acme/other", "concurrent": 1})
    assert form.is_valid()
    assert form.add_to([SCOPED] * LIMITS_MAX) is None
    assert "no more" in str(form.errors)
