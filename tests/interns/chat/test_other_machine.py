"""Interns of another machine, reached through a web process there."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import requests

from interns.models import Intern, InternHost
from interns.runtime.tunnel import SignedRequest, read_host
from tests.interns.chat.conftest import OpenRoom, chat_settings
from tests.interns.chat.room import Room, events_of, refusal_of, text_of
from tests.interns.chat.scripted_agent import END, PERMISSION, content, question
from tests.support.bed import Bed
from tests.support.gateways import StartGateway
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough
FAR = "far"
UNREACHABLE = (502, "intern_unreachable", True)


@pytest.fixture(scope="module")
def far(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, chat_gateway: GatewayServer, places: Path
) -> Iterator[GatewayServer]:
    """A web process of another machine, with the database and the secrets of the first."""
    env = chat_gateway.env
    secret = (Path(env["GATEWAY_HOME"]) / "secrets" / "secret_key").read_text("ascii")
    with StartGateway(stores, tmp_path_factory.mktemp("far")) as starter:
        settings = chat_settings(places, INTERN_HOST=FAR, SECRET_KEY=secret)
        yield starter(database_url=env["DATABASE_URL"], **settings)


@pytest.fixture
def far_room(far: GatewayServer, open_room: OpenRoom) -> Room:
    room = open_room()
    point_to(room, far.root_url)
    return room


def point_to(room: Room, url: str) -> None:
    now = datetime.now(UTC)
    facts = {"home_id": uuid4(), "memory_bytes": 1, "free_memory_bytes": 1}
    times = {"alive_since": now, "last_seen_at": now}
    with room.rows():
        InternHost.objects.update_or_create(name=FAR, defaults={**facts, **times, "url": url})
        Intern.objects.filter(pk=room.intern_id).update(host=FAR)


def test_a_turn_its_question_and_its_answer_pass_through(far_room: Room) -> None:
    far_room.agent.script(content("Hello "), question(PERMISSION), content("there"), END)
    asked = list(events_of(far_room.say(session_id="s")))
    answered = list(events_of(far_room.answer("s", "allow_once")))

    assert text_of(asked) + text_of(answered) == "Hello there"
    assert asked[-1] == answered[-1] == "[DONE]"
    far_room.wait_open(None)


def test_who_leaves_ends_the_run_over_there(far_room: Room) -> None:
    response, _ = far_room.hold(content("a"))
    (run,) = far_room.agent.runs
    response.close()

    assert run.over.wait(60)
    far_room.wait_open(None)
    assert run.id in far_room.agent.cancelled


def test_the_page_of_its_host_name_gets_no_token(far_room: Room) -> None:
    with far_room.rows():
        host = Intern.objects.get(pk=far_room.intern_id).hostname
    response = far_room.server.request(
        "GET", "/", key=far_room.account.api_key, headers={"Host": str(host)}
    )

    assert response.json().get("status") == "running", response.text
    (head,) = far_room.agent.heads
    assert "authorization" not in {name.lower() for name in head}


def test_a_runtime_that_is_gone_and_a_machine_that_is_not_ours_are_unreachable(
    far_room: Room, far: GatewayServer
) -> None:
    far_room.agent.path.rename(far_room.agent.path.with_suffix(".away"))
    assert refusal_of(far_room.say()) == UNREACHABLE
    far_room.agent.path.with_suffix(".away").rename(far_room.agent.path)
    # It knows the path, but has not the secret.
    point_to(far_room, "")
    assert refusal_of(far_room.say()) == UNREACHABLE
    point_to(far_room, far.root_url.replace("127.0.0.1", "127.0.0.1.nip.invalid"))
    assert refusal_of(far_room.say()) == UNREACHABLE


def test_nobody_else_gets_in(far_room: Room, far: GatewayServer) -> None:
    path = f"{far.root_url}/api/internal/interns/{far_room.intern_id}/agent/turns"
    for header in ("", "1.a.9.b", "9999999999.a.9.b", "..."):
        response = requests.post(path, headers={"X-Intern-Tunnel": header}, json={}, timeout=60)
        assert response.status_code == 404
        assert "X-Intern-Tunnel-Proof" not in response.headers
    assert far_room.agent.heads == []


def test_who_reads_along_can_repeat_nothing(
    far_room: Room, far: GatewayServer, settings: Any
) -> None:
    settings.SECRET_KEY = far.env["SECRET_KEY"]
    path = f"/api/internal/interns/{far_room.intern_id}/disk"
    host = read_host(urlsplit(far.root_url).netloc)
    header = SignedRequest(host, "GET", path, b"", 5).sign(time.time())

    answers = [
        requests.get(f"{far.root_url}{path}", headers={"X-Intern-Tunnel": header}, timeout=60)
        for _ in range(2)
    ]

    assert [answer.status_code for answer in answers] == [200, 404]
