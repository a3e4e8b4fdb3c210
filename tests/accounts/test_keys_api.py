"""GET, PATCH and DELETE of /keys: what is listed, what may change, and what is not there."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from accounts.authentication import forget_keys, record_uses
from accounts.caller import read_caller
from accounts.keystring import hash_key
from accounts.models import ApiKey, AuditRecord, Membership, SpendCounter, User
from accounts.services.keys import create_key, delete_keys
from accounts.services.organization import admit_member, open_workspace
from gateway.limits.rules import FIELDS, RateRule
from tests.accounts.office import KEYS, Office, key_path, open_office, spend

pytestmark = [pytest.mark.django_db, pytest.mark.both]
USD = 1_000_000_000


def many(office: Office, count: int) -> list[str]:
    """Hashes of so many keys, the newest first; each has counters and a creator."""
    workspace = office.account.workspaces.get(is_default=True)
    creator = admit_member(account=office.account, username="c", role=Membership.Role.MEMBER)
    options: dict[str, Any] = {"account": office.account, "workspace": workspace}
    made = [create_key(**options, name=str(n), creator=creator)[0] for n in range(count)]
    for key in made:
        spend(key, key.pk)
    return [key.hash for key in reversed(made)]


def test_nobody_keeps_what_a_key_is_answered(office: Office) -> None:
    headers = {"Authorization": f"Bearer {office.key}"}

    assert Client().get("/api/v1/keys", headers=headers)["Cache-Control"] == "no-store"
    assert "Cache-Control" not in Client().get("/api/v1/openapi.json")


def test_a_hundred_keys_are_a_page_of_few_queries(office: Office) -> None:
    hashes = many(office, 103)

    first = office.ok("GET", KEYS)["data"]
    assert office.queries <= 3
    assert [key["hash"] for key in first] == hashes[:100]
    numbers = dict(ApiKey.objects.values_list("hash", "pk"))
    assert all(round(key["usage_weekly"] * USD) == numbers[key["hash"]] for key in first)
    assert {key["creator_user_id"] for key in first} == {first[0]["creator_user_id"]}
    assert office.hashes("?offset=100") == hashes[100:]
    assert office.hashes("?offset=102&limit=1") == hashes[102:]
    assert office.hashes("?offset=103") == []


def test_disabled_and_expired_keys_are_listed_on_request(office: Office) -> None:
    usable, disabled, expired, both = (office.new()["data"]["hash"] for _ in range(4))
    ApiKey.objects.filter(hash__in=[disabled, both]).update(disabled=True)
    past = datetime.now(UTC) - timedelta(seconds=1)
    ApiKey.objects.filter(hash__in=[expired, both]).update(expires_at=past)

    for query, listed in {
        "": [usable],
        "?offset=": [usable],
        "?offset=null": [usable],
        "?include_disabled=false&include_expired=": [usable],
        "?include_disabled=true": [disabled, usable],
        "?include_expired=TRUE": [expired, usable],
        "?include_disabled=true&include_expired=true": [both, expired, disabled, usable],
    }.items():
        assert office.hashes(query) == listed, query


def test_a_list_is_of_one_workspace(office: Office) -> None:
    other = open_workspace(account=office.account, slug="other")
    here, there = office.new()["data"], office.new(workspace_id=str(other.pk))["data"]
    stranger = open_office("stranger").account.workspaces.get()

    assert office.hashes() == [here["hash"]]
    assert office.hashes(f"?workspace_id={here['workspace_id']}") == [here["hash"]]
    assert office.hashes(f"?workspace_id={other.pk}") == [there["hash"]]
    assert "workspace_id" in office.expect_refusal(400, "GET", f"{KEYS}?workspace_id={stranger.pk}")
    path, words = key_path(here), "workspace_id: Invalid input: no workspace of this account"
    assert office.expect_refusal(400, "PATCH", path, {"workspace_id": str(stranger.pk)}) == words


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE", "POST"])
def test_management_keys_and_those_of_others_are_absent(office: Office, method: str) -> None:
    manager, theirs = ApiKey.objects.get(), open_office("theirs").new()["data"]["hash"]
    deleted = office.new()["data"]["hash"]
    delete_keys(keys=ApiKey.objects.filter(hash=deleted))
    tail = "/rotate" if method == "POST" else ""
    odd = [manager.hash, theirs, deleted, "0" * 64, theirs.upper(), theirs[:-1], "%00", "x", "%E2"]
    change = {"name": "n", "disabled": True}

    told = {office.expect_refusal(404, method, f"{KEYS}/{each}{tail}", change) for each in odd}

    assert told == {"Resource not found"}
    unchanged = ApiKey.objects.filter(hash__in=[manager.hash, theirs], disabled=False)
    assert sorted(unchanged.values_list("name", flat=True)) == ["k", "m"]
    assert office.hashes("?include_disabled=true&include_expired=true") == []


def test_last_uses_are_written_together_and_never_go_back(office: Office) -> None:
    first, second = office.new(), office.new(external={"user": "u-1"})
    numbers = dict(ApiKey.objects.values_list("hash", "pk"))
    then, later = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    one, two = (numbers[made["data"]["hash"]] for made in (first, second))

    assert record_uses({one: later, two: then}) == {one, two}
    assert record_uses({one: then}) == {one}

    assert office.ok("GET", key_path(first))["data"]["last_used_at"] == "2026-01-02T00:00:00.000Z"
    other = office.ok("GET", key_path(second))["data"]
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
        after = office.ok("PATCH", key_path(made), {name: value})["data"]
        moved = {field for field in after if after[field] != before[field]}
        assert moved - {"updated_at", "limit_remaining"} == {name}
        assert after[name] == value
        before = after
    cleared = office.ok("PATCH", key_path(made), {"limit": None, "limit_reset": None})["data"]
    assert (cleared["limit"], cleared["limit_remaining"], cleared["limit_reset"]) == (None,) * 3


ODD_CHANGES: list[tuple[Any, str]] = [
    ({"limit": -0.1}, "limit: Too small: expected number to be >=0"),
    ({"disabled": None}, "disabled: Invalid input: expected boolean, received null"),
    ({"workspace_id": None}, "workspace_id: "),
    ({"workspace_id": str(uuid4())}, "workspace_id: Invalid input: no workspace of this"),
    ([], "Invalid input: expected object"),
]


def test_a_key_says_what_holds_for_requests_that_say_nothing(office: Office) -> None:
    made = office.new(rescue=True)
    assert (made["data"]["hedge"], made["data"]["rescue"]) == (None, True)
    changed = office.ok("PATCH", key_path(made), {"hedge": False, "rescue": None})["data"]
    assert (changed["hedge"], changed["rescue"]) == (False, None)
    record = AuditRecord.objects.filter(object_type="key").latest("pk")
    assert (record.before, record.after) == (
        {"hedge": None, "rescue": True},
        {"hedge": False, "rescue": None},
    )


def test_an_odd_change_is_refused_and_changes_nothing(office: Office) -> None:
    made = office.new()
    path = key_path(made)

    for body, text in ODD_CHANGES:
        if isinstance(body, dict):
            body = {"include_byok_in_limit": True} | body
        assert office.expect_refusal(400, "PATCH", path, body).startswith(text), body
    for nothing in ({}, {"foo": 1}, {"expires_at": None}, {"creator_user_id": "u"}):
        assert office.expect_refusal(400, "PATCH", path, nothing) == "No update fields provided"
    assert office.ok("GET", path)["data"] == made["data"]
    # What it is already leaves no trace.
    same = {name: made["data"][name] for name in ("name", "limit", "disabled", "workspace_id")}
    assert office.ok("PATCH", path, same)["data"] == made["data"]


def test_a_key_moves_with_its_string_limits_and_spending(office: Office) -> None:
    other = open_workspace(account=office.account, slug="other")
    made = office.new(limit=5, limit_reset="daily")
    key = ApiKey.objects.get(hash=made["data"]["hash"])
    spend(key, 2 * USD, day=5 * USD)
    counters = list(SpendCounter.objects.order_by("pk").values())

    moved = office.ok("PATCH", key_path(made), {"workspace_id": str(other.pk)})["data"]

    assert moved["workspace_id"] == str(other.pk)
    assert (moved["hash"], moved["limit"], moved["limit_remaining"]) == (key.hash, 5, 3)
    assert list(SpendCounter.objects.order_by("pk").values()) == counters
    assert office.hashes() == []
    assert office.hashes(f"?workspace_id={other.pk}") == [key.hash]
    assert office.status_of(made["key"]) == 200
    changes = {"limit": 9, "workspace_id": made["data"]["workspace_id"], "name": "back"}
    assert office.ok("PATCH", key_path(made), changes)["data"]["limit_remaining"] == 7


def test_a_key_belongs_to_the_member_it_names(office: Office) -> None:
    user = admit_member(account=office.account, username="u", role=Membership.Role.ADMIN)
    other = open_office("other").account
    stranger = admit_member(account=other, username="s", role=Membership.Role.MEMBER)
    whose: dict[str, Any] = {"account": office.account, "creator": user}
    _, office.key = create_key(**whose, name="m", workspace=None)

    made = office.new(creator_user_id=user.public_id)
    body = {"name": "k", "creator_user_id": stranger.public_id}

    assert made["data"]["creator_user_id"] == user.public_id
    assert office.expect_refusal(400, "POST", KEYS, body).startswith("creator_user_id: ")
    Membership.objects.filter(user=user).delete()
    assert office.status_of(made["key"]) == 403
    for method, path in (("GET", KEYS), ("GET", key_path(made)), ("DELETE", key_path(made))):
        told = office.expect_refusal(403, method, path)
        assert told.startswith("This API key's creator is no longer a member of the organization.")


def test_keys_of_whom_an_operator_switched_off_open_nothing(office: Office) -> None:
    user = admit_member(account=office.account, username="u", role=Membership.Role.MEMBER)
    key = office.new(creator_user_id=user.public_id)["key"]
    assert office.status_of(key) == 200

    for is_active, expected in ((False, 401), (True, 200)):
        User.objects.filter(pk=user.pk).update(is_active=is_active)
        forget_keys()
        assert office.status_of(key) == expected


# --- Rate limits of keys and workspaces -----------------------------------------------------------


NOTHING = dict.fromkeys((*FIELDS, "weights"))


def test_limits_are_set_changed_and_taken_away(office: Office) -> None:
    limits = [
        {"requests_per_minute": 5, "burst": 2, "weights": {"acme/*": 5, "*": 2}},
        {"scope": {"user": "*"}, "concurrent": 2},
    ]
    made = office.new(rate_limits=limits)
    assert made["data"]["rate_limits"] == [
        {**NOTHING, **limits[0], "scope": None},
        {
            **NOTHING,
            "concurrent": 2,
            "scope": {"model": None, "provider": None, "user": "*", "tag": None},
        },
    ]
    key = ApiKey.objects.get(hash=made["data"]["hash"])
    assert key.rate_limits == limits
    caller = read_caller(hash_key(made["key"]))
    assert caller is not None
    owner = f"key:{key.pk}"
    assert caller.rate_rules == (
        RateRule(owner, None, None, None, None, 5, None, None, None, 2, (("acme/*", 5), ("*", 2))),
        RateRule(owner, None, None, "*", None, None, None, None, 2),
    )
    # Without limits of its own it has its workspace's.
    office.ok("PATCH", key_path(made), {"rate_limits": []})
    office.ok("PATCH", "/workspaces/default", {"rate_limits": [{"tokens_per_minute": 9}]})
    forget_keys()
    caller = read_caller(hash_key(made["key"]))
    assert caller is not None
    (rule,) = caller.rate_rules
    assert (rule.owner, rule.tokens_per_minute) == (f"workspace:{key.workspace_id}", 9)
    again = read_caller(hash_key(made["key"]))
    assert again is not None
    assert again.rate_rules is caller.rate_rules
    record = AuditRecord.objects.filter(object_type="key").latest("pk")
    assert record.before
    assert record.after
    assert (record.before["rate_limits"], record.after["rate_limits"]) == (limits, None)


ODD_LIMITS: list[tuple[Any, str]] = [
    ({}, "expected one of requests_per_minute"),
    ({"scope": {"user": "a"}}, "expected one of requests_per_minute"),
    ({"requests_per_minute": 5, "burst": 6}, "at most requests_per_minute"),
    ({"requests_per_day": 5, "burst": 1}, "at most requests_per_minute"),
    ({"requests_per_minute": 601, "burst": 10}, "at least a sixtieth"),
    ({"requests_per_hour": 5, "concurrent": 1}, "requests_per_hour"),
    ({"scope": {"tag": "team"}, "concurrent": 1}, "tag"),
    ({"scope": {"model": "acme/none"}, "concurrent": 1}, "not a valid model"),
    ({"scope": {"provider": "none"}, "concurrent": 1}, "not a known provider"),
    ({"concurrent": 1, "weights": {"acme/none": 2}}, "weights.acme/none: acme/none is not a valid"),
    ({"concurrent": 1, "weights": {"acme/*": 0}}, "weights.acme/*"),
    ({"concurrent": 1, "weights": {"acme/*": 1.5}}, "weights.acme/*"),
    ({"concurrent": 1, "weights": {"acme/[a-z]": 2}}, "weights.acme/[a-z]"),
    ({"weights": {"acme/*": 2}}, "expected one of requests_per_minute"),
]


def test_what_limits_nothing_known_is_refused(office: Office) -> None:
    # The catalogue's first reading takes queries of its own.
    Client().get("/api/v1/models")
    for limit, words in ODD_LIMITS:
        body = {"rate_limits": [limit]}
        assert words in office.expect_refusal(400, "POST", KEYS, {"name": "k"} | body)
        assert words in office.expect_refusal(400, "PATCH", "/workspaces/default", body)
