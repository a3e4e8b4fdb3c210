"""S4: a caller who tries to choose host, header, key or path of the upstream request.

Whatever is sent, each outbound request goes to the catalogue's host and path with that provider's
own credential. A listener of the caller's choosing hears nothing.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from routing.simulator.testing import RawConnection
from tests.conformance.desk import CHAT, HELLO, Desk
from tests.gateway.outbound.raw_upstream import RawUpstream, always, answer
from tests.support.wires import head_bytes

SECRET = "first-secret"
OWN_HASH = "sha256:" + hashlib.sha256(SECRET.encode()).hexdigest()[:16]
BODY_FIELDS = """
api_base base_url api_url url host hostname endpoint endpoint_url upstream upstream_url proxy
proxies http_proxy deployment_id azure_endpoint api_version organization project region_name
custom_llm_provider model_list litellm_params credential credentials api_key key authorization
Authorization aws_access_key_id vertex_project extra_headers headers default_headers extra_query
query params extra_body path wire_path redirect callback_url webhook_url
"""
# Things a provider might be named by, in fields that are legal.
LEGAL_FIELDS = ("user", "prompt_cache_key", "session_id")
MODELS = [
    *("plain/../first", "plain/first/../../x", "../plain/first", "/plain/first", "plain//first"),
    *("plain/first/", "plain/first?x=1", "plain/first#x", "plain/first%2f..%2fx", "plain%2Ffirst"),
    *("plain/first\\x", "plain\\first", "plain/first;x", "plain/first&x=1", "..", ".", "/", "//"),
    *("http://LISTENER/v1", "LISTENER/first", "first@LISTENER", "plain/first:online:LISTENER"),
    *("file:///etc/passwd", "plain/FIRST\u200b", "plain/first%00", "plain/first\x01"),
]
HEADERS = """
Host X-Forwarded-Host X-Forwarded-Server X-Forwarded-Proto X-Forwarded-Port X-Forwarded-For
Forwarded X-Host X-Original-Host X-Original-URL X-Rewrite-URL X-HTTP-Host-Override Proxy
Proxy-Authorization HTTP-Proxy HTTP_HOST X-Api-Base X-Base-Url X-Upstream X-Upstream-Url
X-Portkey-Custom-Host Helicone-Target-Url api-key x-api-key x-goog-api-key OpenAI-Organization
OpenAI-Project anthropic-beta Cookie Origin Referer Via TE Upgrade X-Router-Title X-Session-Id
"""
ALLOWED = {"host", "content-type", "content-length", "accept", "accept-encoding"}
# A new one, or the caller's own where it is sane.
ALLOWED |= {"x-client-request-id"}
ALLOWED |= {"authorization", "user-agent", "connection"}


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


def test_no_field_of_the_body_chooses_the_target(
    desk: Desk, listener: RawUpstream, target: str
) -> None:
    url = f"http://{target}/v1"
    stolen = {"base_url": url, "Host": target, "Authorization": "Bearer stolen"}
    for field in BODY_FIELDS.split():
        desk.upstream.clear()
        for value in (url, stolen, [url]):
            body = {"model": "plain/first", "messages": HELLO, field: value}
            response = desk.raw(json.dumps(body).encode())
            assert response.status_code == 200, (field, response.text)
            assert SECRET not in response.text
        assert len(desk.list_sent_bodies("first")) == 3
        check_outbound(desk, listener, target)


def test_nor_does_a_legal_field(desk: Desk, listener: RawUpstream, target: str) -> None:
    url = f"http://{target}/v1"
    given: dict[str, Any] = dict.fromkeys(LEGAL_FIELDS, url)

    assert desk.post(**given, metadata={"base_url": url}).status_code == 200

    check_outbound(desk, listener, target)


def test_no_model_name_becomes_a_path_or_a_host(
    desk: Desk, listener: RawUpstream, target: str
) -> None:
    for reference in MODELS:
        named = reference.replace("LISTENER", target)
        bodies: list[dict[str, Any]] = [{"model": named}, {"models": [named]}]
        for body in bodies:
            response = desk.post(**body)
            assert response.status_code in {400, 404}, (reference, response.text)
            assert SECRET not in response.text

    assert desk.upstream.requests() == []
    assert listener.connections == 0


def test_no_header_chooses_the_target(desk: Desk, listener: RawUpstream, target: str) -> None:
    for name in HEADERS.split():
        desk.upstream.clear()
        for value in (target, f"http://{target}/v1", "Bearer stolen"):
            response = desk.post(headers={name: value})
            assert response.status_code in {200, 400}, (name, response.text)
            assert SECRET not in response.text
        check_outbound(desk, listener, target)


def test_nor_does_the_request_line(desk: Desk, listener: RawUpstream, target: str) -> None:
    data = json.dumps({"model": "plain/first", "messages": HELLO}).encode()
    for path in (
        f"http://{target}{CHAT}",
        f"{CHAT}?base_url=http://{target}/v1&api_key=stolen",
        f"{CHAT}/..;/{target}",
    ):
        fields = f"Content-Length: {len(data)}"
        head = head_bytes(fields, path=path, key=desk.account.api_key, close=True)
        with closing(RawConnection(int(desk.server.env["PORT"]))) as wire:
            wire.send(head + data)
            assert wire.head()[0] in {200, 400, 404}, path
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


def test_each_provider_gets_its_own_credential_and_no_other(desk: Desk) -> None:
    for model in ("plain/first", "plain/second", "plain/third", "plain/drained"):
        desk.ok(model=model)

    for entry in desk.upstream.requests():
        own = hashlib.sha256(f"{entry['persona']}-secret".encode()).hexdigest()[:16]
        assert entry["headers"]["authorization"].endswith(f"sha256:{own}")
