"""Conversations with the real agent, whose model is the simulated upstream behind this gateway."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from accounts.models import Account, ApiKey
from accounts.services.keys import create_key
from interns.chat.ending import end_runs
from interns.models import Intern
from interns.runtime.driver import BootPlan
from interns.runtime.process import ProcessDriver
from routing.simulator.testing import SimulatedUpstream
from tests.interns.chat import room
from tests.interns.chat.room import answering, events_of, finish_of, refusal_of, text_of, user
from tests.support.bed import PROJECT, Bed
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.processes import eventually
from tests.support.server import GatewayServer

pytestmark = [pytest.mark.timeout(120), pytest.mark.thorough]
DEMO = PROJECT / "routing" / "catalogue" / "demo.yaml"
TITLE = json.dumps({"action": "accept", "content": {"title": "Shopping"}})


@dataclass
class Talk:
    """A conversation with one running intern."""

    server: GatewayServer
    account: SeededAccount
    intern: Intern
    driver: ProcessDriver
    orm: room.Orm

    def post(self, messages: Any, **more: Any) -> requests.Response:
        return self.server.post(
            f"/api/v1/interns/{self.intern.pk}/chat/completions",
            key=self.account.api_key,
            json={"stream": True, "messages": messages, "session_id": "s", **more},
            stream=True,
        )

    def say(self, text: str, **more: Any) -> list[Any]:
        return _quiet(self.post(user(text), **more))

    def answer(self, call: Any, answer: str) -> list[Any]:
        return _quiet(self.post(answering(call["id"], answer)))

    def page(self) -> Any:
        headers = {"Host": str(self.intern.hostname)}
        return self.server.get("/", key=self.account.api_key, headers=headers).json()

    def ends(self) -> list[str]:
        with self.orm(self.server):
            runs = self.intern.runs.order_by("started_at")
            return [run.ended_because or run.state for run in runs]


def _quiet(response: requests.Response) -> list[Any]:
    assert response.status_code == 200, response.text
    return [event for event in events_of(response) if not str(event).startswith(":")]


def call_of(chunks: list[Any]) -> tuple[Any, Any]:
    """The tool call that a stream paused with, and its question."""
    assert finish_of(chunks) == "tool_calls"
    call = chunks[-4]["choices"][0]["delta"]["tool_calls"][0]
    return call, json.loads(call["function"]["arguments"])


@pytest.fixture(scope="module")
def demo_gateway(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[GatewayServer]:
    folder = tmp_path_factory.mktemp("real")
    catalogue = folder / "demo.yaml"
    text = DEMO.read_text(encoding="utf-8").replace("{simulator_url}", simulator.url)
    catalogue.write_text(text, encoding="utf-8")
    with StartGateway(stores, folder) as starter:
        server = starter.build(INTERN_RUNTIME="process")
        server.manage("load_catalogue", str(catalogue))
        server.start()
        yield server


@pytest.fixture
def talk(demo_gateway: GatewayServer, orm_of: room.Orm, settings: Any) -> Iterator[Talk]:
    server, driver = demo_gateway, ProcessDriver()
    settings.GATEWAY_HOME = Path(server.env["GATEWAY_HOME"])
    account = seed_account(server)
    with orm_of(server):
        intern = room.make_intern(account, name="helper")
        owner = Account.objects.get(pk=account.account_id)
        workspace = owner.workspaces.get(pk=account.workspace_id)
        key, string = create_key(account=owner, name="intern", workspace=workspace)
        ApiKey.objects.filter(pk=key.pk).update(intern_id=intern.pk)
    plan = BootPlan(
        intern_id=intern.pk,
        boot_id=uuid.uuid4(),
        name=intern.name,
        hostname=str(intern.hostname),
        instructions="Help.",
        model="simulated/intern",
        api_key=string,
        gateway_url=server.base_url,
    )
    driver.start(plan)

    def is_well() -> bool:
        return driver.health(intern.pk, boot_id=plan.boot_id).ok

    try:
        eventually(is_well, within_s=60, what="health", log=None)
        yield Talk(server, account, intern, driver, orm_of)
    finally:
        driver.destroy(intern.pk)


def test_a_prompt_a_permission_a_question_and_the_end(talk: Talk) -> None:
    assert talk.page()["name"] == "helper"

    call, asked = call_of(talk.say("Take a note: buy milk", approval_mode="manual"))
    assert asked["kind"] == "permission"
    assert "allow_once" in asked["options"]
    assert talk.page()["status"] == "busy"

    assert refusal_of(talk.post(answering(call["id"], "yes")))[:2] == (400, "bad_request")
    call, asked = call_of(talk.answer(call, "allow_once"))
    assert asked["kind"] == "elicitation"
    assert [field["name"] for field in asked["fields"]] == ["title"]

    chunks = talk.answer(call, TITLE)
    assert finish_of(chunks) == "stop"
    assert "Shopping" in text_of(chunks)
    assert chunks[-2]["model"] == "simulated/intern"
    usage = chunks[-2]["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0
    assert usage["cost"] > 0
    assert "buy milk" in text_of(talk.say("Please read notes.md"))
    assert talk.ends() == ["completed", "completed"]


def test_what_is_rejected_is_not_done_and_text_for_a_turn_that_waits_is_heard(talk: Talk) -> None:
    call, _ = call_of(talk.say("Take a note: buy milk", approval_mode="manual"))
    steered = talk.post(user("And eggs"))
    busy = talk.post(user("Hi"), session_id="other")
    assert (steered.status_code, steered.json()["status"]) == (202, "steered")
    assert refusal_of(busy) == (409, "busy", True)

    chunks = talk.answer(call, "reject_once")
    while finish_of(chunks) == "tool_calls":
        chunks = talk.answer(call_of(chunks)[0], TITLE)
    assert finish_of(chunks) == "stop"
    assert "buy milk" not in text_of(talk.say("Please read notes.md"))


def test_a_turn_whose_caller_left_or_was_ended_leaves_the_intern_free(talk: Talk) -> None:
    talk.post(user("Take a note: one")).close()
    talk.server.wait_until(lambda: talk.ends() == ["client_closed_request"])

    call, _ = call_of(talk.say("Take a note: two"))
    with talk.orm(talk.server):
        assert end_runs(talk.intern.pk, driver=talk.driver) == 1
    assert refusal_of(talk.post(answering(call["id"], TITLE))) == (410, "run_ended", False)

    call, _ = call_of(talk.say("Take a note: three"))
    assert finish_of(talk.answer(call, TITLE)) == "stop"
    assert talk.ends() == ["client_closed_request", "run_ended", "completed"]
