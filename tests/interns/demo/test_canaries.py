"""S8 with a real agent: what a person keeps secret shows up nowhere but where it belongs, from the
first boot to the archive, whatever goes wrong."""

import json
import os
import re
import signal
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.interns.demo.person import Person, question_of, text_of
from tests.support.bed import Bed
from tests.support.running import SUPERVISOR, Run, put_database

pytestmark = [pytest.mark.timeout(240), pytest.mark.thorough]
SECRET = f"canary-secret-{uuid.uuid4().hex}"
TOLD = f"canary-instructions-{uuid.uuid4().hex}"
WRITTEN = f"canary-note-{uuid.uuid4().hex}"
# Where an intern's own files are, and what they become.
ITS_OWN = ("interns", "archives")
PAGES = (
    *("intern", "workspacearchive", "vault", "vaultsecret"),
    *("interntransition", "interncreation", "chatrun", "chatsession", "chatinteraction"),
)


@pytest.fixture
def run(tmp_path: Path, stores: Bed) -> Iterator[Run]:
    put_database(tmp_path / "home", stores.migrated_file())
    settings = {
        "LOG_LEVEL": "DEBUG",
        "INTERN_FETCH_PRIVATE_HOSTS": "127.0.0.1",
        "INTERN_PROBE_SECONDS": "1",
    }
    run = Run(tmp_path / "home", settings, command=SUPERVISOR)
    yield run
    run.clean_up()


class Story:
    """One intern with canaries: what it told its person, and all that anybody else was shown."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.facts = run.ready()
        self.person = Person(self.facts)
        self.chats: list[str] = []
        self.shown: list[str] = []
        body = {"name": "keeper", "instructions": TOLD}
        made = self.person.call("POST", "/interns", body, expect=201)
        self.intern: str = made["id"]
        secret = {"value": SECRET, "hosts": ["127.0.0.1"]}
        path = f"/vault/interns/{self.intern}/secrets/door_key"
        self.shown.append(json.dumps(self.person.call("PUT", path, secret)))
        self.provision()

    def provision(self, status: str = "running") -> None:
        self.person.call("POST", f"/interns/{self.intern}/provision", expect=202)
        self.person.await_status(self.intern, status)

    def take_a_note(self) -> None:
        """The scripted model writes it into a file."""
        asked = {"role": "user", "content": f"Take a note: {WRITTEN}"}
        question = question_of(self.person.chat(self.intern, asked, session_id="s"))
        answer = json.dumps({"action": "accept", "content": {"title": "Secret"}})
        reply = {"role": "tool", "tool_call_id": question["id"], "content": answer}
        said = text_of(self.person.chat(self.intern, asked, reply, session_id="s"))
        assert "Secret" in said

    def says(self, *steps: Any) -> str:
        """What comes of a turn in which the model does these things."""
        simulator = self.facts["simulator_url"]
        requests.put(f"{simulator}/_script/swift", json={"steps": list(steps)}, timeout=5)
        chunks = self.person.chat(self.intern, {"role": "user", "content": "Go on"})
        self.chats.append(json.dumps(chunks))
        return text_of(chunks)

    def let_things_go_wrong(self) -> None:
        simulator = self.facts["simulator_url"]
        # One provider alone answers, so that it can be told what to say.
        requests.put(f"{simulator}/_persona/steady", json={"error_rate": 1}, timeout=5)
        headers = {"X-Key": "{{secret:door_key}}"}
        for url in (f"{simulator}/site/v1/models", "http://10.0.0.1/", "http://127.0.0.1:1/"):
            assert self.says(
                call("fetch_url", url=f"{url}?k={{{{secret:door_key}}}}", headers=headers),
                {"text": "Fetched."},
            )
        self.says(call("run_shell", command="env; cat notes.md >&2; exit 3"), {"text": "Ran."})
        self.says(call("read_file", path="../../nowhere"), call("nothing"), {"text": "Lost."})
        self.says(*[{"status": 400, "body": "{}"}] * 4)

    def went_out(self) -> bool:
        seen = requests.get(f"{self.facts['simulator_url']}/_log", timeout=5).json()["requests"]
        return any(each["headers"].get("x-key") == SECRET for each in seen)

    def lose_the_runtime(self) -> None:
        """It is killed, and its key is refused at the next boot."""
        for pid in self.run.children("interns.runtime.keeper"):
            os.killpg(os.getpgid(pid), signal.SIGKILL)
        self.person.await_status(self.intern, "failed")

    def operator_looks(self) -> None:
        """Every page about interns."""
        browser = requests.Session()
        login = f"{self.facts['admin_url']}login/"
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.get(login).text)
        assert token
        said = {"username": self.facts["admin_user"], "password": self.facts["admin_password"]}
        headers = {"Referer": login}
        browser.post(login, {**said, "csrfmiddlewaretoken": token[1]}, headers=headers)
        for page in PAGES:
            url = f"{self.facts['admin_url']}interns/{page}/"
            answer = browser.get(url)
            assert answer.status_code == 200, url
            self.shown.append(answer.text)
            rows = re.findall(rf'href="(/admin/interns/{page}/[^"/]+/change/)', answer.text)
            for path in set(rows):
                shown = browser.get(self.facts["root_url"] + path)
                assert shown.status_code == 200, path
                # The form of its instructions is where an operator may read them.
                self.shown.append(shown.text.replace(TOLD, ""))

    def tell_all(self) -> None:
        for path in (f"/interns/{self.intern}", "/interns", "/keys", "/generations"):
            url = self.facts["base_url"] + path
            for key in ("api_key", "management_key"):
                headers = {"Authorization": f"Bearer {self.facts[key]}"}
                answer = requests.get(url, headers=headers, timeout=10)
                self.shown.append(f"{answer.headers}{answer.text}".replace(TOLD, ""))
        tail = f"/vault/interns/{self.intern}/effective-secrets"
        self.shown.append(json.dumps(self.person.call("GET", tail)))


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def files_with(home: Path, canary: str) -> list[str]:
    """The files of a home that have it, by their first folder."""
    found = set()
    for file in home.rglob("*"):
        if file.is_file() and canary.encode() in file.read_bytes():
            found.add(file.relative_to(home).parts[0])
    return sorted(found)


def packed(home: Path) -> bytes:
    """Everything in the archives."""
    content = b""
    for file in (home / "archives").rglob("*.tar*"):
        with tarfile.open(file) as archive:
            for entry in archive:
                inside = archive.extractfile(entry) if entry.isreg() else None
                content += entry.name.encode() + (inside.read() if inside else b"")
    return content


def test_s8_no_canary_of_a_real_agent_s_shows_up(run: Run) -> None:
    story = Story(run)
    story.take_a_note()
    story.let_things_go_wrong()
    assert story.went_out()
    log = (run.home / "interns" / story.intern / "agent.log").read_text()
    assert "is ready" in log
    assert not {canary for canary in (SECRET, TOLD, WRITTEN) if canary in log}
    story.lose_the_runtime()
    story.provision()
    story.operator_looks()
    story.tell_all()

    shown = "".join((run.stdout, run.stderr, *story.shown))
    assert not {canary for canary in (SECRET, TOLD, WRITTEN) if canary in shown}
    assert SECRET not in "".join(story.chats)
    assert files_with(run.home, SECRET) == []
    assert set(files_with(run.home, WRITTEN)) <= {"interns"}

    story.person.call("DELETE", f"/interns/{story.intern}", expect=202)
    story.person.await_gone(story.intern)
    assert WRITTEN.encode() in packed(run.home)
    assert SECRET.encode() not in packed(run.home)
    assert files_with(run.home, SECRET) == []
    assert set(files_with(run.home, WRITTEN)) <= set(ITS_OWN)
