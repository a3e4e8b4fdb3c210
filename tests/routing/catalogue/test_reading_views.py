"""The catalogue as a known caller reads it: statistics, popularity, the account's own listing."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from accounts.authentication import forget_keys
from accounts.models import Account
from accounts.services.accounts import open_account
from accounts.services.keys import create_key
from routing.catalogue.load import load
from routing.catalogue.snapshot import catalogue
from routing.metering.popularity import DailyCalls, popularity
from routing.serving import observing, process
from routing.serving.call import Attempt

pytestmark = pytest.mark.django_db
NEWEST = ["acme/small", "acme/small:free", "acme/solo", "acme/text"]


@pytest.fixture(autouse=True)
def nothing_learned() -> Iterator[None]:
    def forget() -> None:
        observing.observer.cache_clear()
        process.health.cache_clear()
        popularity.forget()
        forget_keys()

    forget()
    yield
    forget()


@pytest.fixture
def account(db: None) -> Account:
    return open_account(name="mine")


@pytest.fixture
def key(account: Account) -> str:
    return create_key(account=account, name="k", workspace=account.workspaces.get())[1]


def get(path: str, key: str = "") -> tuple[int, Any]:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    response = Client().get(f"/api/v1{path}", headers=headers)
    return response.status_code, response.json()


def ids(path: str, key: str = "") -> list[str]:
    status, body = get(path, key)
    assert status == 200, body
    return [model["id"] for model in body["data"]]


def answers(model: str, tag: str, *, latency_s: float, tps: float, calls: int = 20) -> None:
    """The endpoint has answered so often, and always like this."""
    ends = catalogue.current().models[model].endpoints
    endpoint = next(end for end in ends if end.tag == tag)
    tokens = 1000
    for _ in range(calls):
        now = process.now()
        span_s = tokens / tps
        attempt = Attempt(endpoint, None, started=now - span_s - latency_s, status=200)
        attempt.first_token, attempt.ended = now - span_s, now
        observing.observed(attempt, streamed=True, tokens=tokens, tools_good=True)
    observing.refresh()


def test_statistics_are_for_those_with_a_key(conformance: dict[str, Any], key: str) -> None:
    answers("acme/small", "alpha", latency_s=0.5, tps=40.0)
    path = "/models/acme/small/endpoints"

    alpha, beta, _ = get(path, key)[1]["data"]["endpoints"]
    anonymous = get(path)[1]["data"]["endpoints"][0]

    assert alpha["uptime_last_5m"] == alpha["uptime_last_30m"] == alpha["uptime_last_1d"] == 100
    assert alpha["latency_last_30m"]["p50"] == pytest.approx(500, rel=0.1)
    assert alpha["throughput_last_30m"]["p99"] == pytest.approx(40, rel=0.1)
    assert list(alpha["latency_last_30m"]) == ["p50", "p75", "p90", "p99"]
    statistics = [name for name in alpha if name.endswith(("_last_5m", "_last_30m", "_last_1d"))]
    assert len(statistics) == 5
    assert {beta[name] for name in statistics} == {anonymous[name] for name in statistics} == {None}
    zdr = get("/endpoints/zdr", key)[1]["data"]
    assert alpha in zdr
    assert get("/endpoints/zdr")[1]["data"][0]["uptime_last_5m"] is None


def test_a_parked_endpoint_shows_it_and_stays_routable(
    conformance: dict[str, Any], key: str
) -> None:
    alpha, beta, turbo = catalogue.current().models["acme/small"].endpoints
    process.health().parked(alpha.pk, process.now(), hint_s=60)
    process.health().failed(beta.pk, process.now())

    def shown(key: str) -> list[int]:
        return [
            end["status"]
            for end in get("/models/acme/small/endpoints", key)[1]["data"]["endpoints"]
        ]

    assert shown(key) == [-2, -1, 0]
    assert shown("") == [0, 0, 0]
    assert turbo.status == 0


def test_orders_by_speed_and_success_need_a_key(conformance: dict[str, Any], key: str) -> None:
    answers("acme/solo", "gamma", latency_s=0.2, tps=90.0)
    answers("acme/text", "delta", latency_s=0.1, tps=30.0)

    assert ids("/models?sort=throughput-high-to-low", key)[:2] == ["acme/solo", "acme/text"]
    assert ids("/models?sort=latency-low-to-high", key)[:2] == ["acme/text", "acme/solo"]
    assert ids("/models?min_tool_success_rate=0.9", key) == ["acme/solo", "acme/text"]
    assert ids("/models?sort=throughput-high-to-low") == NEWEST
    assert ids("/models?min_tool_success_rate=0") == []


def test_popular_models_come_first_for_everybody(conformance: dict[str, Any], key: str) -> None:
    today = datetime.now(UTC).date()
    DailyCalls.objects.create(model="acme/text", day=today, calls=7)
    DailyCalls.objects.create(model="acme/solo", day=today, calls=5)

    expected = ["acme/text", "acme/solo", "acme/small", "acme/small:free"]
    assert ids("/models?sort=most-popular", key) == expected
    assert ids("/models?sort=top-weekly") == expected


def test_an_accounts_listing_has_what_its_lists_leave(
    conformance: dict[str, Any], account: Account, key: str
) -> None:
    assert ids("/models/user", key) == NEWEST
    account.allowed_providers = ["alpha", "beta", "gamma"]
    account.ignored_providers = ["Alpha"]
    account.save()
    forget_keys()

    status, body = get("/models/user", key)

    assert status == 200
    assert [model["id"] for model in body["data"]] == ["acme/small", "acme/solo"]
    assert body["total_count"] == 2
    # Of what is left: beta.
    assert body["data"][0]["pricing"]["prompt"] == "0.000002"
    assert get("/model/acme/small", key)[1]["data"]["pricing"]["prompt"] == "0.000001"
    assert ids("/models/user?limit=1&offset=1", key) == ["acme/solo"]
    assert ids("/models/user?q=solo", key) == ["acme/solo"]
    assert get("/models/user?limit=0", key)[0] == 400


def test_an_accounts_listing_asks_for_a_key(conformance: dict[str, Any], account: Account) -> None:
    _, management = create_key(account=account, name="m", workspace=None)

    assert get("/models/user")[0] == 401
    assert get("/models/user", "sk-nonsense")[0] == 401
    assert ids("/models/user", management) == NEWEST


def test_a_page_of_the_accounts_listing_names_the_next(
    conformance: dict[str, Any], key: str
) -> None:
    assert get("/models/user?limit=1", key)[1]["links"]["next"] == (
        "/api/v1/models/user?limit=1&offset=1"
    )


def test_errors_say_whose_they_are(conformance: dict[str, Any], key: str) -> None:
    for path in ("/models?sort=odd", "/model/a/b", "/models/a/b/endpoints", "/models/user?limit=x"):
        assert get(path, key)[1]["user_id"] is None
    assert "user_id" not in get("/models?sort=odd")[1]


@pytest.mark.parametrize(
    ("name", "id", "is_alias"),
    [
        ("acme/small", "acme/small", False),
        ("acme/small:free", "acme/small:free", False),
        ("acme/small:nitro", "acme/small", False),
        ("acme/small:free:online", "acme/small:free", False),
        ("acme/tiny", "acme/small", True),
        ("acme/tiny:floor", "acme/small", True),
        ("~acme/small-latest", "acme/small", True),
    ],
)
def test_a_model_is_found_by_whatever_a_request_may_call_it(
    conformance_data: dict[str, Any], db: None, name: str, id: str, is_alias: bool
) -> None:
    conformance_data["models"][0]["aliases"] = ["acme/tiny"]
    load(conformance_data)

    status, body = get(f"/model/{name}")

    assert status == 200
    assert body["data"]["id"] == id
    assert ("alias_target" in body["data"]) == is_alias
    assert get(f"/models/{name}/endpoints")[1]["data"]["id"] == id


@pytest.mark.parametrize(
    "name", ["acme/small:weird", "router/auto", "~acme/none-latest", "a/:nitro"]
)
def test_what_is_no_model_is_not_found(conformance: dict[str, Any], name: str) -> None:
    assert get(f"/model/{name}")[0] == 404
