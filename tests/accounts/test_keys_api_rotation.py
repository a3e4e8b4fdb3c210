"""POST /keys/{hash}/rotate: a new string, and an old one that works for a while."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounts.caller import read_caller
from accounts.keystring import hash_of
from accounts.models import ApiKey, FormerHash, SpendCounter
from accounts.services.keys import rotate_key, set_disabled
from accounts.windows import ALL_TIME
from tests.accounts.dump import database_text
from tests.accounts.office import KEYS, Office, at, open_office

pytestmark = [pytest.mark.django_db, pytest.mark.both]
NOW = datetime.now(UTC)


@pytest.fixture
def office(db: None) -> Office:
    return open_office()


def rotated(office: Office, made: Any, **body: Any) -> Any:
    return office.ok("POST", at(made, "/rotate"), body)


def works_until(string: str) -> datetime | None:
    caller = read_caller(hash_of(string))
    assert caller is not None
    return caller.expires_at


def test_a_rotated_key_is_the_same_key_with_another_string(office: Office) -> None:
    made = office.new(limit=5, limit_reset="weekly", name="mine")
    number = ApiKey.objects.get(hash=made["data"]["hash"]).pk
    SpendCounter.objects.create(
        scope="key", scope_id=str(number), window="total", window_start=ALL_TIME, spent_nano=7
    )

    new = rotated(office, made)

    assert new["key"] != made["key"]
    assert new["data"]["hash"] == hash_of(new["key"])
    assert new["data"]["label"] == f"{new['key'][:12]}...{new['key'][-3:]}"
    assert new["data"]["updated_at"] is not None
    for name in made["data"].keys() - {"hash", "label", "updated_at", "usage"}:
        assert new["data"][name] == made["data"][name]
    assert new["data"]["usage"] == 0.000000007
    assert ApiKey.objects.get(hash=new["data"]["hash"]).pk == number


def test_both_strings_work_and_only_the_new_hash_is_known(office: Office) -> None:
    made = office.new()

    new = rotated(office, made)

    assert office.status_of(made["key"]) == office.status_of(new["key"]) == 200
    for method, tail in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/rotate")):
        office.refused(404, method, at(made, tail), {"name": "n"})
    assert office.hashes() == [new["data"]["hash"]]
    _, told = office.ask("GET", "/api/v1/key", key=made["key"])
    assert told["data"]["label"] == new["data"]["label"]


@pytest.mark.parametrize(("body", "grace_s"), [({}, 86_400), ({"grace_seconds": 604_800}, 604_800)])
def test_the_old_string_works_for_the_grace_period(
    office: Office, body: dict[str, Any], grace_s: int
) -> None:
    made = office.new()
    before = datetime.now(UTC)

    rotated(office, made, **body)

    until = works_until(made["key"])
    assert until is not None
    grace = timedelta(seconds=grace_s)
    assert before + grace <= until <= datetime.now(UTC) + grace
    FormerHash.objects.update(valid_until=datetime.now(UTC))
    assert office.status_of(made["key"]) == 401


def test_no_grace_ends_the_old_string_at_once(office: Office) -> None:
    made = office.new()

    new = rotated(office, made, grace_seconds=0)

    assert (office.status_of(made["key"]), office.status_of(new["key"])) == (401, 200)


def test_a_body_is_not_needed(office: Office) -> None:
    made = office.new()

    assert office.ok("POST", at(made, "/rotate"))["key"] != made["key"]


@pytest.mark.parametrize(
    ("grace", "text"),
    [
        (-1, "Too small: expected number to be >=0"),
        (604_801, "Too big: expected number to be <=604800"),
        (1.5, "Invalid input: expected int, received number"),
        ("60", "Invalid input: expected number, received string"),
        (None, "Invalid input: expected number, received null"),
        (True, "Invalid input: expected number, received boolean"),
    ],
)
def test_an_odd_grace_is_refused_and_nothing_is_rotated(
    office: Office, grace: Any, text: str
) -> None:
    made = office.new()
    path = at(made, "/rotate")

    assert office.refused(400, "POST", path, {"grace_seconds": grace}) == f"grace_seconds: {text}"
    assert office.hashes() == [made["data"]["hash"]]


def test_after_two_rotations_all_three_strings_work(office: Office) -> None:
    """Whoever never saw the first answer rotates again; what runs in production goes on."""
    one = office.new()
    two = rotated(office, one)
    three = rotated(office, two)

    assert {office.status_of(made["key"]) for made in (one, two, three)} == {200}


def test_no_string_outlives_the_grace_of_the_last_rotation(office: Office) -> None:
    one = office.new()
    two = rotated(office, one, grace_seconds=604_800)
    three = rotated(office, two, grace_seconds=0)

    assert [office.status_of(made["key"]) for made in (one, two, three)] == [401, 401, 200]
    # A later, longer grace does not bring an earlier string back.
    four = rotated(office, three)
    assert [office.status_of(made["key"]) for made in (one, two, three, four)] == [
        *(401, 401, 200, 200)
    ]


def test_the_earlier_end_counts(office: Office) -> None:
    one = office.new()
    keys = ApiKey.objects.filter(name="k")
    rotate_key(keys=keys, grace_s=100, at=NOW)
    _, three = rotate_key(keys=keys, grace_s=500, at=NOW)
    assert works_until(one["key"]) == NOW + timedelta(seconds=100)

    keys.update(expires_at=NOW + timedelta(seconds=50))
    assert works_until(one["key"]) == works_until(three) == NOW + timedelta(seconds=50)


def test_what_stops_the_key_stops_its_old_string(office: Office) -> None:
    made = office.new()
    new = rotated(office, made)
    keys = ApiKey.objects.filter(name="k")

    set_disabled(keys=keys, disabled=True)
    assert office.status_of(made["key"]) == office.status_of(new["key"]) == 401
    set_disabled(keys=keys, disabled=False)
    assert office.status_of(made["key"]) == 200
    office.ok("DELETE", at(new))
    assert office.status_of(made["key"]) == office.status_of(new["key"]) == 401
    office.refused(404, "POST", at(new, "/rotate"))


def test_no_string_is_kept_anywhere(office: Office) -> None:
    made = office.new()
    new = rotated(office, made)
    office.ok("PATCH", at(new), {"name": "other", "limit": 3})
    office.ok("GET", KEYS)

    kept = database_text()

    assert made["data"]["hash"] in kept
    for string in (made["key"], new["key"], office.management_key):
        # The first three and the last three digits are its label.
        assert string[15:-6] not in kept
