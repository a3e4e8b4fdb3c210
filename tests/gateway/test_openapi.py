"""The document says what is served, and the page that shows it needs nobody else."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # Comes with drf-spectacular, without stubs.
import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.validation import validate_schema

from accounts.caller import read_caller
from accounts.models import ApiKey
from accounts.rates import read_free_requests
from accounts.services.keys import create_key
from accounts.views.schemas.key import load_current_key as key_object
from gateway.http.errors import GatewayError
from gateway.http.jsonio import dumps, loads
from gateway.openapi.errors import ERROR_TYPES
from routing.catalogue.files import parse
from routing.catalogue.load import load_catalogue
from routing.catalogue.snapshot import catalogue
from routing.formats.caller import AnswerIdentity, CompleteAnswer, Ending
from routing.formats.chat.format import DONE, ChatFormat, ChatStream
from routing.formats.chat.request import parse_chat
from routing.formats.chat.schema import ChatBody
from routing.metering.cost import FREE, build_usage_report
from routing.metering.models import Generation
from routing.metering.usage import Usage
from routing.upstreams import failures
from routing.views.openapi.chat import CHAT_MEANINGS, DEPRECATED_FIELDS
from routing.views.schemas.generation import serialize_generation
from tests.support.catalogue import CONFORMANCE
from tests.support.operations import fill

DOCUMENT = "/api/v1/openapi.json"
CHAT = "/api/v1/chat/completions"
SERVED = AnswerIdentity("gen-1", 1, "acme/small", "Acme")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    value: dict[str, Any] = Client().get(DOCUMENT).json()
    return value


def test_components_keep_the_names_that_client_generators_know(document) -> None:
    """Generated classes are named after them: whoever takes one away writes it in CHANGELOG.md."""
    published = (Path(__file__).parent / "published_components.txt").read_text().split()
    assert not set(published) - set(document["components"]["schemas"])


def fits(document: dict[str, Any], name: str, value: Any) -> bool:
    """Whether a value, as it would be sent, fits the component of that name."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    errors = jsonschema.Draft202012Validator(schema).iter_errors(loads(dumps(value)))
    messages = [f"{error.json_path}: {error.message}" for error in errors]
    print(messages)  # noqa: T201 - Pytest shows it when the answer was unexpected.
    return not messages


def operations(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    paths = document["paths"].items()
    return {(path, method): said for path, item in paths for method, said in item.items()}


def list_routed(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every path below /api/ that a viewset answers callers on, with its methods."""
    for entry in resolver.url_patterns:
        place = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from list_routed(entry, place)
        elif place.startswith("api/^internal/"):
            # Of machines among each other.
            continue
        elif isinstance(entry, URLPattern) and place.startswith("api/"):
            path = re.sub(
                r"\(\?P<(\w+)>\[\^/\]\+\)", r"{\1}", place.replace("^", "", 1).rstrip("$")
            )
            actions: dict[str, str] = vars(entry.callback)["actions"]
            yield from ((f"/{path}", method) for method in actions if method != "head")


def test_the_document_needs_no_credential_and_no_slash(document: dict[str, Any]) -> None:
    response = Client().get(f"{DOCUMENT}/")

    assert response["Content-Type"] == "application/json"
    assert response.json() == document
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["version"] == "1.0.0"
    assert Client().post(DOCUMENT).status_code == 405


def test_the_document_is_valid_and_made_without_a_warning(document: dict[str, Any]) -> None:
    validate_schema(document)
    assert not GENERATOR_STATS


def test_every_path_is_described_and_can_be_read(document: dict[str, Any]) -> None:
    described = operations(document)
    assert set(described) == set(list_routed(get_resolver()))

    names = [said["operationId"] for said in described.values()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+([A-Z][a-z]+)+", name) for name in names)
    for said in described.values():
        assert said["summary"]
        assert said["description"]
        assert len(said["tags"]) == 1
        assert "500" in said["responses"]
        assert all(answer["description"] for answer in said["responses"].values())
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    assert described[CHAT, "post"]["security"] == [{"bearer": []}]
    assert described["/api/v1/models", "get"]["security"] == [{}, {"bearer": []}]
    assert described[DOCUMENT, "get"]["security"] == [{}]
    # Every reference leads somewhere and nothing is left over.
    references = set(re.findall(r'"\$ref":"([^"]+)"', dumps(document).decode()))
    schemas = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references == schemas


def test_a_chat_request_is_described_as_it_is_checked(document: dict[str, Any]) -> None:
    parameters = document["components"]["schemas"]["ChatRequest"]["properties"]
    message = {"role": "user", "content": "Hi"}

    assert set(parameters) == set(ChatBody.__annotations__) == set(CHAT_MEANINGS)
    assert {
        name for name, said in parameters.items() if said.get("deprecated")
    } == DEPRECATED_FIELDS
    assert fits(document, "ChatRequest", {"messages": [message], "temperature": None, "odd": 1})
    assert not fits(document, "ChatRequest", {"messages": []})
    assert not fits(document, "ChatRequest", {})
    assert not fits(document, "ChatRequest", {"messages": [message], "temperature": 2.1})
    assert not fits(document, "ChatRequest", {"messages": [{"role": "poet", "content": "Hi"}]})


def test_a_chat_answer_is_described_with_all_its_endings(document: dict[str, Any]) -> None:
    said = operations(document)[CHAT, "post"]
    statuses = "200 400 401 402 403 404 408 409 413 422 429 500 502 503 524 529"

    assert sorted(said["responses"]) == statuses.split()
    assert set(said["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    assert "X-Generation-Id" in said["responses"]["200"]["headers"]
    assert "Retry-After" in said["responses"]["429"]["headers"]
    assert {"X-Router-Metadata", "x-session-id"} <= {each["name"] for each in said["parameters"]}


def test_chat_answers_fit_their_description(document: dict[str, Any]) -> None:
    usage = build_usage_report(Usage(3, 2, reasoning_tokens=1), charged_nano=7, cost=FREE)
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    token = {"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": []}
    message: dict[str, Any] = {"role": "assistant", "tool_calls": [call], "reasoning": ""}
    ending = Ending("tool_calls", "tool_calls", usage, "default", None, None, None, None)
    written = CompleteAnswer(
        SERVED,
        parse_chat({"messages": [{"role": "user", "content": "Hi"}]}, session_header=None),
        message | {"content": None, "refusal": None},
        {"content": [token], "refusal": None},
        None,
        ending,
    )
    answer = ChatFormat().write_answer(written)

    assert fits(document, "ChatCompletion", answer)
    assert not fits(document, "ChatCompletion", answer | {"usage": None})


def test_chunks_fit_their_description(document: dict[str, Any]) -> None:
    chunks = ChatStream(SERVED)
    usage = build_usage_report(Usage(3, 2), charged_nano=7, cost=FREE)
    error = {"code": 502, "message": "m", "metadata": {"error_type": "provider_unavailable"}}
    call = {"index": 0, "function": {"arguments": "{"}}
    ended = chunks.write_ending(Ending("stop", None, usage, None, None, None, None, {"attempt": 1}))
    written = [
        chunks.debug({"model": "small"}),
        chunks.write_opening(),
        chunks.delta({"content": "Hi"}),
        chunks.delta({"tool_calls": [call]}, {"content": []}),
        *ended.removesuffix(DONE).split(b"\n\n")[:-1],
        chunks.error(error, router_metadata=None),
    ]

    for chunk in written:
        assert fits(document, "ChatCompletionChunk", loads(chunk.removeprefix(b"data: ")))


@pytest.mark.django_db
def test_records_keys_and_credits_fit_their_description(document: dict[str, Any]) -> None:
    fill(1)
    key = ApiKey.objects.get()
    caller = read_caller(key.hash)
    assert caller is not None
    shown = key_object(caller, read_free_requests(caller), datetime.now(UTC))
    _, manager = create_key(account=key.account, name="m", workspace=None)
    header = {"authorization": f"Bearer {manager}"}

    assert fits(document, "Generation", serialize_generation(Generation.objects.get(), key_id=0))
    assert fits(document, "CurrentKey", shown)
    assert fits(document, "Credits", Client().get("/api/v1/credits", headers=header).json())


@pytest.mark.django_db
def test_the_catalogue_and_refusals_fit_their_description(document: dict[str, Any]) -> None:
    assert load_catalogue(parse(CONFORMANCE.read_text(encoding="utf-8")))["errors"] == []
    catalogue.forget()
    for path, status, name in (
        ("models?output_modalities=all", 200, "ModelPage"),
        ("models/count", 200, "Count"),
        ("model/acme/small", 200, "ModelAnswer"),
        ("models/acme/small/endpoints", 200, "ModelEndpoints"),
        ("endpoints/zdr", 200, "EndpointList"),
        ("providers", 200, "ProviderList"),
        ("models?limit=0", 400, "Error"),
        ("key", 401, "Error"),
        ("model/nobody/nothing", 404, "Error"),
        ("nowhere", 404, "Error"),
        (CHAT.removeprefix("/api/v1/"), 405, "Error"),
    ):
        response = Client().get(f"/api/v1/{path}")
        assert response.status_code == status
        assert fits(document, name, response.json()), path
    catalogue.forget()


def test_every_error_type_is_described() -> None:
    def below(kind: type[GatewayError]) -> Iterator[str]:
        if isinstance(kind.error_type, str):
            yield kind.error_type
        for child in kind.__subclasses__():
            yield from below(child)

    rows = {row.error_type for row in failures._STATUS_RULES.values()}
    codes = {error_type for error_type, _ in failures._CODE_RULES.values()}

    assert {*below(GatewayError), *rows, *codes} <= set(ERROR_TYPES)


@pytest.mark.both
@pytest.mark.django_db
def test_the_page_loads_nothing_from_anywhere_else(client: Client) -> None:
    response = client.get("/docs")

    assert client.get("/docs/").text == response.text
    assert response.status_code == 200
    assert "default-src 'self'" in response["Content-Security-Policy"]
    assert "//" not in re.sub(r"<!--.*?-->", "", response.text)
    files = re.findall(r'(?:src|href)="([^"]+)"', response.text)
    assert len(files) == 5
    for file in files:
        assert file.startswith("/static/")
        answer = client.get(file)
        assert (answer.status_code, len(answer.getvalue()) > 0) == (200, True)
        answer.close()
    assert f'data-document="{DOCUMENT}"' in response.text
