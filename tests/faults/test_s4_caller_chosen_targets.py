"""S4: a caller who tries to choose host, header, key or path of the upstream request.

Whatever is sent, each outbound request goes to the catalogue's host and path with that provider's
own credential, and a listener of the caller's choosing hears nothing.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from routing.simulator.testing import Wire
from tests.conformance.desk import CHAT, HELLO, Desk
from tests.routing.upstreams.raw_upstream import RawUpstream, always, answer

SECRET = "first-secret"
OWN_HASH = "sha256:" + hashlib.sha256(SECRET.encode()).hexdigest()[:16]
BODY_FIELDS = [
    "api_base",
    "base_url",
    "api_url",
    "url",
    "host",
    "hostname",
    "endpoint",
    "endpoint_url",
    "upstream",
    "upstream_url",
    "proxy",
    "proxies",
    "http_proxy",
    "deployment_id",
    "azure_endpoint",
    "api_version",
    "organization",
    "project",
    "region_name",
    "custom_llm_provider",
    "model_list",
    "litellm_params",
    "credential",
    "credentials",
    "api_key",
    "key",
    "authorization",
    "Authorization",
    "aws_access_key_id",
    "vertex_project",
    "extra_headers",
    "headers",
    "default_headers",
    "extra_query",
    "query",
    "params",
    "extra_body",
    "path",
    "wire_path",
    "redirect",
    "callback_url",
    "webhook_url",
]
# Things a provider might be named by, in fields that are legal.
IN_LEGAL_FIELDS = ("user", "prompt_cache_key", "session_id")
MODELS = [
    "plain/../first",
    "plain/first/../../x",
    "../plain/first",
    "/plain/first",
    "plain//first",
    "plain/first/",
    "plain/first?x=1",
    "plain/first#x",
    "plain/first%2f..%2fx",
    "plain%2Ffirst",
    "plain/first\\x",
    "http://LISTENER/v1",
    "LISTENER/first",
    "first@LISTENER",
    "plain/first@LISTENER",
    "plain\\first",
    "plain/first;x",
    "plain/first&x=1",
    "..",
    ".",
    "/",
    "//",
    "file:///etc/passwd",
    "plain/FIRST\u200b",
    "plain/first:online:LISTENER",
    "plain/first%00",
    "plain/first\x01",
]
HEADERS = [
    "Host",
    "X-Forwarded-Host",
    "X-Forwarded-Server",
    "X-Forwarded-Proto",
    "X-Forwarded-Port",
    "X-Forwarded-For",
    "Forwarded",
    "X-Host",
    "X-Original-Host",
    "X-Original-URL",
    "X-Rewrite-URL",
    "X-HTTP-Host-Override",
    "Proxy",
    "Proxy-Authorization",
    "HTTP-Proxy",
    "HTTP_HOST",
    "X-Api-Base",
    "X-Base-Url",
    "X-Upstream",
    "X-Upstream-Url",
    "X-Portkey-Custom-Host",
    "Helicone-Target-Url",
    "api-key",
    "x-api-key",
    "x-goog-api-key",
    "OpenAI-Organization",
    "OpenAI-Project",
    "anthropic-beta",
    "Cookie",
    "Origin",
    "Referer",
    "Via",
    "TE",
    "Upgrade",
    "X-Router-Title",
    "X-Session-Id",
]


@pytest.fixture(scope="module")
def listener() -> Iterator[RawUpstream]:
    """Where a caller would like requests to go."""
    with RawUpstream(always(answer(b"{}", "Content-Type: application/json"))) as heard:
        yield heard


@pytest.fixture
def target(listener: RawUpstream) -> str:
    return f"127.0.0.1:{listener.port}"


def check_outbound(desk: Desk, listener: RawUpstream, target: str) -> None:
    """Every request that left is the catalogue's own in host, path, query and credential."""
    assert listener.connections == 0
    for entry in desk.upstream.requests():
        assert (entry["method"], entry["path"]) == ("POST", "/first/v1/chat/completions")
        assert not entry["query"]
        headers = entry["headers"]
        assert headers["host"] == f"127.0.0.1:{desk.upstream.port}"
        assert entry["authorization_present"]
        assert headers["authorization"].endswith(OWN_HASH)
        assert headers.keys() <= ALLOWED
        assert target not in json.dumps(headers)
        assert entry["body"]["model"] == "good"
        told = json.dumps({k: v for k, v in entry["body"].items() if k != "messages"})
        assert target not in told


ALLOWED = {
    "host",
    "content-type",
    "content-length",
    "accept",
    "accept-encoding",
    "authorization",
    "user-agent",
    "connection",
}


def values(target: str) -> list[Any]:
    """What a field of the body might carry to be mistaken for a target."""
    url = f"http://{target}/v1"
    return [url, {"base_url": url, "Host": target, "Authorization": "Bearer stolen"}, [url]]


@pytest.mark.parametrize("field", BODY_FIELDS)
def test_no_field_of_the_body_chooses_the_target(
    desk: Desk, listener: RawUpstream, target: str, field: str
) -> None:
    for value in values(target):
        body = {"model": "plain/first", "messages": HELLO, field: value}
        response = desk.raw(json.dumps(body).encode())
        assert response.status_code == 200, response.text
        assert SECRET not in response.text

    assert len(desk.sent("first")) == 3
    check_outbound(desk, listener, target)


@pytest.mark.parametrize("field", IN_LEGAL_FIELDS)
def test_nor_does_a_legal_field(desk: Desk, listener: RawUpstream, target: str, field: str) -> None:
    url = f"http://{target}/v1"
    given: dict[str, Any] = {field: url, "metadata": {"base_url": url}}

    response = desk.post(**given)

    assert response.status_code == 200
    check_outbound(desk, listener, target)


@pytest.mark.parametrize("reference", MODELS)
def test_no_model_name_becomes_a_path_or_a_host(
    desk: Desk, listener: RawUpstream, target: str, reference: str
) -> None:
    reference = reference.replace("LISTENER", target)

    bodies: list[dict[str, Any]] = [{"model": reference}, {"models": [reference]}]
    for body in bodies:
        response = desk.post(**body)
        assert response.status_code in {400, 404}, response.text
        assert SECRET not in response.text

    assert desk.upstream.requests() == []
    assert listener.connections == 0


@pytest.mark.parametrize("name", HEADERS)
def test_no_header_chooses_the_target(
    desk: Desk, listener: RawUpstream, target: str, name: str
) -> None:
    for value in (target, f"http://{target}/v1", "Bearer stolen"):
        response = desk.post(headers={name: value})
        assert response.status_code in {200, 400}, response.text
        assert SECRET not in response.text

    check_outbound(desk, listener, target)


@pytest.mark.parametrize("where", ["absolute form", "query", "path"])
def test_nor_does_the_request_line(
    desk: Desk, listener: RawUpstream, target: str, where: str
) -> None:
    path = {
        "absolute form": f"http://{target}{CHAT}",
        "query": f"{CHAT}?base_url=http://{target}/v1&api_key=stolen",
        "path": f"{CHAT}/..;/{target}",
    }[where]
    data = json.dumps({"model": "plain/first", "messages": HELLO}).encode()
    wire = Wire(int(desk.server.env["PORT"]))
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {target}\r\nAuthorization: Bearer "
        f"{desk.account.api_key}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    )

    wire.send(head.encode() + data)
    status, _ = wire.head()
    wire.close()

    assert status in {200, 400, 404}
    check_outbound(desk, listener, target)


@pytest.mark.parametrize(
    "provider",
    [
        {"only": ["http://127.0.0.1:9"]},
        {"order": ["first", "../second"]},
        {"base_url": "http://127.0.0.1:9"},
        {"options": {"first": {"base_url": "http://127.0.0.1:9"}}},
    ],
)
def test_provider_preferences_choose_among_the_catalogues_own(
    desk: Desk, listener: RawUpstream, target: str, provider: dict[str, Any]
) -> None:
    response = desk.post(provider=provider)

    assert response.status_code in {200, 400, 404}
    check_outbound(desk, listener, target)


@pytest.mark.parametrize("location", ["http://LISTENER/v1/chat/completions", "//LISTENER/x"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_of_an_upstream_is_followed(
    desk: Desk, listener: RawUpstream, target: str, location: str, status: int
) -> None:
    headers = {"Location": location.replace("LISTENER", target)}
    desk.upstream.script("first", {"status": status, "headers": headers, "body": ""})

    response = desk.post()

    assert response.status_code == 502
    assert len(desk.upstream.requests()) == 1
    check_outbound(desk, listener, target)


def test_each_provider_gets_its_own_credential_and_no_other(desk: Desk) -> None:
    for model in ("plain/first", "plain/second", "plain/third", "plain/drained"):
        desk.ok(model=model)

    for entry in desk.upstream.requests():
        own = hashlib.sha256(f"{entry['persona']}-secret".encode()).hexdigest()[:16]
        assert entry["headers"]["authorization"].endswith(f"sha256:{own}")
