"""Keys in the database: making, revoking, rotating, and what their limits count."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from accounts.authentication import forget_keys
from accounts.caller import read_caller
from accounts.free_requests import free_requests_of
from accounts.keystring import hash_of
from accounts.models import Account, ApiKey, Membership, SpendCounter
from accounts.services.accounts import admit_member, open_account
from accounts.services.keys import create_key, rotate_key, set_disabled, set_limit
from accounts.views.key_objects import current_key_object as key_object
from accounts.windows import window_starts
from tests.accounts.test_keystring import mangled

pytestmark = [pytest.mark.django_db, pytest.mark.both]
USD = 1_000_000_000


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    forget_keys()


@pytest.fixture
def account() -> Account:
    return open_account(name="someone")


def made(account: Account, **options: Any) -> tuple[ApiKey, str]:
    return create_key(account=account, name="k", workspace=account.workspaces.get(), **options)


def asked(string: str) -> tuple[int, Any]:
    """GET /key with that key, past the cache."""
    forget_keys()
    response = Client().get("/api/v1/key", headers={"Authorization": f"Bearer {string}"})
    return response.status_code, response.json()


def spent(key: ApiKey, at: datetime, nano: int) -> None:
    for window, start in window_starts(at).items():
        row, _ = SpendCounter.objects.get_or_create(
            scope="key", scope_id=str(key.pk), window=window, window_start=start
        )
        row.spent_nano += nano
        row.save(update_fields=["spent_nano"])


def test_only_the_hash_and_the_masked_form_are_kept(account: Account) -> None:
    key, string = made(account)

    assert key.hash == hash_of(string)
    assert key.label == f"{string[:12]}...{string[-3:]}"
    assert string not in str(ApiKey.objects.filter(pk=key.pk).values().get())


def test_a_key_opens_until_it_is_disabled(account: Account) -> None:
    key, string = made(account)
    assert asked(string)[0] == 200

    assert set_disabled(keys=ApiKey.objects.filter(pk=key.pk), disabled=True) == 1
    assert asked(string)[0] == 401
    assert set_disabled(keys=ApiKey.objects.filter(pk=key.pk), disabled=True) == 0

    set_disabled(keys=ApiKey.objects.filter(pk=key.pk), disabled=False)
    assert asked(string)[0] == 200


def test_a_deleted_key_opens_nothing(account: Account) -> None:
    key, string = made(account)
    ApiKey.objects.filter(pk=key.pk).update(deleted_at=datetime.now(UTC))

    status, body = asked(string)

    assert (status, body["error"]["message"]) == (401, "Invalid API key")


@pytest.mark.parametrize(("hours", "status"), [(-1, 401), (1, 200)])
def test_a_key_opens_until_it_expires(account: Account, hours: int, status: int) -> None:
    expires_at = datetime.now(UTC) + timedelta(hours=hours)
    key, string = made(account, expires_at=expires_at)

    assert asked(string)[0] == status
    assert ApiKey.objects.usable(datetime.now(UTC)).filter(pk=key.pk).exists() is (status == 200)


def test_a_key_that_expires_is_not_remembered_past_its_end(account: Account) -> None:
    key, string = made(account, expires_at=datetime.now(UTC) + timedelta(hours=1))
    assert asked(string)[0] == 200

    # What the cache keeps carries the key's own expiry.
    caller = read_caller(key.hash)
    assert caller is not None
    assert caller.usable(datetime.now(UTC))
    assert not caller.usable(datetime.now(UTC) + timedelta(hours=1))


def test_a_rotated_key_keeps_its_limits_and_its_old_string_stops(account: Account) -> None:
    key, old = made(account, limit_nano=5 * USD, limit_reset="daily")
    spent(key, datetime.now(UTC), USD)

    _, new = rotate_key(keys=ApiKey.objects.filter(pk=key.pk))

    assert asked(old)[0] == 401
    status, body = asked(new)
    assert status == 200
    assert (body["data"]["limit"], body["data"]["limit_remaining"]) == (5, 4)
    assert body["data"]["label"] == f"{new[:12]}...{new[-3:]}"


def test_a_key_whose_creator_left_is_told_so(account: Account) -> None:
    user = admit_member(account=account, username="leaver", role=Membership.Role.MEMBER)
    _, string = made(account, creator=user)
    assert asked(string)[0] == 200

    Membership.objects.filter(user=user).delete()

    status, body = asked(string)
    assert status == 403
    assert body["error"]["message"].startswith("This API key's creator is no longer a member")


def test_what_cannot_be_a_key_costs_no_query(
    account: Account, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    _, string = made(account)
    chance, client = random.Random(2), Client()
    typos = [mangled(string, chance) for _ in range(1000)]

    with django_assert_num_queries(0):
        for typo in typos:
            headers = {"Authorization": f"Bearer {typo}"}
            if typo.endswith(" "):
                continue  # Blanks around a key are not part of it.
            assert client.get("/api/v1/key", headers=headers).status_code == 401


HEADERS: list[tuple[str | None, str]] = [
    (None, "Missing Authentication header"),
    ("", "Missing Authentication header"),
    ("Bearer", "Missing Authentication header"),
    ("Bearer ", "Missing Authentication header"),
    ("Basic KEY", "Missing Authentication header"),
    ("KEY", "Missing Authentication header"),
    ("Bearer nope", "Invalid API key"),
]


@pytest.mark.parametrize(("header", "message"), HEADERS)
def test_what_is_wrong_with_the_header_is_said(
    account: Account, header: str | None, message: str
) -> None:
    _, string = made(account)
    headers = {} if header is None else {"Authorization": header.replace("KEY", string)}

    response = Client().get("/api/v1/key", headers=headers)

    assert (response.status_code, response.json()["error"]["message"]) == (401, message)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_s_case_does_not_matter(account: Account, scheme: str) -> None:
    _, string = made(account)

    response = Client().get("/api/v1/key", headers={"Authorization": f"{scheme}  {string}"})

    assert response.status_code == 200


NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)  # A Wednesday.
RESETS: list[tuple[str | None, int]] = [(None, 15), ("monthly", 7), ("weekly", 3), ("daily", 1)]


def key_that_spent(account: Account, **options: Any) -> ApiKey:
    """1 today, 2 on Monday, 4 on the first of the month, 8 last month: in USD."""
    key, _ = made(account, **options)
    for usd, days in ((1, 0), (2, 2), (4, 3), (8, 10)):
        spent(key, NOW - timedelta(days=days), usd * USD)
    return key


def shown(key: ApiKey) -> dict[str, Any]:
    caller = read_caller(key.hash)
    assert caller is not None
    data: dict[str, Any] = orjson.loads(
        orjson.dumps(key_object(caller, free_requests_of(caller), NOW))
    )
    return data


@pytest.mark.parametrize(("reset", "counted"), RESETS)
def test_what_remains_is_counted_in_the_window_of_the_reset(
    account: Account, reset: str | None, counted: int
) -> None:
    key = key_that_spent(account, limit_nano=20 * USD, limit_reset=reset)

    data = shown(key)

    assert (data["limit"], data["limit_reset"]) == (20, reset)
    assert data["limit_remaining"] == 20 - counted
    usages = [data[name] for name in ("usage", "usage_monthly", "usage_weekly", "usage_daily")]
    assert usages == [15, 7, 3, 1]


def test_what_remains_is_never_below_zero_and_null_without_a_limit(account: Account) -> None:
    spent_up = key_that_spent(account, limit_nano=10 * USD)
    unlimited = key_that_spent(account)

    assert shown(spent_up)["limit_remaining"] == 0
    assert shown(unlimited)["limit_remaining"] is None
    assert shown(unlimited)["limit"] is None


@pytest.mark.parametrize(("reset", "counted"), RESETS)
def test_a_changed_limit_applies_to_what_is_counted_already(
    account: Account, reset: str | None, counted: int
) -> None:
    key = key_that_spent(account, limit_nano=10 * USD)

    set_limit(key=key, limit_nano=20 * USD, limit_reset=reset)

    assert shown(key)["limit_remaining"] == 20 - counted
    assert shown(key)["usage"] == 15


def test_a_changed_reset_moves_the_limit_to_its_window_of_now(account: Account) -> None:
    key, _ = made(account, limit_nano=10 * USD)
    now = datetime.now(UTC)
    for days in (0, 40):
        spent(key, now - timedelta(days=days), USD)
    mine = SpendCounter.objects.filter(scope_id=str(key.pk))
    mine.filter(window="total").update(limit_nano=10 * USD)

    for reset, window in (
        ("daily", "day"),
        ("weekly", "week"),
        ("monthly", "month"),
        (None, "total"),
    ):
        set_limit(key=key, limit_nano=3 * USD, limit_reset=reset)
        limited = mine.filter(limit_nano__isnull=False).get()
        assert (limited.window, limited.limit_nano) == (window, 3 * USD)
        assert limited.window_start == window_starts(now)[window]

    set_limit(key=key, limit_nano=None, limit_reset=None)
    assert not mine.filter(limit_nano__isnull=False).exists()
