"""GET, PATCH and DELETE of /keys: what is listed, what may change, and what is not there."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from accounts.models import ApiKey, Membership, SpendCounter
from accounts.services.accounts import admit_member, open_workspace
from accounts.services.keys import create_key, delete_keys, record_uses
from accounts.windows import window_starts
from tests.accounts.office import KEYS, Office, at, open_office

pytestmark = [pytest.mark.django_db, pytest.mark.both]
USD = 1_000_000_000


@pytest.fixture
def office(db: None) -> Office:
    return open_office()


def many(office: Office, count: int) -> list[str]:
    """Hashes of so many keys, the newest first; each has counters and a creator."""
    workspace = office.account.workspaces.get(is_default=True)
    creator = admit_member(account=office.account, username="c", role=Membership.Role.MEMBER)
    options: dict[str, Any] = {"account": office.account, "workspace": workspace}
    made = [create_key(**options, name=str(n), creator=creator)[0] for n in range(count)]
    SpendCounter.objects.bulk_create(
        SpendCounter(
            scope="key", scope_id=str(key.pk), window=window, window_start=start, spent_nano=key.pk
        )
        for key in made
        for window, start in window_starts(datetime.now(UTC)).items()
    )
    return [key.hash for key in reversed(made)]


def test_a_hundred_keys_are_a_page_of_few_queries(office: Office) -> None:
    hashes = many(office, 103)

    first = office.ok("GET")["data"]
    assert office.queries <= 3
    assert [key["hash"] for key in first] == hashes[:100]
    numbers = dict(ApiKey.objects.values_list("hash", "pk"))
    assert all(round(key["usage_weekly"] * USD) == numbers[key["hash"]] for key in first)
    assert {key["creator_user_id"] for key in first} == {first[0]["creator_user_id"]}
    assert office.hashes("?offset=100") == hashes[100:]
    assert office.hashes("?offset=102&limit=1") == hashes[102:]
    assert office.hashes("?offset=103") == []


@pytest.mark.parametrize("offset", ["", "null", "0"])
def test_no_offset_is_the_first_page(office: Office, offset: str) -> None:
    made = office.new()

    assert office.hashes(f"?offset={offset}") == [made["data"]["hash"]]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("offset=-1", "offset"),
        ("offset=x", "offset"),
        ("offset=1.5", "offset"),
        ("offset=99999999999999999999999", "offset"),
        ("include_disabled=maybe", "include_disabled"),
        ("include_expired=2", "include_expired"),
        ("workspace_id=default", "workspace_id"),
        ("workspace_id=%00", "workspace_id"),
        ("workspace_id=8ac444a2-123e-4fa1-989b-e2b2f6724df6", "workspace_id"),
    ],
)
def test_an_odd_query_is_refused_by_name(office: Office, query: str, path: str) -> None:
    office.new()

    assert office.refused(400, "GET", f"{KEYS}?{query}").startswith(f"{path}: ")


def test_disabled_and_expired_keys_are_listed_on_request(office: Office) -> None:
    usable, disabled, expired, both = (office.new()["data"]["hash"] for _ in range(4))
    ApiKey.objects.filter(hash__in=[disabled, both]).update(disabled=True)
    past = datetime.now(UTC) - timedelta(seconds=1)
    ApiKey.objects.filter(hash__in=[expired, both]).update(expires_at=past)

    assert office.hashes() == [usable]
    assert office.hashes("?include_disabled=false&include_expired=") == [usable]
    assert office.hashes("?include_disabled=true") == [disabled, usable]
    assert office.hashes("?include_expired=TRUE") == [expired, usable]
    assert len(office.hashes("?include_disabled=true&include_expired=true")) == 4


def test_a_list_is_of_one_workspace(office: Office) -> None:
    other = open_workspace(account=office.account, slug="other")
    here = office.new()["data"]
    there = office.new(workspace_id=str(other.pk))["data"]
    stranger = open_office("stranger").account.workspaces.get()

    assert office.hashes() == [here["hash"]]
    assert office.hashes(f"?workspace_id={here['workspace_id']}") == [here["hash"]]
    assert office.hashes(f"?workspace_id={other.pk}") == [there["hash"]]
    assert "workspace_id" in office.refused(400, "GET", f"{KEYS}?workspace_id={stranger.pk}")


def test_management_keys_are_never_shown(office: Office) -> None:
    manager = ApiKey.objects.get()

    assert office.hashes("?include_disabled=true&include_expired=true") == []
    for method in ("GET", "PATCH", "DELETE"):
        office.refused(404, method, f"{KEYS}/{manager.hash}", {"disabled": True})
    office.refused(404, "POST", f"{KEYS}/{manager.hash}/rotate", {})
    assert not ApiKey.objects.get().disabled


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE", "POST"])
def test_a_key_of_others_is_as_absent_as_none(office: Office, method: str) -> None:
    theirs = open_office("theirs").new()["data"]["hash"]
    deleted = office.new()["data"]["hash"]
    delete_keys(keys=ApiKey.objects.filter(hash=deleted))
    tail = "/rotate" if method == "POST" else ""
    odd = ["0" * 64, theirs, deleted, theirs.upper(), theirs[:-1], "%00", "x", "%E2%82%AC" * 64]

    told = {office.refused(404, method, f"{KEYS}/{each}{tail}", {"name": "n"}) for each in odd}

    assert told == {"Resource not found"}
    assert ApiKey.objects.get(hash=theirs).name == "k"


def test_last_uses_are_written_together_and_never_go_back(office: Office) -> None:
    first, second = office.new(), office.new(external={"user": "u-1"})
    numbers = dict(ApiKey.objects.values_list("hash", "pk"))
    then, later = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    one, two = (numbers[made["data"]["hash"]] for made in (first, second))

    assert record_uses({one: later, two: then}) == {one, two}
    assert record_uses({one: then}) == {one}

    assert office.ok("GET", at(first))["data"]["last_used_at"] == "2026-01-02T00:00:00.000Z"
    other = office.ok("GET", at(second))["data"]
    assert (other["last_used_at"], other["external_user"]) == ("2026-01-01T00:00:00.000Z", "u-1")
    assert first["data"]["last_used_at"] is first["data"]["external_user"] is None


def test_each_field_changes_alone(office: Office) -> None:
    made = office.new(limit=5, limit_reset="weekly")
    before = made["data"]

    for name, value in {
        "name": "new name",
        "limit": 0.000000001,
        "limit_reset": "monthly",
        "include_byok_in_limit": True,
        "disabled": True,
    }.items():
        after = office.ok("PATCH", at(made), {name: value})["data"]
        moved = {field for field in after if after[field] != before[field]}
        assert moved - {"updated_at", "limit_remaining"} == {name}
        assert after[name] == value
        before = after
    cleared = office.ok("PATCH", at(made), {"limit": None, "limit_reset": None})["data"]
    assert (cleared["limit"], cleared["limit_remaining"], cleared["limit_reset"]) == (None,) * 3


@pytest.mark.parametrize("body", [{}, {"foo": 1}, {"expires_at": None}, {"creator_user_id": "u"}])
def test_a_change_of_nothing_is_refused(office: Office, body: Any) -> None:
    made = office.new()

    assert office.refused(400, "PATCH", at(made), body) == "No update fields provided"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"name": ""}, "name: Too small: expected string to have >=1 characters"),
        ({"name": None}, "name: Invalid input: expected string, received null"),
        ({"name": "x" * 101}, "name: Too big: expected string to have <=100 characters"),
        ({"limit": -0.1}, "limit: Too small: expected number to be >=0"),
        ({"limit": "1"}, "limit: Invalid input: expected number, received string"),
        ({"limit_reset": "yearly"}, "limit_reset: Invalid option: expected one of "),
        ({"disabled": None}, "disabled: Invalid input: expected boolean, received null"),
        ({"disabled": 1}, "disabled: Invalid input: expected boolean, received number"),
        ({"workspace_id": None}, "workspace_id: "),
        ({"workspace_id": "x"}, "workspace_id: Invalid UUID"),
        ({"workspace_id": str(uuid4())}, "workspace_id: Invalid input: no workspace of this"),
        ([], "Invalid input: expected object"),
    ],
)
def test_an_odd_change_is_refused_and_changes_nothing(office: Office, body: Any, text: str) -> None:
    made = office.new()
    if isinstance(body, dict):
        body = {"include_byok_in_limit": True} | body

    assert office.refused(400, "PATCH", at(made), body).startswith(text)
    assert office.ok("GET", at(made))["data"] == made["data"]


def test_a_change_to_what_it_is_already_leaves_no_trace(office: Office) -> None:
    made = office.new(limit=5)
    same = {name: made["data"][name] for name in ("name", "limit", "disabled", "workspace_id")}

    assert office.ok("PATCH", at(made), same)["data"] == made["data"]


def test_a_key_moves_with_its_string_limits_and_spending(office: Office) -> None:
    other = open_workspace(account=office.account, slug="other")
    made = office.new(limit=5, limit_reset="daily")
    key = ApiKey.objects.get(hash=made["data"]["hash"])
    for window, start in window_starts(datetime.now(UTC)).items():
        SpendCounter.objects.create(
            scope="key",
            scope_id=str(key.pk),
            window=window,
            window_start=start,
            spent_nano=2 * USD,
            limit_nano=5 * USD if window == "day" else None,
        )
    counters = list(SpendCounter.objects.order_by("pk").values())

    moved = office.ok("PATCH", at(made), {"workspace_id": str(other.pk)})["data"]

    assert moved["workspace_id"] == str(other.pk)
    assert (moved["hash"], moved["limit"], moved["limit_remaining"]) == (key.hash, 5, 3)
    assert list(SpendCounter.objects.order_by("pk").values()) == counters
    assert office.hashes() == []
    assert office.hashes(f"?workspace_id={other.pk}") == [key.hash]
    assert office.status_of(made["key"]) == 200
    changes = {"limit": 9, "workspace_id": made["data"]["workspace_id"], "name": "back"}
    assert office.ok("PATCH", at(made), changes)["data"]["limit_remaining"] == 7


def test_a_key_does_not_move_to_a_workspace_of_others(office: Office) -> None:
    made = office.new()
    theirs = open_office("theirs").account.workspaces.get()

    text = office.refused(400, "PATCH", at(made), {"workspace_id": str(theirs.pk), "name": "n"})

    assert text == "workspace_id: Invalid input: no workspace of this account"
    assert office.ok("GET", at(made))["data"] == made["data"]


def test_a_limit_holds_at_once_for_what_is_counted_already(office: Office) -> None:
    made = office.new(limit=10)
    key = ApiKey.objects.get(hash=made["data"]["hash"])
    for window, start in window_starts(datetime.now(UTC)).items():
        SpendCounter.objects.create(
            scope="key",
            scope_id=str(key.pk),
            window=window,
            window_start=start,
            spent_nano=3 * USD,
            limit_nano=10 * USD if window == "total" else None,
        )

    for reset, window in ((None, "total"), ("daily", "day"), ("monthly", "month")):
        data = office.ok("PATCH", at(made), {"limit": 2, "limit_reset": reset})["data"]
        assert (data["limit_remaining"], data["usage"]) == (0, 3)
        limited = SpendCounter.objects.get(limit_nano__isnull=False)
        assert (limited.window, limited.limit_nano) == (window, 2 * USD)


def test_a_deleted_key_keeps_its_history(office: Office) -> None:
    made = office.new()

    assert office.ok("DELETE", at(made)) == {"deleted": True}

    assert ApiKey.objects.get(hash=made["data"]["hash"]).deleted_at is not None
    assert office.status_of(made["key"]) == 401
    office.refused(404, "DELETE", at(made))


def test_a_management_key_whose_creator_left_manages_nothing(office: Office) -> None:
    user = admit_member(account=office.account, username="left", role=Membership.Role.ADMIN)
    _, office.management_key = create_key(
        account=office.account, name="m", workspace=None, creator=user
    )
    made = office.new()
    Membership.objects.filter(user=user).delete()

    for method, path in (("GET", KEYS), ("GET", at(made)), ("DELETE", at(made))):
        told = office.refused(403, method, path)
        assert told.startswith("This API key's creator is no longer a member of the organization.")


def test_a_key_belongs_to_the_member_it_names(office: Office) -> None:
    user = admit_member(account=office.account, username="u", role=Membership.Role.MEMBER)
    stranger = admit_member(
        account=open_office("other").account, username="s", role=Membership.Role.MEMBER
    )

    made = office.new(creator_user_id=user.public_id)
    body = {"name": "k", "creator_user_id": stranger.public_id}

    assert made["data"]["creator_user_id"] == user.public_id
    assert office.refused(400, "POST", KEYS, body).startswith("creator_user_id: ")
    Membership.objects.filter(user=user).delete()
    assert office.status_of(made["key"]) == 403
