"""Presets as an operator switches them and sets them back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from accounts.models import AuditRecord
from accounts.services.keys import create_key
from routing.metering.models import Generation
from routing.presets.models import Preset, PresetVersion
from tests.support.admin_pages import page
from tests.support.management import Manager, manager
from tests.support.operations import fill, generation

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def preset(db: None) -> Preset:
    """Two versions of a preset, the second one in force."""
    mine: Manager = manager("mine")
    for temperature in (0.1, 0.2):
        body = {"temperature": temperature, "messages": [{"role": "system", "content": "<b>S"}]}
        mine.ok("POST", "/presets/mail/chat/completions", body)
    return Preset.objects.get()


def change(client: Client, preset: Preset, **changes: Any) -> Any:
    typed = {"name": "mail", "description": "", "status": "active"}
    typed["designated_version"] = str(preset.designated_version_id)
    return client.post(page(Preset, "change", preset.pk), typed | changes)


def test_an_older_version_can_be_put_in_force(admin_client: Client, preset: Preset) -> None:
    first = preset.versions.get(version=1)
    before = preset.updated_at

    response = change(admin_client, preset, designated_version=str(first.pk))

    assert response.status_code == 302, response.text
    preset.refresh_from_db()
    assert (preset.designated_version, preset.latest_version) == (first, 2)
    assert preset.updated_at > before
    assert preset.status_updated_at is None
    record = AuditRecord.objects.filter(object_type="preset").latest("id")
    assert (record.action, str(record.operator)) == ("updated", "admin")
    assert record.after == {"designated_version_id": str(first.pk)}


@pytest.mark.parametrize("status", ["disabled", "archived"])
def test_a_status_can_be_changed(admin_client: Client, preset: Preset, status: str) -> None:
    response = change(admin_client, preset, status=status, name="Mails", description="Ours")

    assert response.status_code == 302, response.text
    preset.refresh_from_db()
    assert (preset.status, preset.name, preset.description) == (status, "Mails", "Ours")
    assert preset.status_updated_at is not None
    record = AuditRecord.objects.filter(object_type="preset").latest("id")
    assert record.before == {"status": "active", "name": "mail", "description": None}


def test_versions_of_others_cannot_be_chosen(admin_client: Client, preset: Preset) -> None:
    fill(1)
    other = PresetVersion.objects.exclude(preset=preset).get()

    response = change(admin_client, preset, designated_version=str(other.pk))

    assert response.status_code == 200
    preset.refresh_from_db()
    assert preset.designated_version != other


def test_a_page_shows_versions_and_use(admin_client: Client, preset: Preset) -> None:
    account, workspace = preset.account, preset.workspace
    api_key = create_key(account=account, name="k", workspace=workspace)[0]
    owner: dict[str, Any] = {"account": account, "workspace": workspace, "api_key": api_key}
    owner["preset_id"] = str(preset.pk)
    now = datetime.now(UTC)
    for number, days in enumerate((0, 1, 40)):
        made_at = now - timedelta(days=days)
        generation(id=f"gen-{number}", created_at=made_at, charge_nano=1_500_000_000, **owner)

    shown = admin_client.get(page(Preset, "change", preset.pk)).text

    assert "2 calls</a>, 3 USD" in shown
    assert f"?preset_id={preset.pk}" in shown
    assert "&lt;b&gt;S" in shown
    assert "<b>S" not in shown
    listed = admin_client.get(page(Generation), {"preset_id": str(preset.pk)})
    assert listed.context["cl"].result_count == 3


def test_nobody_adds_or_deletes_them_here(admin_client: Client, preset: Preset) -> None:
    version = preset.designated_version
    assert admin_client.get(page(Preset, "add")).status_code == 403
    assert admin_client.get(page(Preset, "delete", preset.pk)).status_code == 403
    assert admin_client.get(page(PresetVersion, "change", version.pk)).status_code == 200
    assert admin_client.post(page(PresetVersion, "change", version.pk), {}).status_code == 403
