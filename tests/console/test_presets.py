"""Presets in the console: who sees which, what differs between versions, which is in force."""

import pytest
from django.urls import reverse

from accounts.models import AuditRecord
from routing.presets.models import Preset
from tests.console.people import ROLES, Team, ask, make_team
from tests.console.things import save_preset

pytestmark = [pytest.mark.django_db, pytest.mark.both]
MAY_SEE = {
    "member": {"led", "default"},
    "viewer": {"default"},
    "billing": {"default"},
    "lead": {"led", "default"},
    "admin": {"led", "default", "far"},
}
MAY_SEE["owner"] = MAY_SEE["operator"] = MAY_SEE["admin"]


@pytest.fixture
def presets(team: Team) -> dict[str, Preset]:
    """One in each workspace: where the member and the lead are, where all are, where neither is."""
    team.account.workspaces.create(name="Far", slug="far")
    places = {
        "led": team.led,
        "default": team.account.workspaces.get(is_default=True),
        "far": team.account.workspaces.get(slug="far"),
    }
    return {name: save_preset(place, f"preset-{name}") for name, place in places.items()}


def test_presets_are_there_for_who_may_use_them_alone(
    team: Team, presets: dict[str, Preset]
) -> None:
    theirs = make_team("theirs").account.workspaces.get(is_default=True)
    strange = save_preset(theirs, "preset-theirs")
    for role in ROLES:
        client = team.client(role)
        account = {"account": str(team.account.pk)} if role == "operator" else {}
        text = client.get(reverse("console:presets"), account).text
        shown = MAY_SEE[role] - ({"default"} if role in ("lead", "viewer") else set())
        assert {name for name in presets if f"preset-{name}" in text} == shown

        for name, preset in {**presets, "theirs": strange}.items():
            may = name in MAY_SEE[role] or role == "operator"
            path = reverse("console:preset", args=[preset.pk])
            activate = reverse("console:activate_preset", args=[preset.pk])
            codes = (
                client.get(path).status_code,
                client.post(activate, {"version": "1"}).status_code,
            )
            assert (name, codes) == (name, (200, 302) if may else (404, 404))


def test_a_former_version_is_put_into_force_again(team: Team) -> None:
    led = team.led
    save_preset(led, "tone", temperature=0.2, messages=[{"role": "system", "content": "Be short."}])
    preset = save_preset(led, "tone", temperature=0.9)
    client, path = team.client("member"), reverse("console:preset", args=[preset.pk])

    page = client.get(path).text
    assert "Version 1 beside 2" in page
    assert ("<pre>0.2</pre>" in page, "<pre>0.9</pre>" in page, "Be short." in page) == (True,) * 3
    answer = client.post(reverse("console:activate_preset", args=[preset.pk]), {"version": "1"})

    assert (answer.status_code, answer["Location"]) == (302, path)
    preset.refresh_from_db()
    assert preset.designated_version.version == 1
    record = AuditRecord.objects.get(
        object_type="preset",
        object_id=str(preset.pk),
        action="updated",
        operator_id=team.people["member"].pk,
    )
    assert record.after
    assert record.after["designated_version_id"] == str(preset.designated_version_id)
    odd = client.post(reverse("console:activate_preset", args=[preset.pk]), {"version": "3"})
    assert odd.status_code == 404


def test_who_uses_a_preset_is_shown_as_far_as_the_view_sees(
    team: Team, presets: dict[str, Preset]
) -> None:
    preset = presets["default"]
    ask(team.keys["own"], "gen-one", preset_id=str(preset.pk))
    for number in range(2):
        ask(team.keys["far"], f"gen-far-{number}", preset_id=str(preset.pk))
    path = reverse("console:preset", args=[preset.pk])

    csv = team.client("admin").get(path, {"csv": "1"}).text.splitlines()

    assert [row.split(",")[:4] for row in csv[1:]] == [
        ["acme far", "acme-admin", "2", "0.0000088"],
        ["acme own", "acme-member", "1", "0.0000044"],
    ]
    assert "acme far" not in team.client("member").get(path).text
