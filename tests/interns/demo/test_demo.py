"""A person's run of interns with no provider account: from `make run` to the archive."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.interns.demo.person import Person, question_of, text_of
from tests.support.promptness import in_time
from tests.support.running import SUPERVISOR, Run, processes_with

pytestmark = [pytest.mark.timeout(240), pytest.mark.thorough]
ONE_S_MAX, TEN_S_MAX = 3.0, 15.0


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    settings = {"INTERNS_MAX_PER_MEMBER": "20", "INTERN_FETCH_PRIVATE_HOSTS": "127.0.0.1"}
    run = Run(tmp_path / "home", settings, command=SUPERVISOR)
    yield run
    run.clean_up()


def test_the_demo_from_the_first_boot_to_the_archive(run: Run) -> None:
    facts = run.ready()
    person = Person(facts)
    made = person.call("POST", "/interns", {"name": "helper"}, expect=201)
    intern_id = made["id"]
    person.call("POST", f"/interns/{intern_id}/provision", expect=202)
    running = person.await_status(intern_id, "running")
    assert running["hostname"] == "helper.interns.localhost"

    # The scripted model writes a file and asks one question.
    asked = {"role": "user", "content": "Take a note: buy milk"}
    chunks = person.chat(intern_id, asked, session_id="notes")
    question = question_of(chunks)
    assert question["function"]["name"] == "router.provide_input"
    assert json.loads(question["function"]["arguments"])["kind"] == "elicitation"
    answer = json.dumps({"action": "accept", "content": {"title": "Shopping"}})
    reply = {"role": "tool", "tool_call_id": question["id"], "content": answer}
    echoed = {"role": "assistant", "content": None, "tool_calls": [question]}
    chunks = person.chat(intern_id, asked, echoed, reply, session_id="notes")
    assert "Shopping" in text_of(chunks)
    assert chunks[-1]["usage"]["total_tokens"] > 0
    assert chunks[-1]["usage"]["cost"] > 0

    # Suspended and resumed, its file is still there.
    assert person.call("POST", f"/interns/{intern_id}/suspend") == {"suspended": True}
    assert person.await_status(intern_id, "stopped")["hostname"] == running["hostname"]
    person.call("POST", f"/interns/{intern_id}/provision", expect=202)
    person.await_status(intern_id, "running")
    look = {"role": "user", "content": "Please read notes.md"}
    assert "buy milk" in text_of(person.chat(intern_id, look))

    fetch_with_a_secret(person, intern_id, facts["simulator_url"])

    person.call("DELETE", f"/interns/{intern_id}", expect=202)
    person.await_gone(intern_id)
    assert list((run.home / "archives").rglob("*.tar*"))
    assert not any((run.home / "interns").glob("*"))
    left = processes_with(run.home).values()
    assert not [line for line in left if "interns.runtime.keeper" in line]


def fetch_with_a_secret(person: Person, intern_id: str, simulator_url: str) -> None:
    """Through the guarded door, which alone knows the value."""
    secret = {"value": "sesame-7", "hosts": ["127.0.0.1"]}
    person.call("PUT", f"/vault/interns/{intern_id}/secrets/door_key", secret)
    url, headers = f"{simulator_url}/site/v1/models", {"X-Key": "{{secret:door_key}}"}
    fetch = {"name": "fetch_url", "arguments": {"url": url, "headers": headers}}
    # One provider alone answers, so that it can be told what to say.
    requests.put(f"{simulator_url}/_persona/steady", json={"error_rate": 1}, timeout=5)
    steps = {"steps": [{"tool_calls": [fetch]}, {"text": "Fetched."}]}
    requests.put(f"{simulator_url}/_script/swift", json=steps, timeout=5)
    said = person.chat(intern_id, {"role": "user", "content": "Fetch it"})
    assert text_of(said) == "Fetched."
    seen = requests.get(f"{simulator_url}/_log", timeout=5).json()["requests"]
    (site,) = [each for each in seen if each["persona"] == "site"]
    assert site["headers"]["x-key"] == "sesame-7"
    asked = [each["body"] for each in seen if each["persona"] == "swift"][-1]
    assert "sesame-7" not in json.dumps(asked)
    assert "sim/" in asked["messages"][-1]["content"]


def test_ctrl_c_suspends_them_all_and_leaves_no_process(run: Run) -> None:
    person = Person(run.ready())
    person.boot("one", "two")
    assert len(run.children("interns.runtime.keeper")) == 2
    run.stop()
    assert processes_with(run.home) == {}
    again = Run(run.home, {}, command=SUPERVISOR)
    try:
        listed = Person(again.ready()).call("GET", "/interns")["data"]
        assert {intern["status"] for intern in listed} == {"stopped"}
    finally:
        again.clean_up()


@pytest.mark.timed
def test_interns_are_up_in_time(run: Run) -> None:
    person = Person(run.ready())
    # The first one also finds out whether the sandbox works, and compiles what it loads.
    person.boot("first")
    one_s = min(person.boot(f"single-{n}") for n in range(3))
    ten_s = person.boot(*(f"many-{n}" for n in range(10)))
    in_time(one_s, ONE_S_MAX, (one_s, ten_s))
    in_time(ten_s, TEN_S_MAX, (one_s, ten_s))
