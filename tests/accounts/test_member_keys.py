"""Keys that members make: what their workspace gives these, and lets them have at most."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from accounts import ports
from accounts.models import ApiKey, AuditRecord, Membership, User, Workspace, WorkspaceMembership
from accounts.services.keys import create_key, issue_playground_key
from accounts.services.member_keys import bound_key
from accounts.services.organization import admit_member
from accounts.services.records import operator_actor
from tests.accounts.higher import ReplacedApps
from tests.accounts.office import Office, open_office

pytestmark = [pytest.mark.django_db, pytest.mark.both]
USD = 10**9
MOST: dict[str, Any] = {
    "limit_nano": 5 * USD,
    "limit_reset": "daily",
    "allowed_models": ["acme/one", "acme/two"],
    "rate_limits": [
        {"requests_per_minute": 10, "burst": 5},
        {"scope": {"user": "*"}, "concurrent": 1},
    ],
}
# The same as the API has it.
BODY: dict[str, Any] = {
    "limit": 5,
    "limit_reset": "daily",
    "allowed_models": ["acme/one", "acme/two"],
    "rate_limits": [
        {"requests_per_minute": 10, "burst": 5},
        {"scope": {"user": "*"}, "concurrent": 1},
    ],
}
CALLBACK = "https://app.example/back"


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The models known here are those of acme."""

    def find(names: Any) -> dict[str, str]:
        return {name: name for name in names if name.startswith("acme/")}

    monkeypatch.setattr(ports, "_registered", [ReplacedApps(find_model_slugs=find)])


@pytest.fixture
def office(db: None) -> Office:
    office = open_office()
    Workspace.objects.update(member_key_limits=MOST)
    return office


@pytest.fixture
def member(office: Office) -> User:
    return admit_member(account=office.account, username="m", role=Membership.Role.MEMBER)


def default_of(office: Office) -> Workspace:
    return office.account.workspaces.get(is_default=True)


def test_a_key_has_what_the_workspace_says_where_its_maker_says_nothing(
    office: Office, member: User
) -> None:
    assert bound_key(default_of(office).pk, member.pk, {}) == (MOST, [])


LESS: list[dict[str, Any]] = [
    {"limit_nano": 2 * USD, "limit_reset": "daily"},
    # 5 dollars a month are no more than 5 dollars a day.
    *({"limit_nano": 5 * USD, "limit_reset": each} for each in ("weekly", "monthly", None)),
    {"allowed_models": ["acme/two"]},
    {"rate_limits": [{"requests_per_minute": 3, "burst": 2}, MOST["rate_limits"][1]]},
    {"rate_limits": [MOST["rate_limits"][0] | {"weights": {"*": 2}}, MOST["rate_limits"][1]]},
    {"rate_limits": [{"scope": {"tag": "a=b"}, "concurrent": 9}, *MOST["rate_limits"]]},
]


def test_less_than_that_may_be_wanted(office: Office, member: User) -> None:
    for wanted in LESS:
        assert bound_key(default_of(office).pk, member.pk, wanted) == (MOST | wanted, []), wanted


MORE: list[tuple[Any, Any, str]] = [
    ({}, {"limit_nano": 5 * USD + 1, "limit_reset": "daily"}, "limit"),
    # A week may lie in two months, each with a limit of its own.
    ({"limit_reset": "weekly"}, {"limit_nano": 1, "limit_reset": "monthly"}, "limit_reset"),
    ({"limit_reset": None}, {"limit_nano": 1, "limit_reset": "monthly"}, "limit_reset"),
    ({}, {"allowed_models": ["acme/three"]}, "allowed_models"),
    ({}, {"rate_limits": [{"requests_per_minute": 11}]}, "requests_per_minute"),
    ({}, {"rate_limits": [{"requests_per_minute": 10, "burst": 6}]}, "burst"),
    (
        {"rate_limits": [{"concurrent": 1, "weights": {"acme/*": 5}}]},
        {"rate_limits": [{"concurrent": 1, "weights": {"acme/*": 5, "acme/one": 1}}]},
        "weights",
    ),
]


def test_more_than_that_is_named_and_not_given(office: Office, member: User) -> None:
    for most, wanted, path in MORE:
        Workspace.objects.update(member_key_limits=MOST | most)
        bound = bound_key(default_of(office).pk, member.pk, wanted)
        assert [each.path for each in bound.issues] == [path]
        assert bound.fields == MOST | most


def test_a_burst_follows_the_smaller_limit_of_a_minute(office: Office, member: User) -> None:
    wanted = {"rate_limits": [{"requests_per_minute": 3}]}

    limits = bound_key(default_of(office).pk, member.pk, wanted).fields["rate_limits"]

    assert limits[0] == {"requests_per_minute": 3, "burst": 3}


def test_who_decides_over_keys_of_others_is_held_to_nothing(office: Office, member: User) -> None:
    team = office.workspace("team")
    Workspace.objects.update(member_key_limits=MOST)
    place = {"workspace": team, "membership": Membership.objects.get(user=member)}
    mine = WorkspaceMembership.objects.create(**place, role="member")
    assert bound_key(team.pk, member.pk, {}).fields == MOST
    mine.role = "admin"
    mine.save()
    operator = User.objects.create_superuser("root")

    for user_id in (member.pk, office.admin.pk, operator.pk, None):
        assert bound_key(team.pk, user_id, {}) == ({}, [])
    assert bound_key(default_of(office).pk, member.pk, {}).fields == MOST


def test_admins_say_it_by_the_api(office: Office) -> None:
    Workspace.objects.update(member_key_limits=None)
    path = "/workspaces/default"

    said = office.ok("PATCH", path, {"member_key_limits": BODY})["data"]["member_key_limits"]

    assert {name: said[name] for name in ("limit", "limit_reset")} == {
        "limit": 5,
        "limit_reset": "daily",
    }
    assert default_of(office).member_key_limits == MOST
    record = AuditRecord.objects.filter(object_type="workspace").latest("pk")
    assert (record.before, record.after) == (
        {"member_key_limits": None},
        {"member_key_limits": MOST},
    )
    refusal = office.expect_refusal(
        400, "PATCH", path, {"member_key_limits": {"allowed_models": ["nope/none"]}}
    )
    assert refusal.startswith("member_key_limits.allowed_models.0: nope/none")
    assert office.expect_refusal(400, "PATCH", path, {"member_key_limits": {"rpm": 5}})
    assert office.ok("PATCH", path, {"member_key_limits": {}})["data"]["member_key_limits"] is None


def test_an_app_s_key_and_a_playground_s_have_no_more(office: Office, member: User) -> None:
    workspace = default_of(office)
    # From before there were limits.
    _, free = create_key(account=office.account, name="k", workspace=workspace, creator=member)
    body = {"callback_url": CALLBACK}
    asked = "POST", "/auth/keys/code"
    status, refusal = office.call(*asked, body | {"limit": 6}, key=free)
    assert (status, "5 USD daily" in refusal["error"]["message"]) == (400, True)
    code = office.call(*asked, body, key=free)[1]["data"]["id"]
    # Of what an admin lets an app have, the management key is the measure.
    ours = office.ok(*asked, body | {"limit": 6})["data"]["id"]
    for each, limit in ((code, 5), (ours, 6)):
        kind = "application/json"
        made: Any = Client().post("/api/v1/auth/keys", {"code": each}, content_type=kind)
        assert office.call("GET", "/key", key=made.json()["key"])[1]["data"]["limit"] == limit
    client = Client()
    client.force_login(member)
    form = {"decision": "allow", "workspace": workspace.pk, "limit_usd": "6", "lifetime": "0"}
    refused = client.post(f"/auth?callback_url={CALLBACK}", form)
    assert (refused.status_code, "5 USD daily" in refused.text) == (400, True)

    for most in (MOST, MOST | {"limit_nano": USD, "allowed_models": ["acme/two"]}):
        Workspace.objects.update(member_key_limits=most)
        key, _ = issue_playground_key(
            workspace=workspace,
            person=member,
            creator=member,
            by=operator_actor(member),
            at=datetime.now(UTC),
        )
        assert {name: getattr(key, name) for name in MOST} == most
    of_app = ApiKey.objects.get(app__isnull=False, limit_nano=5 * USD)
    assert {name: getattr(of_app, name) for name in MOST} == MOST
