from typing import Any

import pytest
from django.test import Client
from drf_spectacular.generators import SchemaGenerator
from pytest_django import Settings

from routing.catalogue.load import load

pytestmark = pytest.mark.django_db
PATHS = (
    "/api/v1/models",
    "/api/v1/models?sort=most-popular",
    "/api/v1/models/count",
    "/api/v1/model/acme/small",
    "/api/v1/models/acme/small/endpoints",
    "/api/v1/providers",
    "/api/v1/endpoints/zdr",
)


def get(path: str, **headers: str) -> tuple[int, Any]:
    response = Client().get(path, headers=headers)
    assert response["Content-Type"] == "application/json"
    return response.status_code, response.json()


@pytest.mark.parametrize("path", PATHS)
def test_the_catalogue_is_open_but_a_credential_must_be_good(
    conformance: dict[str, Any], path: str
) -> None:
    assert get(path)[0] == 200
    assert get(path.replace("?", "/?") if "?" in path else f"{path}/")[0] == 200
    assert get(path, authorization="Bearer nonsense")[0] == 401


@pytest.mark.parametrize("path", PATHS)
def test_a_closed_catalogue_asks_for_a_credential(
    conformance: dict[str, Any], settings: Settings, path: str
) -> None:
    settings.PUBLIC_CATALOG = False

    assert get(path)[0] == 401


def test_a_model_has_every_promised_field(conformance: dict[str, Any]) -> None:
    _, body = get("/api/v1/model/acme/small")

    model = body["data"]
    parameters = model.pop("supported_parameters")
    assert {"temperature", "tools", "response_format"} <= set(parameters)
    assert model == {
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
        "per_request_limits": None,
        "default_parameters": None,
        "supported_voices": None,
        "links": {"details": "/api/v1/models/acme/small/endpoints"},
        "hugging_face_id": None,
        "knowledge_cutoff": None,
        "expiration_date": None,
    }


def test_a_model_is_told_as_openai_s_clients_read_it(conformance: dict[str, Any]) -> None:
    _, body = get("/api/v1/models/acme/small:nitro")

    data = body.pop("data")
    assert data == get("/api/v1/model/acme/small:nitro")[1]["data"]
    plain = {"id": "acme/small:nitro", "object": "model", "created": 1767225600}
    assert body == plain | {"owned_by": "acme"}


def test_one_page_of_models_names_the_next(conformance: dict[str, Any]) -> None:
    status, body = get("/api/v1/models?limit=1&output_modalities=all")

    assert status == 200
    assert [model["id"] for model in body["data"]] == ["acme/small"]
    assert body["total_count"] == 5
    following = body["links"]["next"]
    assert get(following)[1]["data"][0]["id"] == "acme/small:free"


def test_a_models_endpoints_are_listed_with_their_tags(conformance: dict[str, Any]) -> None:
    status, body = get("/api/v1/models/acme/small/endpoints")

    assert status == 200
    endpoints = body["data"]["endpoints"]
    assert [endpoint["tag"] for endpoint in endpoints] == ["alpha", "beta", "beta/turbo"]
    assert [endpoint["pricing"]["prompt"] for endpoint in endpoints] == [
        "0.000001",
        "0.000002",
        "0.000005",
    ]
    assert endpoints[0]["name"] == "Alpha | acme/small"
    assert endpoints[0]["status"] == 0
    assert endpoints[0]["uptime_last_5m"] is endpoints[0]["latency_last_30m"] is None


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/models/acme/none/endpoints",
        "/api/v1/model/acme/none",
        "/api/v1/models/acme/none",
        "/api/v1/model/acme/hidden",
        "/api/v1/models/acme/unpriced/endpoints",
    ],
)
def test_what_cannot_be_called_is_not_found(conformance: dict[str, Any], path: str) -> None:
    end = {"provider": "alpha", "upstream_model": "m", "pricing": {"prompt": "1", "completion": 0}}
    load(
        {
            "models": [
                {"id": "acme/hidden", "name": "n", "visible": False, "endpoints": [end]},
                {"id": "acme/unpriced", "name": "n", "endpoints": [{**end, "pricing": None}]},
            ]
        }
    )

    status, body = get(path)

    assert status == 404
    assert body["error"]["metadata"]["error_type"] == "not_found"


def test_a_variant_is_a_model_of_its_own(conformance: dict[str, Any]) -> None:
    assert get("/api/v1/model/acme/small:free")[1]["data"]["pricing"]["prompt"] == "0"
    assert get("/api/v1/models/acme/small:free/endpoints")[0] == 200


def test_an_alias_shows_its_target(conformance_data: dict[str, Any]) -> None:
    conformance_data["models"][0]["aliases"] = ["acme/tiny"]
    load(conformance_data)

    model = get("/api/v1/model/acme/tiny")[1]["data"]

    assert model["id"] == "acme/small"
    assert model["alias_target"] == {"slug": "acme/small", "name": "Acme Small"}


def test_only_endpoints_that_keep_nothing_are_listed_as_such(conformance: dict[str, Any]) -> None:
    _, body = get("/api/v1/endpoints/zdr")

    assert {endpoint["tag"] for endpoint in body["data"]} == {"alpha"}


def test_providers_show_their_fields_and_never_a_credential(conformance: dict[str, Any]) -> None:
    _, body = get("/api/v1/providers")

    assert [provider["name"] for provider in body["data"]] == [
        *("Alpha", "Beta", "Delta", "Gamma", "Typesafe")
    ]
    assert body["data"][0] == {
        "name": "Alpha",
        "slug": "alpha",
        "privacy_policy_url": None,
        "terms_of_service_url": None,
        "status_page_url": None,
        "headquarters": None,
        "datacenters": None,
    }


def test_the_number_of_models_follows_the_modality(conformance: dict[str, Any]) -> None:
    assert get("/api/v1/models/count")[1] == {"data": {"count": 4}}
    assert get("/api/v1/models/count?output_modalities=decisions")[1] == {"data": {"count": 1}}


def test_an_odd_filter_is_refused_in_the_error_body(conformance: dict[str, Any]) -> None:
    status, body = get("/api/v1/models?sort=oldest")

    assert status == 400
    assert body["error"]["message"].startswith("sort: expected one of newest, ")


@pytest.mark.parametrize("path", PATHS)
def test_other_methods_are_refused_with_those_that_work(path: str) -> None:
    response = Client().post(path, {}, content_type="application/json")

    assert response.status_code == 405
    assert response["Allow"] == "GET, HEAD"


def test_every_path_is_described() -> None:
    generator: Any = SchemaGenerator

    described = generator().get_schema(request=None, public=True)["paths"]

    assert "get" in described["/api/v1/models"]
    assert "/api/v1/models/{author}/{slug}/endpoints" in described
