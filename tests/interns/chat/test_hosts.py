"""Hosts of interns: who gets to the runtime's public page, and what everybody else sees."""

from typing import Any
from uuid import uuid4

import requests

from accounts.models import Account, ApiKey
from accounts.services.keys import create_key
from interns.models import Intern
from tests.interns.chat.conftest import OpenRoom
from tests.interns.chat.room import Room, ending_of, refusal_of, user
from tests.support.gateways import seed_account
from tests.support.server import GatewayServer


def host_of(room: Room) -> str:
    with room.rows():
        hostname = Intern.objects.get(pk=room.intern_id).hostname
    assert hostname
    return hostname


def ask(
    room: Room, path: str = "/", *, key: str = "", method: str = "GET", host: str = "", **more: Any
) -> requests.Response:
    headers = {"Host": host or f"{host_of(room)}:8000", **more.pop("headers", {})}
    return room.server.request(method, path, key=key, headers=headers, **more)


def test_a_key_that_sees_the_intern_gets_the_runtimes_page(room: Room) -> None:
    key, host = room.account.api_key, host_of(room)
    response = ask(room, key=key, headers={"Cookie": "a=b", "X-Any": "c"})
    assert response.status_code == 200
    assert response.json() == {"name": "research", "status": "running", "model": "acme/small"}
    assert response.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    # The runtime hears nothing of the key.
    (head,) = room.agent.heads
    assert key not in str(head)
    assert not {"authorization", "cookie", "x-any"} & {name.lower() for name in head}
    for spelled in (host.upper(), f"{host}.:443", f"{host}:80"):
        assert ask(room, key=key, host=spelled).status_code == 200
    assert ask(room, key=key, host=f"{host}.example.test").status_code == 404
    assert ask(room, "/healthz", host="interns.localhost").status_code == 200


def test_nothing_but_the_public_page_is_passed(room: Room) -> None:
    for method, path in (
        *(("POST", "/turns"), ("POST", f"/turns/{uuid4()}/cancel"), ("GET", "/health")),
        *(("GET", "/api/v1/key"), ("GET", "/healthz"), ("GET", "/admin/")),
    ):
        assert ask(room, path, key=room.account.api_key, method=method).status_code == 404, path
    assert room.agent.runs == []


def test_other_keys_find_nothing(room: Room) -> None:
    stranger = seed_account(room.server)
    with room.rows():
        account = Account.objects.get(pk=room.account.account_id)
        key, own = create_key(account=account, name="own", workspace=account.workspaces.first())
        ApiKey.objects.filter(pk=key.pk).update(intern_id=uuid4())
    nowhere = ask(room, key=room.account.api_key, host="no-such.interns.localhost")
    for response in (nowhere, ask(room, key=stranger.api_key), ask(room, key=own)):
        assert refusal_of(response) == (404, "not_found", False)
    for nobody in (room.account.management_key, "sk-nonsense"):
        assert refusal_of(ask(room, key=nobody)) == (401, None, None)


def test_an_intern_that_does_not_run_or_whose_runtime_is_gone(room: Room) -> None:
    room.agent.path.rename(room.agent.path.with_suffix(".away"))
    assert refusal_of(ask(room, key=room.account.api_key)) == (502, "intern_unreachable", True)
    room.agent.path.with_suffix(".away").rename(room.agent.path)
    room.set_intern(status="stopped")
    assert refusal_of(ask(room, key=room.account.api_key)) == (409, "intern_not_ready", True)


def test_without_a_key_all_names_show_the_same_page(room: Room) -> None:
    pages = [ask(room, host=host) for host in (host_of(room), "no-such.interns.localhost")]

    assert pages[0].content == pages[1].content
    for page in pages:
        assert page.status_code == 200
        assert page.headers["Content-Type"] == "text/html; charset=utf-8"
        policy = page.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["X-Frame-Options"] == "DENY"
    for path, kind in (("/-/chat.js", "text/javascript"), ("/-/chat.css", "text/css")):
        assert path in pages[0].text
        part = ask(room, path)
        assert part.status_code == 200
        assert part.headers["Content-Type"].startswith(kind)
    assert "http" not in pages[0].text
    for path in ("/index.html", "/turns"):
        assert refusal_of(ask(room, path)) == (401, None, None)
    assert ask(room, "/-/other").status_code == 404
    assert ask(room, method="POST").status_code == 401


def test_the_page_chats_on_the_same_host(room: Room) -> None:
    body = {"stream": True, "messages": user()}
    response = ask(room, "/-/chat", key=room.account.api_key, method="POST", json=body, stream=True)
    assert ending_of(response) == "stop"
    stranger = seed_account(room.server).api_key
    refused = ask(room, "/-/chat", key=stranger, method="POST", json=body)
    assert refusal_of(refused) == (404, "not_found", False)
    assert ask(room, "/-/chat", key=room.account.api_key).status_code == 404


def test_another_domain(strict_gateway: GatewayServer, open_room: OpenRoom) -> None:
    room = open_room(strict_gateway)
    with room.rows():
        Intern.objects.filter(pk=room.intern_id).update(hostname="research.agents.example")
    host = "research.agents.example"
    assert ask(room, key=room.account.api_key, host=host).status_code == 200
    assert ask(room, "/healthz", host="x.interns.localhost").status_code == 200
