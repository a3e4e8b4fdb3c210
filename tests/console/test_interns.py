"""Interns in the console: who sees which, who may do what to them, and what is never shown."""

from datetime import UTC, datetime, timedelta

import pytest
from django.forms import CharField
from django.urls import reverse

from accounts.admin.fields import ModelField
from interns.models import ChatInteraction, ChatRun, ChatSession, Intern, InternTransition, Status
from interns.runtime.process import ProcessDriver
from interns.vault.service import put_managed
from tests.console.people import ROLES, Team, make_team
from tests.console.things import make_intern

pytestmark = [pytest.mark.django_db, pytest.mark.both]
SEES = {
    "member": {"own", "led", "default"},
    "viewer": {"default"},
    "billing": {"default"},
    "lead": {"own", "led", "default"},
    "admin": {"own", "led", "default", "far"},
}
SEES["owner"] = SEES["operator"] = SEES["admin"]
EDITS = {"member": {"own"}, "viewer": set(), "billing": set(), "lead": {"own", "led"}}
EDITS["admin"] = EDITS["owner"] = EDITS["operator"] = SEES["admin"]
# On the board, of the view that they begin with.
BOARDS = {**SEES, "member": {"own"}, "viewer": set(), "lead": {"own", "led"}}


@pytest.fixture
def interns(team: Team) -> dict[str, Intern]:
    """The member's own and the admin's in the lead's workspace, and the admin's where everybody is
    and where nobody else is."""
    led = team.led
    default = team.account.workspaces.get(is_default=True)
    far = team.account.workspaces.create(name="Far", slug="far")
    member, admin = team.people["member"], team.people["admin"]
    return {
        "own": make_intern(led, member, "helper-own"),
        "led": make_intern(led, admin, "helper-led"),
        "default": make_intern(default, admin, "helper-default"),
        "far": make_intern(far, admin, "helper-far"),
    }


def test_interns_are_there_for_who_may_see_them_alone(
    team: Team, interns: dict[str, Intern]
) -> None:
    theirs = make_team("theirs")
    workspace = theirs.account.workspaces.get(is_default=True)
    strange = make_intern(workspace, theirs.people["admin"], "helper-theirs")
    for role in ROLES:
        client = team.client(role)
        account = {"account": str(team.account.pk)} if role == "operator" else {}
        board = client.get(reverse("console:interns"), account).text
        assert {name for name in interns if f"helper-{name}" in board} == BOARDS[role]

        for name, intern in {**interns, "theirs": strange}.items():
            sees = name in SEES[role] or role == "operator"
            edits = name in EDITS[role] or role == "operator"
            page = client.get(reverse("console:intern", args=[intern.pk]))
            assert (name, page.status_code) == (name, 200 if sees else 404)
            assert (name, "Type its name to confirm" in page.text) == (name, edits)
            # It is suspended.
            assert (name, f"Resume helper-{name}" in page.text) == (name, edits)
            operate = reverse("console:operate_intern", args=[intern.pk])
            answer = client.post(operate, {"operation": "delete", "name": "another"})
            assert (name, answer.status_code) == (name, 302 if edits else 404)
        assert set(Intern.objects.values_list("status", flat=True)) == {Status.STOPPED}
        assert not InternTransition.objects.exists()


def test_a_pending_question_is_shown_and_secrets_by_name_alone(
    team: Team, interns: dict[str, Intern]
) -> None:
    now, intern = datetime.now(UTC), interns["own"]
    Intern.objects.filter(pk=intern.pk).update(status=Status.RUNNING, hostname="calm-otter")
    session = ChatSession.objects.create(intern=intern, session_id="notes", created_at=now)
    run = ChatRun.objects.create(
        intern=intern,
        session=session,
        by=team.people["member"],
        state=ChatRun.State.WAITING,
        started_at=now,
    )
    ChatInteraction.objects.create(
        run=run,
        tool_call_id="call-7",
        kind="permission",
        arguments={"kind": "permission", "operation": "write notes.md", "options": ["allow_once"]},
        asked_at=now,
        deadline_at=now + timedelta(hours=1),
    )
    put_managed(intern.pk, "router_api_key", "canary-of-a-secret", ["127.0.0.1"])

    page = team.client("lead").get(reverse("console:intern", args=[intern.pk])).text

    for words in ("call-7", "write notes.md", "Waits for an answer from acme-member", "calm-otter"):
        assert words in page
    assert "canary-of-a-secret" not in page
    # Who belongs to no account has no key to answer with.
    watched = team.client("operator").get(reverse("console:intern", args=[intern.pk])).text
    assert ("Waits for an answer" in watched, "write notes.md" in watched) == (True, False)
    live = team.client("lead").get(reverse("console:intern", args=[intern.pk]), {"part": "now"})
    assert ("its question waits" in live.text, "<nav" in live.text) == (True, False)


def test_conversations_are_open_to_who_may_talk_to_the_intern_as_in_the_api(
    team: Team, interns: dict[str, Intern], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, intern = datetime.now(UTC), interns["own"]
    Intern.objects.filter(pk=intern.pk).update(status=Status.RUNNING)
    for name, *roles in (("first", "member"), ("last", "lead", "member"), ("hers", "lead")):
        session = ChatSession.objects.create(intern=intern, session_id=name, created_at=now)
        for role in roles:
            intern.runs.create(
                session=session,
                by=team.people[role],
                state=ChatRun.State.COMPLETED,
                started_at=now,
                ended_at=now,
            )
            now += timedelta(seconds=1)

    def tell(driver: object, intern_id: object, session_id: str) -> list[dict[str, object]]:
        return [{"role": "user", "text": f"said in {session_id}", "tools": ["run_shell"]}]

    monkeypatch.setattr(ProcessDriver, "read_conversation", tell)
    client, path = team.client("member"), reverse("console:intern", args=[intern.pk])

    def check() -> None:
        # Nobody comes to another's conversation who has not chosen it.
        found = client.get(path).text
        assert ("said in last" in found, "used run_shell" in found) == (True, True)
        assert '"session": "last", "intern"' in found
        for name in ("first", "last", "hers"):
            assert f"?session={name}#talk" in found
            assert f"said in {name}" in client.get(path, {"session": name}).text
        assert "said in" not in client.get(path, {"session": ""}).text
        assert client.get(path, {"session": "nobody's"}).status_code == 404

    check()
    # Nor by a question of somebody else, though anybody may answer it.
    hers = ChatSession.objects.get(session_id="hers")
    run = intern.runs.create(
        session=hers, by=team.people["lead"], state=ChatRun.State.WAITING, started_at=now
    )
    run.interactions.create(
        tool_call_id="call-7",
        kind="permission",
        arguments={"kind": "permission", "operation": "write notes.md", "options": ["allow_once"]},
        asked_at=now,
        deadline_at=now + timedelta(hours=1),
    )
    check()
    assert '"session": "hers", "asked"' in client.get(path).text
    # Who has no key to ask it with reads nothing.
    assert "said in" not in team.client("operator").get(path, {"session": "last"}).text


def test_an_account_without_interns_makes_none(team: Team, interns: dict[str, Intern]) -> None:
    team.account.intern_writes_enabled = False
    team.account.save(update_fields=["intern_writes_enabled"])
    client, intern = team.client("admin"), interns["led"]

    assert client.get(reverse("console:new_intern")).status_code == 404
    assert "Resume" not in client.get(reverse("console:intern", args=[intern.pk])).text
    operate = reverse("console:operate_intern", args=[intern.pk])
    assert client.post(operate, {"operation": "provision"}).status_code == 404


def test_what_no_intern_can_live_with_is_said_at_its_field(team: Team) -> None:
    """Its name, and that neither it nor its workspace has a model."""
    led = team.led
    fields = {"name": "No Name", "workspace": str(led.pk)}

    answer = team.client("member").post(reverse("console:new_intern"), fields)

    assert (answer.status_code, answer.text.count('class="error" role="alert"')) == (400, 2)
    assert "Led has no default model" in answer.text
    assert not Intern.objects.exists()


def test_an_intern_is_told_what_it_is_for_and_whom_to_ask(
    team: Team, interns: dict[str, Intern], monkeypatch: pytest.MonkeyPatch
) -> None:
    # There is no catalogue here that would know the model.
    monkeypatch.setattr(ModelField, "clean", CharField.clean)
    client, intern = team.client("member"), interns["own"]
    path = reverse("console:change_intern", args=[intern.pk])
    fields = {"description": "notes", "model": "acme/one", "instructions": ""}

    assert client.post(path, fields | {"description": "x" * 3_000}).status_code == 400
    assert client.post(path, fields)["Location"] == reverse("console:intern", args=[intern.pk])

    intern.refresh_from_db()
    assert (intern.description, intern.model, intern.instructions) == ("notes", "acme/one", None)
