"""A person's run of interns with no provider account, from the first boot to the archive. And S8:
what that person keeps secret shows up nowhere but where it belongs, whatever goes wrong."""

import json
import os
import re
import signal
import tarfile
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.interns import podman
from tests.interns.chat.room import text_of
from tests.interns.demo.person import Person, question_of
from tests.support.bed import Bed
from tests.support.promptness import in_time
from tests.support.running import SUPERVISOR, Run, processes_with, put_database

pytestmark = [pytest.mark.timeout(240), pytest.mark.thorough]
ONE_S_MAX, TEN_S_MAX = 3.0, 15.0
SECRET = f"canary-secret-{uuid.uuid4().hex}"
TOLD = f"canary-instructions-{uuid.uuid4().hex}"
TITLE = json.dumps({"action": "accept", "content": {"title": "Shopping"}})
WRITTEN = f"canary-note-{uuid.uuid4().hex}"
SETTINGS = {
    "LOG_LEVEL": "DEBUG",
    "INTERNS_MAX_PER_MEMBER": "20",
    "INTERN_FETCH_PRIVATE_HOSTS": "127.0.0.1",
    "INTERN_PROBE_SECONDS": "1",
}
PAGES = (
    *("intern", "workspacearchive", "vault", "vaultsecret"),
    *("interntransition", "interncreation", "chatrun", "chatsession", "chatinteraction"),
)


@pytest.fixture
def run(tmp_path: Path, stores: Bed) -> Iterator[Run]:
    put_database(tmp_path / "home", stores.migrated_file())
    run = Run(tmp_path / "home", SETTINGS, command=SUPERVISOR)
    yield run
    run.clean_up()


@pytest.fixture
def contained_run(tmp_path: Path) -> Iterator[Run]:
    """Its interns are in containers: the image's own agent, behind the whole gateway."""
    engine = podman.Podman(Path(tempfile.mkdtemp(prefix="p")))
    try:
        engine.start()
        engine.load_base()
        contained = {
            "INTERN_RUNTIME": "container",
            "INTERN_CONTAINER_HOST": engine.url,
            "INTERN_CONTAINER_BASE": podman.BASE,
        }
        run = Run(tmp_path / "home", SETTINGS | contained, command=SUPERVISOR)
        yield run
        run.clean_up()
    finally:
        engine.stop()


class Story:
    """One intern with canaries: what it told its person, and all that anybody else was shown."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.facts = run.ready()
        self.simulator: str = self.facts["simulator_url"]
        self.person = Person(self.facts)
        self.chats: list[str] = []
        self.shown: list[str] = []
        body = {"name": "helper", "instructions": TOLD}
        self.intern: str = self.person.call("POST", "/interns", body, expect=201)["id"]
        secret = {"value": SECRET, "hosts": ["127.0.0.1"]}
        path = f"/vault/interns/{self.intern}/secrets/door_key"
        self.shown.append(json.dumps(self.person.call("PUT", path, secret)))

    def provision(self) -> Any:
        self.person.call("POST", f"/interns/{self.intern}/provision", expect=202)
        return self.person.await_status(self.intern, "running")

    def take_a_note(self) -> None:
        """The scripted model writes it into a file, for which it needs a permission, and asks one
        question."""
        asked = {"role": "user", "content": f"Take a note: {WRITTEN}"}
        chunks = self.person.chat(self.intern, asked, approval_mode="manual", session_id="notes")
        for kind, answer in (("permission", "allow_once"), ("elicitation", TITLE)):
            question = question_of(chunks)
            assert question["function"]["name"] == "router.provide_input"
            assert json.loads(question["function"]["arguments"])["kind"] == kind
            echoed = {"role": "assistant", "content": None, "tool_calls": [question]}
            reply = {"role": "tool", "tool_call_id": question["id"], "content": answer}
            chunks = self.person.chat(self.intern, asked, echoed, reply, session_id="notes")
        assert "Shopping" in text_of(chunks)
        usage = chunks[-1]["usage"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0
        assert usage["cost"] > 0

    def rest(self, hostname: str) -> None:
        """Suspended and resumed, its file is still there."""
        assert self.person.call("POST", f"/interns/{self.intern}/suspend") == {"suspended": True}
        assert self.person.await_status(self.intern, "stopped")["hostname"] == hostname
        self.provision()
        look = {"role": "user", "content": "Please read notes.md"}
        assert WRITTEN in text_of(self.person.chat(self.intern, look))

    def says(self, *steps: Any) -> str:
        """What comes of a turn in which the model does these things."""
        requests.put(f"{self.simulator}/_script/swift", json={"steps": list(steps)}, timeout=5)
        chunks = self.person.chat(self.intern, {"role": "user", "content": "Go on"})
        self.chats.append(json.dumps(chunks))
        return text_of(chunks)

    def fetch_with_a_secret(self) -> None:
        """Through the guarded door, which alone knows the value."""
        # One provider alone answers, so that it can be told what to say.
        requests.put(f"{self.simulator}/_persona/steady", json={"error_rate": 1}, timeout=5)
        headers = {"X-Key": "{{secret:door_key}}"}
        key = "k={{secret:door_key}}"
        for site in (f"{self.simulator}/site/v1/models", "http://10.0.0.1/", "http://127.0.0.1:1/"):
            fetch = call("fetch_url", url=f"{site}?{key}", headers=headers)
            assert self.says(fetch, {"text": "Fetched."}) == "Fetched."
        seen = requests.get(f"{self.simulator}/_log", timeout=5).json()["requests"]
        (site,) = [each for each in seen if each["persona"] == "site"]
        assert site["headers"]["x-key"] == SECRET
        asked = [json.dumps(each["body"]) for each in seen if each["persona"] == "swift"]
        assert SECRET not in "".join(asked)
        assert "sim/" in "".join(asked)

    def let_things_go_wrong(self) -> None:
        """In the end it is killed, and boots again."""
        self.says(call("run_shell", command="env; cat notes.md >&2; exit 3"), {"text": "Ran."})
        self.says(call("read_file", path="../../nowhere"), call("nothing"), {"text": "Lost."})
        self.says(*[{"status": 400, "body": "{}"}] * 4)
        for pid in self.run.children("interns.runtime.supervisor"):
            os.killpg(os.getpgid(pid), signal.SIGKILL)
        self.person.await_status(self.intern, "failed")
        self.provision()

    def show_every_page(self) -> None:
        """All about interns that an operator sees."""
        browser = requests.Session()
        login = f"{self.facts['admin_url']}login/"
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.get(login).text)
        assert token
        said = {"username": self.facts["admin_user"], "password": self.facts["admin_password"]}
        headers = {"Referer": login}
        browser.post(login, {**said, "csrfmiddlewaretoken": token[1]}, headers=headers)
        for page in PAGES:
            answer = browser.get(f"{self.facts['admin_url']}interns/{page}/")
            assert answer.status_code == 200, page
            self.shown.append(answer.text)
            rows = re.findall(rf'href="(/admin/interns/{page}/[^"/]+/change/)', answer.text)
            for path in set(rows):
                shown = browser.get(self.facts["root_url"] + path)
                assert shown.status_code == 200, path
                # The form of its instructions is where an operator may read them.
                self.shown.append(shown.text.replace(TOLD, ""))

    def show_every_answer(self) -> None:
        for path in (f"/interns/{self.intern}", "/interns", "/keys", "/generations"):
            for key in ("api_key", "management_key"):
                headers = {"Authorization": f"Bearer {self.facts[key]}"}
                answer = requests.get(self.facts["base_url"] + path, headers=headers, timeout=10)
                self.shown.append(f"{answer.headers}{answer.text}".replace(TOLD, ""))
        tail = f"/vault/interns/{self.intern}/effective-secrets"
        self.shown.append(json.dumps(self.person.call("GET", tail)))

    def end(self) -> None:
        self.person.call("DELETE", f"/interns/{self.intern}", expect=202)
        self.person.await_gone(self.intern)
        assert WRITTEN.encode() in read_archives(self.run.home)
        assert SECRET.encode() not in read_archives(self.run.home)
        assert not any((self.run.home / "interns").glob("*"))
        left = processes_with(self.run.home).values()
        assert not [line for line in left if "interns.runtime.supervisor" in line]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def canaries_in(text: str) -> list[str]:
    return [canary for canary in (SECRET, TOLD, WRITTEN) if canary in text]


def folders_with(home: Path, canary: str) -> set[str]:
    """The folders of a home with a file that has it."""
    files = [file for file in home.rglob("*") if file.is_file()]
    found = [file for file in files if canary.encode() in file.read_bytes()]
    return {file.relative_to(home).parts[0] for file in found}


def read_archives(home: Path) -> bytes:
    """Everything in the archives."""
    content = b""
    for file in (home / "archives").rglob("*.tar*"):
        with tarfile.open(file) as archive:
            for entry in archive:
                inside = archive.extractfile(entry) if entry.isreg() else None
                content += entry.name.encode() + (inside.read() if inside else b"")
    return content


def test_s8_the_demo_from_the_first_boot_to_ctrl_c(run: Run) -> None:
    story = Story(run)
    running = story.provision()
    assert running["hostname"] == "helper.interns.localhost"
    story.take_a_note()
    story.rest(running["hostname"])
    story.fetch_with_a_secret()
    story.let_things_go_wrong()

    log = (run.home / "interns" / story.intern / "agent.log").read_text()
    assert "is ready" in log
    story.show_every_page()
    story.show_every_answer()
    assert canaries_in("".join((log, run.stdout, run.stderr, *story.shown))) == []
    assert SECRET not in "".join(story.chats)
    assert folders_with(run.home, SECRET) == set()
    assert folders_with(run.home, WRITTEN) <= {"interns"}
    story.end()
    assert folders_with(run.home, SECRET) == set()
    assert folders_with(run.home, WRITTEN) <= {"archives"}

    # Ctrl-C suspends them all and leaves no process.
    story.person.boot("one", "two")
    assert len(run.children("interns.runtime.supervisor")) == 2
    run.stop()
    assert processes_with(run.home) == {}
    again = Run(run.home, {}, command=SUPERVISOR)
    try:
        listed = Person(again.ready()).call("GET", "/interns")["data"]
        assert [intern["status"] for intern in listed] == ["stopped", "stopped"]
    finally:
        again.clean_up()


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.skipif(bool(podman.why_not()), reason=f"no engine: {podman.why_not()}")
def test_the_demo_in_a_container(contained_run: Run) -> None:
    story = Story(contained_run)
    running = story.provision()
    story.take_a_note()
    story.rest(running["hostname"])
    story.fetch_with_a_secret()
    story.end()


@pytest.mark.timed
def test_interns_are_up_in_time(run: Run) -> None:
    person = Person(run.ready())
    # The first one also finds out whether the sandbox works, and compiles what it loads.
    person.boot("first")
    one_s = min(person.boot(f"single-{n}") for n in range(3))
    ten_s = person.boot(*(f"many-{n}" for n in range(10)))
    in_time(one_s, ONE_S_MAX, (one_s, ten_s))
    in_time(ten_s, TEN_S_MAX, (one_s, ten_s))
