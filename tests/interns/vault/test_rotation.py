"""Changing VAULT_MASTER_KEY: nothing is lost, and in the end the former key opens nothing."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.management import call_command

from accounts.byok import seal_key
from accounts.models import ByokCredential
from accounts.services.channels import create_channel
from accounts.services.records import SYSTEM
from gateway.sealing import (
    UnsealError,
    master_key_id,
    seal_bytes,
    seal_under,
    unseal_bytes,
    unseal_under,
)
from interns.models import Vault
from interns.vault.sealing import open_data_key
from routing.catalogue.credentials import ProviderCredential
from routing.catalogue.models import Provider
from routing.destinations.models import Destination
from routing.destinations.services import create_destination, load_config
from routing.history.contents import PURPOSE
from routing.history.models import GenerationContent
from tests.interns.vault.team import SHARED, Team, read_released_values

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def rotate(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    status = 0
    try:
        call_command("rotate_master_key", *arguments, "--json")
    except SystemExit as end:
        status = int(str(end.code))
    return json.loads(capsys.readouterr().out), status


def plant(team: Team) -> None:
    team.put(f"{SHARED}/token", "canary", ["a.b"])
    provider = Provider(slug="acme", name="Acme", base_url="http://127.0.0.1:9/v1")
    provider.set_credential("sk-provider")
    provider.save()
    pooled = ProviderCredential(provider=provider, label="one")
    pooled.set_secret("sk-pooled")
    pooled.save()
    brought = ByokCredential(
        account=team.account, workspace=team.workspace, provider="acme", label="x"
    )
    brought.sealed = seal_key(brought.pk, "sk-brought")
    brought.save()
    url = "https://hooks.example/in"
    create_channel(account_id=team.account.pk, by=SYSTEM, name="ops", type="webhook", url=url)
    create_destination(
        account_id=team.account.pk,
        workspace_id=None,
        type="posthog",
        name="d",
        config={"apiKey": "ph-key"},
        by=SYSTEM,
    )
    GenerationContent.objects.create(
        generation_id="gen-1",
        account_id=team.account.pk,
        created_at=datetime.now(UTC),
        sealed=seal_bytes(b"said", purpose=PURPOSE, row="gen-1"),
    )


def can_open_all(team: Team, intern: Any) -> bool:
    try:
        content = GenerationContent.objects.get()
        provider = Provider.objects.get()
        return (
            read_released_values(intern, "a.b") == {"token": "canary"}
            and provider.credential() == "sk-provider"
            and provider.credentials.get().secret() == "sk-pooled"
            and load_config(Destination.objects.get())["apiKey"] == "ph-key"
            and unseal_bytes(bytes(content.sealed), purpose=PURPOSE, row="gen-1") == b"said"
        )
    except UnsealError:
        return False


def test_everything_moves_to_the_new_key(
    team: Team, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    intern = team.intern()
    plant(team)
    keys = {vault.pk: open_data_key(vault) for vault in Vault.objects.all()}
    before, old = master_key_id(), settings.VAULT_MASTER_KEY

    settings.VAULT_MASTER_KEY = "another master key"
    assert not can_open_all(team, intern)
    said, status = rotate(capsys)
    assert (said["unreadable"], status) == (9, 1)

    settings.VAULT_FORMER_MASTER_KEYS = (old,)
    assert can_open_all(team, intern)
    assert rotate(capsys, "--check")[0]["vaults"] == 2
    assert {vault.master_key_id for vault in Vault.objects.all()} == {before}
    said, status = rotate(capsys)
    kept = {"provider_credentials": 1, "byok_credentials": 1, "generation_contents": 1}
    kept |= {"channel_urls": 1, "channel_secrets": 1}
    kept |= {"destinations": 1, "pooled_credentials": 1}
    rest = {"vaults": 2, "kept_answers": 0, "unreadable": 0}
    keys_told = {"master_key_id": master_key_id(), "former_keys": 1}
    assert (said, status) == (keys_told | kept | rest, 0)
    assert {vault.master_key_id for vault in Vault.objects.all()} == {master_key_id()} != {before}

    settings.VAULT_FORMER_MASTER_KEYS = ()
    assert can_open_all(team, intern)
    # The data keys themselves are the same, so that no value was touched.
    assert {vault.pk: open_data_key(vault) for vault in Vault.objects.all()} == keys
    assert rotate(capsys)[0]["vaults"] == 0

    settings.VAULT_MASTER_KEY = old
    assert not can_open_all(team, intern)


def test_a_value_opens_in_its_own_vault_under_its_own_name_alone(team: Team) -> None:
    key, other = b"k" * 32, b"o" * 32
    sealed = seal_under(key, "canary", name="token")
    assert unseal_under(key, sealed, name="token") == "canary"
    assert "canary" not in sealed
    changed = sealed[:-2] + ("A" if sealed[-2] != "A" else "B") + sealed[-1]
    for wrong_key, text, name in (
        *((other, sealed, "token"), (key, sealed, "tokens"), (key, changed, "token")),
        *((key, odd, "token") for odd in (sealed[:20], "v1:*", "v0:" + sealed[3:])),
    ):
        with pytest.raises(UnsealError):
            unseal_under(wrong_key, text, name=name)
