"""The catalogue over HTTP: as anybody reads it, and as a known caller does."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from accounts.authentication import forget_keys
from accounts.models import Account
from accounts.services.keys import create_key
from accounts.services.organization import open_account
from routing.catalogue.load import load_catalogue
from routing.catalogue.snapshot import catalogue
from routing.metering.popularity import DailyCalls, popularity
from routing.serving.request import process
from routing.serving.request.context import Attempt
from routing.statistics import observation

pytestmark = pytest.mark.django_db
NEWEST = ["acme/small", "acme/small:free", "acme/solo", "acme/text"]
PATHS = [
    *("/models", "/models?sort=most-popular", "/models/count", "/model/acme/small"),
    *("/models/acme/small/endpoints", "/providers", "/endpoints/zdr"),
]


@pytest.fixture(autouse=True)
def nothing_learned() -> Iterator[None]:
    def forget() -> None:
        observation.observer.cache_clear()
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
    assert response["Content-Type"] == "application/json"
    return response.status_code, response.json()


def read(path: str, key: str = "") -> Any:
    status, body = get(path, key)
    assert status == 200, body
    return body["data"]


def ids(path: str, key: str = "") -> list[str]:
    return [model["id"] for model in read(path, key)]


# --- As anybody reads it --------------------------------------------------------------------------


def test_the_catalogue_is_open_but_a_credential_must_be_good(
    conformance: dict[str, Any], settings: Settings
) -> None:
    slashed = [path.replace("?", "/?") if "?" in path else f"{path}/" for path in PATHS]
    assert {get(path)[0] for path in [*PATHS, *slashed]} == {200}
    assert {get(path, "sk-nonsense")[0] for path in PATHS} == {401}

    settings.PUBLIC_CATALOG = False

    assert {get(path)[0] for path in PATHS} == {401}


def test_a_model_has_every_promised_field(conformance: dict[str, Any]) -> None:
    model = read("/model/acme/small")

    assert {"temperature", "tools", "response_format"} <= {*model.pop("supported_parameters")}
    unsaid = ("per_request_limits", "default_parameters", "supported_voices", "hugging_face_id")
    assert model == dict.fromkeys([*unsaid, "knowledge_cutoff", "expiration_date"]) | {
        "id": "acme/small",
        "canonical_slug": "acme/small-2026-01",
        "name": "Acme Small",
        "created": 1767225600,
        "description": "",
        "context_length": 128000,
        "architecture": {
            "modality": "text->text",
            "input_modalities": ["text"],
            "output_modalities": ["text"],
            "tokenizer": "Other",
            "instruct_type": None,
        },
        "pricing": {"prompt": "0.000001", "completion": "0.000002"},
        "top_provider": {
            "context_length": 128000,
            "max_completion_tokens": 16384,
            "is_moderated": False,
        },
        "links": {"details": "/api/v1/models/acme/small/endpoints"},
    }


def test_a_model_is_told_as_openai_s_clients_read_it(conformance: dict[str, Any]) -> None:
    _, body = get("/models/acme/small:nitro")

    assert body.pop("data") == read("/model/acme/small:nitro")
    plain = {"id": "acme/small:nitro", "object": "model", "created": 1767225600}
    assert body == plain | {"owned_by": "acme"}


def test_a_models_endpoints_are_listed_with_their_tags(conformance: dict[str, Any]) -> None:
    endpoints = read("/models/acme/small/endpoints")["endpoints"]

    prompts = [(each["tag"], each["pricing"]["prompt"]) for each in endpoints]
    assert prompts == [("alpha", "0.000001"), ("beta", "0.000002"), ("beta/turbo", "0.000005")]
    assert (endpoints[0]["name"], endpoints[0]["status"]) == ("Alpha | acme/small", 0)
    # Only endpoints that keep nothing are listed as such.
    assert {each["tag"] for each in read("/endpoints/zdr")} == {"alpha"}


def test_what_cannot_be_called_is_not_found(conformance: dict[str, Any]) -> None:
    end = {"provider": "alpha", "upstream_model": "m", "pricing": {"prompt": "1", "completion": 0}}
    hidden = {"id": "acme/hidden", "name": "n", "visible": False, "endpoints": [end]}
    unpriced = {"id": "acme/unpriced", "name": "n", "endpoints": [{**end, "pricing": None}]}
    load_catalogue({"models": [hidden, unpriced]})

    for path in (
        *("/models/acme/none/endpoints", "/model/acme/none", "/models/acme/none"),
        *("/model/acme/hidden", "/models/acme/unpriced/endpoints", "/model/acme/small:weird"),
        *("/model/router/auto", "/model/~acme/none-latest", "/model/a/:nitro"),
    ):
        status, body = get(path)
        assert status == 404, path
        assert body["error"]["metadata"]["error_type"] == "not_found"


NAMES: list[tuple[str, str, bool]] = [
    ("acme/small", "acme/small", False),
    ("acme/small:free", "acme/small:free", False),
    ("acme/small:nitro", "acme/small", False),
    ("acme/small:free:online", "acme/small:free", False),
    ("acme/tiny", "acme/small", True),
    ("acme/tiny:floor", "acme/small", True),
    ("~acme/small-latest", "acme/small", True),
]


def test_a_model_is_found_by_whatever_a_request_may_call_it(
    conformance_data: dict[str, Any], db: None
) -> None:
    conformance_data["models"][0]["aliases"] = ["acme/tiny"]
    load_catalogue(conformance_data)
    target = {"slug": "acme/small", "name": "Acme Small"}
    for name, model, is_alias in NAMES:
        found = read(f"/model/{name}")
        assert (found["id"], found.get("alias_target")) == (model, target if is_alias else None)
        # A variant is a model of its own.
        assert found["pricing"]["prompt"] == ("0" if model.endswith(":free") else "0.000001")
        assert read(f"/models/{name}/endpoints")["id"] == model


def test_providers_show_their_fields_and_never_a_credential(conformance: dict[str, Any]) -> None:
    providers = read("/providers")

    assert [each["slug"] for each in providers] == ["alpha", "beta", "delta", "gamma", "typesafe"]
    unsaid = ("privacy_policy_url", "terms_of_service_url", "status_page_url")
    plain = dict.fromkeys([*unsaid, "headquarters", "datacenters"])
    assert providers[0] == {"name": "Alpha", "slug": "alpha", **plain}


def test_an_odd_filter_is_refused_in_the_error_body(conformance: dict[str, Any]) -> None:
    status, body = get("/models?sort=oldest")

    assert status == 400
    assert body["error"]["message"].startswith("sort: expected one of newest, ")


# --- As a known caller reads it: statistics, popularity, the account's own listing ----------------


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
        observation.record_attempt(attempt, streamed=True, tokens=tokens, tools_good=True)
    observation.refresh()


def test_statistics_are_for_those_with_a_key(conformance: dict[str, Any], key: str) -> None:
    answers("acme/small", "alpha", latency_s=0.5, tps=40.0)
    path = "/models/acme/small/endpoints"

    alpha, beta, _ = read(path, key)["endpoints"]
    anonymous = read(path)["endpoints"][0]

    assert alpha["uptime_last_5m"] == alpha["uptime_last_30m"] == alpha["uptime_last_1d"] == 100
    assert alpha["latency_last_30m"]["p50"] == pytest.approx(500, rel=0.1)
    assert alpha["throughput_last_30m"]["p99"] == pytest.approx(40, rel=0.1)
    assert list(alpha["latency_last_30m"]) == ["p50", "p75", "p90", "p99"]
    statistics = [name for name in alpha if name.endswith(("_last_5m", "_last_30m", "_last_1d"))]
    assert len(statistics) == 5
    assert {beta[name] for name in statistics} == {anonymous[name] for name in statistics} == {None}
    assert alpha in read("/endpoints/zdr", key)
    assert read("/endpoints/zdr")[0]["uptime_last_5m"] is None


def test_a_parked_endpoint_shows_it_and_stays_routable(
    conformance: dict[str, Any], key: str
) -> None:
    alpha, beta, turbo = catalogue.current().models["acme/small"].endpoints
    process.health().park(alpha.pk, process.now(), hint_s=60)
    process.health().record_failure(beta.pk, process.now())

    def list_statuses(key: str) -> list[int]:
        return [end["status"] for end in read("/models/acme/small/endpoints", key)["endpoints"]]

    assert (list_statuses(key), list_statuses(""), turbo.status) == ([-2, -1, 0], [0, 0, 0], 0)


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

    assert (status, body["total_count"]) == (200, 2)
    assert [model["id"] for model in body["data"]] == ["acme/small", "acme/solo"]
    # Of what is left: beta.
    assert body["data"][0]["pricing"]["prompt"] == "0.000002"
    assert read("/model/acme/small", key)["pricing"]["prompt"] == "0.000001"
    assert ids("/models/user?limit=1&offset=1", key) == ["acme/solo"]
    following = get("/models/user?limit=1", key)[1]["links"]["next"]
    assert following == "/api/v1/models/user?limit=1&offset=1"
    assert ids("/models/user?q=solo", key) == ["acme/solo"]
    assert get("/models/user?limit=0", key)[0] == 400


def test_an_accounts_listing_asks_for_a_key(conformance: dict[str, Any], account: Account) -> None:
    _, management = create_key(account=account, name="m", workspace=None)

    assert get("/models/user")[0] == get("/models/user", "sk-nonsense")[0] == 401
    assert ids("/models/user", management) == NEWEST


def test_errors_say_whose_they_are(conformance: dict[str, Any], key: str) -> None:
    for path in ("/models?sort=odd", "/model/a/b", "/models/a/b/endpoints", "/models/user?limit=x"):
        assert get(path, key)[1]["user_id"] is None
    assert "user_id" not in get("/models?sort=odd")[1]
