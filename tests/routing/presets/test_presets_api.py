"""/presets: made, read and listed, by both kinds of key, in six queries at most."""

import uuid
from typing import Any

import pytest
from django.db import DatabaseError

from accounts.models import ApiKey, AuditRecord, Workspace
from accounts.services.keys import create_key
from accounts.services.records import operator_actor
from accounts.services.workspaces import delete_workspace
from accounts.tasks import clear_deleted_workspaces
from routing.presets.models import NeverChanged, Preset, PresetVersion
from tests.support.management import Manager, manager

pytestmark = [pytest.mark.django_db, pytest.mark.both]
CHAT = "chat/completions"
FORMATS = (CHAT, "responses", "messages")
BODY = {"model": "acme/solo", "temperature": 0.7}


@pytest.fixture
def mine(db: None) -> Manager:
    return manager("mine")


@pytest.fixture
def team(mine: Manager) -> Workspace:
    return mine.workspace("team")


@pytest.fixture
def key(mine: Manager, team: Workspace) -> str:
    return create_key(account=mine.account, name="k", workspace=team, creator=mine.admin)[1]


def make_preset(
    who: Manager, slug: str, *, key: str | None = None, query: str = "", **body: Any
) -> Any:
    status, said = who.call("POST", f"/presets/{slug}/{CHAT}{query}", BODY | body, key=key)
    assert status == 200, said
    return said["data"]


def list_slugs(who: Manager, *, key: str | None = None, query: str = "") -> list[str]:
    status, said = who.call("GET", f"/presets{query}", key=key)
    assert status == 200, said
    assert said["total_count"] >= len(said["data"])
    return [each["slug"] for each in said["data"]]


def test_every_format_makes_one_that_limits_nothing_but_requests(mine: Manager, key: str) -> None:
    for number, path in enumerate(FORMATS, start=1):
        status, said = mine.call("POST", f"/presets/p/{path}", BODY, key=key)
        assert status == 200, said
        assert said["data"]["designated_version"]["version"] == number
        for name in ("rpm", "max_budget", "allowed_models"):
            status, said = mine.call("POST", f"/presets/p/{path}", BODY | {name: 1}, key=key)
            assert (status, said["error"]["code"]) == (400, 400)
            assert f'Unrecognized key: "{name}"; ' in said["error"]["message"]


def test_an_interns_own_key_reads_and_makes_none(mine: Manager, key: str) -> None:
    make_preset(mine, "p", key=key)
    ApiKey.objects.filter(name="k").update(intern_id=uuid.uuid4())

    for path in FORMATS:
        status, said = mine.call("POST", f"/presets/q/{path}", BODY, key=key)
        assert (status, said["error"]["message"]) == (403, "Forbidden")
    assert list_slugs(mine, key=key) == ["p"]


def test_lists_begin_with_what_moved_last(mine: Manager, key: str) -> None:
    for slug in ("a", "b", "c"):
        make_preset(mine, slug, key=key)
    make_preset(mine, "a", key=key)

    assert list_slugs(mine, key=key) == ["a", "c", "b"]
    assert list_slugs(mine, key=key, query="?limit=1&offset=1") == ["c"]
    for query in ("limit=101", "limit=0", "offset=-1"):
        assert mine.call("GET", f"/presets?{query}", key=key)[0] == 400
        assert mine.call("GET", f"/presets/a/versions?{query}", key=key)[0] == 400


def test_a_management_key_sees_every_workspace(mine: Manager, team: Workspace, key: str) -> None:
    make_preset(mine, "of-team", key=key)
    make_preset(mine, "of-default")
    make_preset(mine, "same", key=key)
    named = make_preset(mine, "same", query=f"?workspace_id={team.pk}")

    assert named["designated_version"]["version"] == 2
    assert sorted(list_slugs(mine)) == ["of-default", "of-team", "same"]
    assert sorted(list_slugs(mine, query=f"?workspace_id={team.pk}")) == ["of-team", "same"]
    mine.ok("GET", "/presets/of-default")
    mine.expect_refusal(404, "GET", "/presets/of-team")
    mine.ok("GET", f"/presets/of-team?workspace_id={team.pk}")
    mine.ok("GET", f"/presets/of-team/versions?workspace_id={team.pk}")
    mine.ok("GET", f"/presets/of-team/versions/1?workspace_id={team.pk}")
    mine.expect_refusal(404, "GET", "/presets/of-team/versions")
    assert (
        mine.expect_refusal(400, "GET", "/presets?workspace_id=team")
        == "workspace_id: Invalid UUID"
    )


def test_an_inference_key_has_its_own_workspace_whatever_it_says(mine: Manager, key: str) -> None:
    make_preset(mine, "p", key=key, query="?workspace_id=none-of-these")

    assert list_slugs(mine, key=key, query=f"?workspace_id={uuid.uuid4()}") == ["p"]
    mine.expect_refusal(404, "GET", "/presets/p")


def test_presets_of_others_are_not_found(mine: Manager, key: str) -> None:
    make_preset(mine, "p", key=key)
    make_preset(mine, "d")
    other = manager("other")

    assert list_slugs(other) == []
    workspace = Workspace.objects.get(account=mine.account, slug="team")
    for path in ("", "/versions", "/versions/1"):
        other.expect_refusal(404, "GET", f"/presets/d{path}")
        other.expect_refusal(404, "GET", f"/presets/p{path}?workspace_id={workspace.pk}")
    other.expect_refusal(404, "GET", f"/presets?workspace_id={workspace.pk}")
    other.expect_refusal(404, "POST", f"/presets/p/{CHAT}?workspace_id={workspace.pk}", BODY)
    assert make_preset(other, "p")["designated_version"]["version"] == 1


def test_what_is_no_slug(mine: Manager) -> None:
    for slug in ("a b", "é", "x" * 101, "a:b", "@a", "a%2Bb"):
        message = mine.expect_refusal(400, "POST", f"/presets/{slug}/{CHAT}", BODY)
        assert message == "slug: Invalid string: must match pattern /^[A-Za-z0-9._~-]{1,100}$/"
        for path in ("", "/versions", "/versions/1"):
            mine.expect_refusal(400, "GET", f"/presets/{slug}{path}")
    assert not Preset.objects.exists()


def test_an_archived_preset_takes_no_version_and_a_disabled_one_stays_disabled(
    mine: Manager,
) -> None:
    preset = make_preset(mine, "p")
    Preset.objects.update(status="archived")

    assert mine.expect_refusal(409, "POST", f"/presets/p/{CHAT}", BODY) == "Preset is archived"
    assert PresetVersion.objects.count() == 1
    shown = mine.ok("GET", "/presets/p")["data"]
    assert (shown["status"], shown["id"]) == ("archived", preset["id"])

    Preset.objects.update(status="disabled")
    data = make_preset(mine, "p")
    assert (data["status"], data["designated_version"]["version"]) == ("disabled", 2)


def test_property_order_is_kept(mine: Manager) -> None:
    schema = {"type": "object", "properties": {"zebra": {"type": "string"}, "a": {}}}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}

    data = make_preset(mine, "p", tools=[tool])

    kept = mine.ok("GET", "/presets/p")["data"]["designated_version"]["config"]
    assert kept == data["designated_version"]["config"]
    assert list(kept["tools"][0]["function"]["parameters"]["properties"]) == ["zebra", "a"]


def test_every_version_leaves_a_record(mine: Manager, key: str) -> None:
    first = make_preset(mine, "p", key=key)
    second = make_preset(mine, "p", key=key)

    created, updated = AuditRecord.objects.filter(object_id=first["id"]).order_by("id")

    def version(of: Any, number: int | None) -> Any:
        return {"designated_version_id": of["designated_version_id"], "version": number}

    assert (created.action, created.object_type) == ("created", "preset")
    assert (updated.action, updated.object_type) == ("updated", "preset")
    assert created.management_key == updated.management_key == ApiKey.objects.get(name="k")
    assert created.after is not None
    assert created.after["slug"] == "p"
    assert (updated.before, updated.after) == (version(first, None), version(second, 2))


def test_versions_stay_as_they_were_made(mine: Manager) -> None:
    make_preset(mine, "p")
    version = PresetVersion.objects.get()

    with pytest.raises(NeverChanged):
        version.save()
    with pytest.raises(NeverChanged):
        PresetVersion.objects.update(config="{}")


def test_presets_go_with_their_workspace(mine: Manager, team: Workspace) -> None:
    make_preset(mine, "gone", query=f"?workspace_id={team.pk}")
    make_preset(mine, "gone", query=f"?workspace_id={team.pk}")
    make_preset(mine, "stays")

    delete_workspace(account_id=mine.account.pk, reference="team", by=operator_actor(mine.admin))

    assert list_slugs(mine) == ["stays"]
    mine.expect_refusal(404, "GET", f"/presets/gone?workspace_id={team.pk}")
    assert clear_deleted_workspaces() == 1
    assert [each.slug for each in Preset.objects.all()] == ["stays"]
    assert PresetVersion.objects.count() == 1
    mine.expect_refusal(404, "POST", f"/presets/gone/{CHAT}?workspace_id={team.pk}", BODY)
    assert list_slugs(mine) == ["stays"]


def test_a_silent_database_is_told_as_the_lists_of_statuses_say(
    mine: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_lookup(key_hash: str) -> None:
        raise DatabaseError

    monkeypatch.setattr("accounts.authentication.read_caller", fail_lookup)

    told = {"": 503, "/p": 503, "/p/versions": 500, "/p/versions/1": 500}
    assert {path: mine.call("GET", f"/presets{path}")[0] for path in told} == told
    for path in FORMATS:
        assert mine.call("POST", f"/presets/p/{path}", BODY)[0] == 500


def test_who_made_which_version(mine: Manager, team: Workspace, key: str) -> None:
    other, admin = mine.member("other"), mine.admin.public_id
    make_preset(mine, "p", key=key)
    theirs = create_key(account=mine.account, name="o", workspace=team, creator=other)[1]
    nobodys = create_key(account=mine.account, name="system", workspace=team)[1]

    make_preset(mine, "p", key=theirs)
    # A key without a creator writes the first admin.
    data = make_preset(mine, "p", key=nobodys)

    assert data["creator_user_id"] == data["designated_version"]["creator_id"] == admin
    status, said = mine.call("GET", "/presets/p/versions", key=key)
    assert status == 200
    assert [each["creator_id"] for each in said["data"]] == [admin, other.public_id, admin]


def test_slugs(mine: Manager) -> None:
    for slug in ("aa", "A.b_c~d-9", "x" * 100, "...."):
        assert make_preset(mine, slug)["slug"] == slug
        mine.expect_refusal(404, "GET", f"/presets/{slug[1:]}")
    # Those that differ in case are two.
    assert make_preset(mine, "Mail")["id"] != make_preset(mine, "mail")["id"]
