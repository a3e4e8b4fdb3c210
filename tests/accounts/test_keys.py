"""Keys in the database and their rotation: making, revoking, rotating, and what limits count."""

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from django.test import Client

from accounts.authentication import forget_keys
from accounts.caller import read_caller
from accounts.keystring import hash_key
from accounts.models import Account, ApiKey, FormerHash, SpendCounter
from accounts.rates import read_free_requests
from accounts.services.keys import change_key, create_key, rotate_key, set_disabled
from accounts.services.organization import open_account
from accounts.spending import LIMITED_WINDOW, find_window_starts
from accounts.views.schemas.key import load_current_key as key_object
from tests.accounts.dump import database_text
from tests.accounts.office import KEYS, Office, key_path, spend

pytestmark = [pytest.mark.django_db, pytest.mark.both]
USD = 1_000_000_000


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    forget_keys()


@pytest.fixture
def account() -> Account:
    return open_account(name="someone")


def make_key(account: Account, **options: Any) -> tuple[ApiKey, str]:
    return create_key(account=account, name="k", workspace=account.workspaces.get(), **options)


def ask_about_key(string: str) -> tuple[int, Any]:
    """GET /key with that key, past the cache."""
    forget_keys()
    response = Client().get("/api/v1/key", headers={"Authorization": f"Bearer {string}"})
    return response.status_code, response.json()


def test_a_key_opens_until_it_expires_and_is_not_remembered_past_it(account: Account) -> None:
    now, hour = datetime.now(UTC), timedelta(hours=1)
    _, late = make_key(account, expires_at=now - hour)
    usable, string = make_key(account, expires_at=now + hour)

    assert (ask_about_key(late)[0], ask_about_key(string)[0]) == (401, 200)
    assert list(ApiKey.objects.usable(datetime.now(UTC))) == [usable]
    # What the cache keeps carries the key's own expiry.
    caller = read_caller(usable.hash)
    assert caller is not None
    assert (caller.is_usable(now), caller.is_usable(now + hour)) == (True, False)


HEADERS: list[tuple[str | None, str]] = [
    (None, "Missing Authentication header"),
    ("", "Missing Authentication header"),
    ("Bearer", "Missing Authentication header"),
    ("Bearer ", "Missing Authentication header"),
    ("Basic KEY", "Missing Authentication header"),
    ("KEY", "Missing Authentication header"),
    ("Bearer nope", "Invalid API key"),
    ("bearer KEY", ""),
    ("BEARER  KEY", ""),
]


def test_a_wrong_header_is_told(account: Account) -> None:
    _, string = make_key(account)
    for header, message in HEADERS:
        headers = {} if header is None else {"Authorization": header.replace("KEY", string)}
        response = Client().get("/api/v1/key", headers=headers)
        assert response.status_code == (401 if message else 200), header
        assert not message or response.json()["error"]["message"] == message


NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)  # A Wednesday.
RESETS: list[tuple[str | None, int]] = [(None, 15), ("monthly", 7), ("weekly", 3), ("daily", 1)]


def read_shown_key(key: ApiKey) -> dict[str, Any]:
    caller = read_caller(key.hash)
    assert caller is not None
    told = key_object(caller, read_free_requests(caller), NOW)
    data: dict[str, Any] = orjson.loads(orjson.dumps(told))
    return data


def set_limit(key: ApiKey, *, limit_nano: int | None, limit_reset: str | None) -> None:
    changes = {"limit_nano": limit_nano, "limit_reset": limit_reset}
    change_key(keys=ApiKey.objects.filter(pk=key.pk), changes=changes)


def test_what_remains_is_counted_in_the_window_of_the_reset(account: Account) -> None:
    key, _ = make_key(account)
    # In USD: 1 today, 2 on Monday, 4 on the first of the month, 8 last month.
    for usd, days in ((1, 0), (2, 2), (4, 3), (8, 10)):
        spend(key, usd * USD, NOW - timedelta(days=days))

    for reset, counted in RESETS:
        set_limit(key, limit_nano=20 * USD, limit_reset=reset)
        data = read_shown_key(key)
        assert (data["limit"], data["limit_reset"]) == (20, reset)
        assert data["limit_remaining"] == 20 - counted
        usages = [data[name] for name in ("usage", "usage_monthly", "usage_weekly", "usage_daily")]
        assert usages == [15, 7, 3, 1]
    for limit_nano, told in ((10 * USD, (10, 0)), (None, (None, None))):
        set_limit(key, limit_nano=limit_nano, limit_reset=None)
        assert (read_shown_key(key)["limit"], read_shown_key(key)["limit_remaining"]) == told


def test_a_changed_reset_moves_the_limit_to_its_window_of_now(account: Account) -> None:
    key, _ = make_key(account, limit_nano=10 * USD)
    now = datetime.now(UTC)
    for days in (0, 40):
        spend(key, USD, now - timedelta(days=days))
    mine = SpendCounter.objects.filter(scope_id=str(key.pk))
    mine.filter(window="total").update(limit_nano=10 * USD)

    for reset, window in reversed(LIMITED_WINDOW.items()):
        set_limit(key, limit_nano=3 * USD, limit_reset=reset)
        limited = mine.filter(limit_nano__isnull=False).get()
        assert (limited.window, limited.limit_nano) == (window, 3 * USD)
        assert limited.window_start == find_window_starts(now)[window]

    set_limit(key, limit_nano=None, limit_reset=None)
    assert not mine.filter(limit_nano__isnull=False).exists()


ROTATED_AT = datetime.now(UTC)


def rotate_office_key(office: Office, made: Any, **body: Any) -> Any:
    return office.ok("POST", key_path(made, "/rotate"), body)


def works_until(string: str) -> datetime | None:
    caller = read_caller(hash_key(string))
    assert caller is not None
    return caller.expires_at


def test_a_rotated_key_is_the_same_key_with_another_string(office: Office) -> None:
    made = office.new(limit=5, limit_reset="weekly", name="mine")
    key = ApiKey.objects.get(hash=made["data"]["hash"])
    spend(key, 2 * USD)

    new = rotate_office_key(office, made)

    moved: dict[str, Any] = {
        "hash": hash_key(new["key"]),
        "label": f"{new['key'][:12]}...{new['key'][-3:]}",
    }
    moved |= {"updated_at": new["data"]["updated_at"], "limit_remaining": 3}
    usages = ("usage", "usage_daily", "usage_weekly", "usage_monthly")
    assert new["data"] == made["data"] | moved | dict.fromkeys(usages, 2)
    assert new["data"]["updated_at"] is not None
    assert ApiKey.objects.get(hash=new["data"]["hash"]) == key
    # Both strings work, and only the new hash is known.
    assert office.status_of(made["key"]) == office.status_of(new["key"]) == 200
    for method, tail in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/rotate")):
        office.expect_refusal(404, method, key_path(made, tail), {"name": "n"})
    assert office.hashes() == [new["data"]["hash"]]
    _, told = office.call("GET", "/key", key=made["key"])
    assert told["data"]["label"] == new["data"]["label"]


@pytest.mark.parametrize(
    ("body", "grace_s"), [(None, 86_400), ({"grace_seconds": 604_800}, 604_800)]
)
def test_the_old_string_works_for_the_grace_period(office: Office, body: Any, grace_s: int) -> None:
    made, before = office.new(), datetime.now(UTC)

    office.ok("POST", key_path(made, "/rotate"), body)

    until, grace = works_until(made["key"]), timedelta(seconds=grace_s)
    assert until is not None
    assert before + grace <= until <= datetime.now(UTC) + grace
    FormerHash.objects.update(valid_until=datetime.now(UTC))
    assert office.status_of(made["key"]) == 401


def test_no_string_outlives_the_grace_of_the_last_rotation(office: Office) -> None:
    def statuses(*made: Any) -> list[int]:
        return [office.status_of(each["key"]) for each in made]

    one = office.new()
    two = rotate_office_key(office, one, grace_seconds=604_800)
    # Whoever never saw the first answer rotates again; what runs in production goes on.
    three = rotate_office_key(office, two)
    assert statuses(one, two, three) == [200, 200, 200]

    four = rotate_office_key(office, three, grace_seconds=0)
    assert statuses(one, two, three, four) == [401, 401, 401, 200]
    # A later, longer grace does not bring an earlier string back.
    five = rotate_office_key(office, four)
    assert statuses(one, two, three, four, five) == [401, 401, 401, 200, 200]


def test_the_earlier_end_counts(office: Office) -> None:
    one = office.new()
    keys = ApiKey.objects.filter(name="k")
    rotate_key(keys=keys, grace_s=100, at=ROTATED_AT)
    _, three = rotate_key(keys=keys, grace_s=500, at=ROTATED_AT)
    assert works_until(one["key"]) == ROTATED_AT + timedelta(seconds=100)

    keys.update(expires_at=ROTATED_AT + timedelta(seconds=50))
    assert works_until(one["key"]) == works_until(three) == ROTATED_AT + timedelta(seconds=50)


def test_what_stops_the_key_stops_its_old_string(office: Office) -> None:
    made = office.new()
    new = rotate_office_key(office, made)
    keys = ApiKey.objects.filter(name="k")

    assert [set_disabled(keys=keys, disabled=True) for _ in range(2)] == [1, 0]
    assert office.status_of(made["key"]) == office.status_of(new["key"]) == 401
    set_disabled(keys=keys, disabled=False)
    assert office.status_of(made["key"]) == office.status_of(new["key"]) == 200
    assert office.ok("DELETE", key_path(new)) == {"deleted": True}
    assert office.status_of(made["key"]) == office.status_of(new["key"]) == 401
    office.expect_refusal(404, "POST", key_path(new, "/rotate"))
    office.expect_refusal(404, "DELETE", key_path(new))
    assert keys.get().deleted_at is not None, "its history stays"


def test_no_string_is_kept_anywhere(office: Office) -> None:
    made = office.new()
    new = rotate_office_key(office, made)
    office.ok("PATCH", key_path(new), {"name": "other", "limit": 3})
    office.ok("GET", KEYS)

    kept = database_text()

    assert made["data"]["hash"] in kept
    for string in (made["key"], new["key"], office.key):
        # The first three and the last three digits are its label.
        assert string[15:-6] not in kept
