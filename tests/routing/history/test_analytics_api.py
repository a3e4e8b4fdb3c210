"""/analytics and /activity in process, on both kinds of store."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounts.models import Membership, Workspace
from accounts.services.keys import create_key
from accounts.services.organization import admit_member, open_account
from gateway.end_users import hash_user
from routing.history import analytics
from routing.history.metrics import DIMENSIONS, METRICS
from routing.history.rollup import roll_up
from routing.reports.models import FailedRequestCount
from tests.routing.history.records import Fact, Office, office, save
from tests.support.management import Manager
from tests.support.operations import failed_request

pytestmark = [pytest.mark.django_db, pytest.mark.both]
QUERY = "/analytics/query"
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)


@pytest.fixture
def mine() -> Office:
    return office()


@pytest.fixture
def boss(mine: Office) -> Manager:
    return Manager(mine.account, mine.users[0], mine.management)


@pytest.fixture(params=[False, True], ids=["raw", "rolled"])
def facts(request: pytest.FixtureRequest, mine: Office) -> list[Fact]:
    """Two days of generations; the second of two tries sums them up first."""
    made = [
        Fact(
            f"gen-{n}",
            NOON - timedelta(days=1 + n % 2, minutes=n),
            key=n % 3,
            model=("acme/one", "acme/one:free")[n % 2],
            app=("https://a.example", None)[n % 2],
            user=("alice", None)[n % 2],
            charge=1_000_000 * n,
            latency=10 * n,
            tags=(("team", "blue"), ("step", str(n % 4)))[: 2 - n % 2] if n % 3 else (),
        )
        for n in range(12)
    ]
    save(mine, made)
    if request.param:
        roll_up(datetime.now(UTC))
    return made


def rows(boss: Manager, **asked: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = boss.ok("POST", QUERY, asked)["data"]["data"]
    return found


def count_generations(boss: Manager, **asked: Any) -> int:
    """How many generations match."""
    [row] = rows(boss, metrics=["request_count"], **asked)
    count: int = row["request_count"]
    return count


def test_the_meta_names_all_there_is(boss: Manager) -> None:
    data = boss.ok("GET", "/analytics/meta")["data"]
    names = {name: [each["name"] for each in data[name]] for name in data}
    assert (names["metrics"], names["dimensions"]) == (list(METRICS), list(DIMENSIONS))
    assert names["granularities"] == ["minute", "hour", "day", "week", "month"]
    formats = {each["display_format"] for each in data["metrics"]}
    assert formats == {"number", "currency", "percent", "latency", "throughput"}
    assert {each["name"]: each["value_type"] for each in data["operators"]} == {
        **dict.fromkeys(("eq", "neq", "gt", "gte", "lt", "lte"), "scalar"),
        **dict.fromkeys(("in", "not_in"), "array"),
    }


def test_without_a_generation_counts_are_zero_and_times_are_unknown(boss: Manager) -> None:
    (row,) = rows(boss, metrics=["request_count", "total_usage", "p50_latency", "cache_hit_rate"])
    assert list(row.values()) == [0, 0, None, None]
    assert rows(boss, metrics=["request_count"], dimensions=["model"]) == []


def test_refused_requests_count_beside_generations(
    boss: Manager, mine: Office, facts: list[Fact]
) -> None:
    """Those that an upstream was asked for are generations, and count once."""
    at = datetime.now(UTC) - timedelta(seconds=1)
    save(mine, [Fact("gen-failed", at, key=0, status=502)])
    key = mine.keys[0]
    owner = {"account_id": mine.account.pk, "workspace_id": key.workspace_id, "api_key_id": key.pk}
    failure = {"status": 402, "error_type": "payment_required", "reason": "key_limit", **owner}
    failed_request(at, **failure)
    failed_request(at, **failure, generation_id="gen-failed")
    counts = {"minute": at, "key_prefix": "", "address": "", "requests": 6, **failure}
    FailedRequestCount.objects.create(key="1", is_refused=True, **counts)
    FailedRequestCount.objects.create(key="2", is_refused=False, **counts)

    (whole,) = rows(boss, metrics=["request_count", "refused_count", "error_rate"])
    reasons = rows(boss, metrics=["refused_count"], dimensions=["refusal_reason", "status"])
    failed = rows(boss, metrics=["request_count", "error_rate"], dimensions=["error_type"])

    assert whole == {"request_count": 13, "refused_count": 7, "error_rate": (1 + 7) / (13 + 7)}
    assert {"refusal_reason": "key_limit", "status": 402, "refused_count": 7} in reasons
    assert {"error_type": "provider_unavailable", "request_count": 1, "error_rate": 1} in failed
    assert (
        count_generations(boss, filters=[{"field": "status", "operator": "gte", "value": 500}]) == 1
    )


def test_days_come_newest_first(boss: Manager, facts: list[Fact]) -> None:
    found = rows(boss, metrics=["request_count"], granularity="day")
    days = [(NOON - timedelta(days=n)).strftime("%Y-%m-%dT00:00:00.000Z") for n in (1, 2)]
    assert found == [{"date__day": day, "request_count": 6} for day in days]


def test_keys_and_workspaces_bear_names(boss: Manager, mine: Office, facts: list[Fact]) -> None:
    found = rows(boss, metrics=["request_count"], dimensions=["api_key_id", "workspace"])
    places = zip(mine.keys, ("Default Workspace", "Second", "Second"), strict=True)
    names = ("api_key_id", "api_key_hash", "workspace", "workspace_id", "request_count")
    told = {tuple(row[name] for name in names) for row in found}
    assert told == {(k.name, k.hash, place, str(k.workspace_id), 4) for k, place in places}


def test_users_and_apps_bear_names(boss: Manager, mine: Office, facts: list[Fact]) -> None:
    mine.users[0].email = "one@office.example"
    mine.users[0].save(update_fields=["email"])
    found = rows(boss, metrics=["request_count"], dimensions=["user", "app"])
    told = {(row["user"], row["user_email"], row["app"], row["app_id"]) for row in found}
    boss_user, member = (user.public_id for user in mine.users)
    users = [(boss_user, "one@office.example"), (member, None), (None, None)]
    apps = [("HTTPS://A.EXAMPLE", "https://a.example"), (None, None)]
    assert told == {(*user, *app) for user in users for app in apps}


FILTERS: list[tuple[str, str, Any, dict[str, bool], int]] = [
    ("model", "eq", "acme/one-2026", {}, 12),
    ("model", "neq", "acme/one-2026", {}, 0),
    ("variant", "in", ["free", "nitro"], {}, 6),
    ("app", "not_in", ["https://b.example"], {}, 6),
    ("app", "not_in", ["https://b.example"], {"include_unset": True}, 12),
    ("app", "gte", "https://a", {}, 6),
    ("external_user", "eq", "alice", {}, 6),
    ("external_user", "neq", "alice", {"include_unset": True}, 6),
    ("generation_id", "in", ["gen-1", "gen-2", "gen-x"], {}, 2),
    ("status", "eq", 599, {}, 0),
    ("status", "gte", "100", {}, 12),
    ("country", "eq", "DE", {}, 0),
    ("country", "eq", "DE", {"include_unset": True}, 12),
    ("finish_reason", "eq", "stop", {}, 12),
    ("context_length_bucket", "eq", "0-1K", {}, 12),
    ("tag", "eq", "team=blue", {}, 8),
    ("tag", "in", ["team=blue", "step=2"], {}, 8),
    ("tag", "eq", "step=2", {}, 2),
    ("tag", "neq", "step=2", {}, 6),
    ("tag", "not_in", ["step=2"], {"include_unset": True}, 10),
    ("user", "eq", "user_of_nobody", {}, 0),
    ("user", "neq", "user_of_nobody", {}, 8),
]


def test_filters(boss: Manager, facts: list[Fact]) -> None:
    for field, operator, value, more, count in FILTERS:
        wanted = {"field": field, "operator": operator, "value": value, **more}
        assert count_generations(boss, filters=[wanted]) == count, wanted


def test_each_tag_is_a_row_and_so_is_what_has_none(boss: Manager, facts: list[Fact]) -> None:
    asked: dict[str, Any] = {"metrics": ["request_count", "credits_usage"], "dimensions": ["tag"]}
    expected: dict[str | None, tuple[int, float]] = {}
    for fact in facts:
        tags: list[str | None] = ["=".join(pair) for pair in fact.tags]
        for tag in tags or [None]:
            count, usd = expected.get(tag, (0, 0.0))
            expected[tag] = count + 1, round(usd + fact.charge / 10**9, 9)

    found = rows(boss, **asked)

    told = {each["tag"]: (each["request_count"], each["credits_usage"]) for each in found}
    assert told == expected
    days = boss.ok("GET", "/activity?tag=team%3Dblue")["data"]
    assert sum(each["requests"] for each in days) == 8


def test_filters_by_ids(boss: Manager, mine: Office, facts: list[Fact]) -> None:
    hashed = hash_user(mine.account.pk, "alice")
    for field, value, count in [
        ("api_key_id", mine.keys[0].hash, 4),
        ("api_key_id", mine.keys[0].pk, 4),
        ("api_key_id", str(mine.keys[0].pk), 4),
        ("api_key_id", "0" * 64, 0),
        ("user", mine.users[1].public_id, 4),
        ("workspace", str(mine.workspaces[1].pk), 8),
        ("external_user", hashed, 6),
    ]:
        one = {"field": field, "operator": "eq", "value": value}
        others = {"field": field, "operator": "not_in", "value": [value], "include_unset": True}
        assert count_generations(boss, filters=[one]) == count, one
        assert count_generations(boss, filters=[others]) == 12 - count, others


ID = "value: Invalid input: expected the number or the hash"
STATUS = "value: Invalid input: expected an HTTP status"


NAMELESS: list[tuple[str, str, Any, str]] = [
    ("api_key_id", "eq", "mine", ID),
    ("api_key_id", "eq", 1.5, ID),
    *[("status", "eq", status, STATUS) for status in (99, 600, "ok", "20")],
    ("workspace", "eq", "mine", "value: Invalid UUID"),
    ("workspace", "gt", "mine", 'operator: Invalid option: expected one of "eq"|"neq"'),
    ("model", "eq", 5, "value: Invalid input: expected string, received number"),
]


def test_filters_that_can_name_nothing(boss: Manager) -> None:
    for field, operator, value, text in NAMELESS:
        wanted = {"field": field, "operator": operator, "value": value}
        body = {"metrics": ["request_count"], "filters": [wanted]}
        assert boss.expect_refusal(400, "POST", QUERY, body).startswith(f"filters.0.{text}")


def test_order_and_limit(boss: Manager, facts: list[Fact]) -> None:
    asked = {"metrics": ["credits_usage"], "dimensions": ["generation_id"], "limit": 2}
    asked["order_by"] = {"field": "credits_usage", "direction": "asc"}
    data = boss.ok("POST", QUERY, asked)["data"]
    assert [row["generation_id"] for row in data["data"]] == ["gen-0", "gen-1"]
    assert data["metadata"].pop("query_time_ms") >= 0
    assert data["metadata"] == {"row_count": 2, "truncated": True}
    everything = boss.ok("POST", QUERY, asked | {"limit": 12})["data"]["metadata"]
    assert (everything["row_count"], everything["truncated"]) == (12, False)


def test_a_group_keeps_its_newest_periods(boss: Manager, facts: list[Fact]) -> None:
    asked = {"metrics": ["request_count"], "dimensions": ["variant"], "granularity": "minute"}
    shared = boss.ok("POST", QUERY, asked | {"limit": 4})["data"]
    named = boss.ok("POST", QUERY, asked | {"group_limit": 1})["data"]
    # Without its share one of the two would have nothing among four rows.
    assert sorted(row["variant"] for row in shared["data"]) == ["free"] * 2 + ["standard"] * 2
    assert shared["metadata"]["truncated"]
    assert [row["variant"] for row in named["data"]] == ["standard", "free"]


def test_an_account_sees_its_own_only(mine: Office, facts: list[Fact]) -> None:
    other = office("other")
    stranger = Manager(other.account, other.users[0], other.management)
    mine_there = {"field": "api_key_id", "operator": "eq", "value": mine.keys[0].hash}
    assert count_generations(stranger) == count_generations(stranger, filters=[mine_there]) == 0
    for query in ("", f"?api_key_hash={mine.keys[0].hash}"):
        assert stranger.ok("GET", f"/activity{query}")["data"] == []


def test_the_hash_of_a_key_of_others_says_nothing_of_it(boss: Manager, facts: list[Fact]) -> None:
    """Not even whether it is older or newer than one's own."""
    theirs = office("other").keys[0].hash
    for operator in ("eq", "neq", "gt", "lte"):
        wanted = {"field": "api_key_id", "operator": operator}
        known, unknown = (
            count_generations(boss, filters=[{**wanted, "value": value}])
            for value in (theirs, "0" * 64)
        )
        assert known == unknown, operator


def test_a_query_that_takes_too_long(
    boss: Manager, facts: list[Fact], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ANALYTICS_TIMEOUT = 0.001
    monkeypatch.setattr(analytics, "_STEPS", 1)
    slow = """WITH a AS (SELECT 1 AS n FROM routing_generation, routing_generation g2)
        SELECT (SELECT COUNT(*) FROM a a1, a a2, a a3)"""
    monkeypatch.setattr("routing.history.analytics.Statement.text", lambda self: (slow, ()))
    told = boss.expect_refusal(408, "POST", QUERY, {"metrics": ["request_count"]})
    assert told == "Operation timed out. Please try again later."


# --- Activity ---------------------------------------------------------------------------------


def test_activity_by_day_model_and_endpoint(boss: Manager, mine: Office, facts: list[Fact]) -> None:
    found = boss.ok("GET", "/activity")["data"]

    days = [(NOON - timedelta(days=n)).date().isoformat() for n in (1, 2)]
    assert [row["date"] for row in found] == days
    model = {"model": "acme/one", "model_permaslug": "acme/one-2026"}
    tokens = {"prompt_tokens": 60, "completion_tokens": 30, "reasoning_tokens": 0}
    assert found[0] == {
        "date": days[0],
        **model,
        "endpoint_id": "first",
        "provider_name": "First",
        "requests": 6,
        **tokens,
        "usage": 0.03,
        "byok_usage_inference": 0,
    }
    by_workspace = boss.ok("GET", "/activity?group_by=workspace")["data"]
    assert {row["workspace_id"] for row in by_workspace} == {str(w.pk) for w in mine.workspaces}
    usages = [(row["date"], -row["usage"]) for row in by_workspace]
    assert usages == sorted(usages, key=lambda pair: (days.index(pair[0]), pair[1]))


def test_activity_is_of_full_days_only(boss: Manager, mine: Office) -> None:
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    inside = (today - timedelta(days=30), today - timedelta(microseconds=1))
    outside = (today, today - timedelta(days=30, microseconds=1))
    save(mine, [Fact(f"gen-{n}", at, key=0) for n, at in enumerate((*inside, *outside))])
    found = boss.ok("GET", "/activity")["data"]
    assert [(row["date"], row["requests"]) for row in found] == [
        (at.date().isoformat(), 1) for at in reversed(inside)
    ]


def test_activity_filters(boss: Manager, mine: Office, facts: list[Fact]) -> None:
    day = (NOON - timedelta(days=2)).date().isoformat()
    for query, count in [
        (f"date={day}", 6),
        (f"api_key_hash={mine.keys[1].hash}", 4),
        (f"api_key_hash={'0' * 64}", 0),
        (f"user_id={mine.users[1].public_id}", 4),
        (f"workspace_id={mine.workspaces[0].pk}", 4),
        ("date=&user_id=&group_by=", 12),
    ]:
        found = boss.ok("GET", f"/activity?{query}")["data"]
        assert sum(row["requests"] for row in found) == count, query


def test_activity_refusals(boss: Manager) -> None:
    today = datetime.now(UTC).date()
    theirs = Workspace.objects.get(account=open_account(name="theirs"))
    stranger = admit_member(account=theirs.account, username="x", role=Membership.Role.MEMBER)
    create_key(account=theirs.account, name="k", workspace=theirs, creator=stranger)
    completed = "date: Invalid input: expected one of the last 30 completed UTC days"
    for query, text in [
        *[(f"date={day}", completed) for day in ("1999-01-01", today, today - timedelta(days=31))],
        *[(f"date={day}", "date: Invalid ISO date") for day in ("2026-02-30", "yesterday")],
        ("api_key_hash=abc", "api_key_hash: Invalid string: must match pattern"),
        *[(f"tag={tag}", "tag: Invalid string") for tag in ("team", "a%3D%00", "a%00%3Db")],
        ("workspace_id=default", "workspace_id: Invalid UUID"),
        ("group_by=model", 'group_by: Invalid option: expected one of "workspace"'),
    ]:
        assert boss.expect_refusal(400, "GET", f"/activity?{query}").startswith(text)
    unknown = ("user_of_nobody", stranger.public_id)
    for query in (f"workspace_id={theirs.pk}", *(f"user_id={user}" for user in unknown)):
        assert boss.expect_refusal(404, "GET", f"/activity?{query}") == "Resource not found"
