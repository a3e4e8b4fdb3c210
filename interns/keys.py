"""An intern's own API key: made at its first boot, kept in its vault, limited by its budget."""

from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction

from accounts.keystring import hash_key
from accounts.models import ApiKey
from accounts.models.key import ApiKeyQuerySet
from accounts.ports import higher_apps
from accounts.services.key_limits import read_usage
from accounts.services.keys import change_key, create_key, delete_keys, rotate_key
from accounts.services.member_keys import bound_key
from accounts.services.records import command_actor
from interns import leases
from interns.errors import ModelRefused
from interns.leases import InternLease
from interns.models import Intern
from interns.vault.service import put_managed, read_managed

SECRET: Final = "router_api_key"  # noqa: S105 - The name that the vault has for it.
_BY: Final = command_actor("provision intern")
_REVOKED_BY: Final = command_actor("tear down intern")


class KeyDisabled(Exception):
    """An operator or a manager switched the intern's key off."""


def prepare_key(intern: Intern, lease: InternLease) -> str:
    """The string of the intern's key: the one in its vault where that works, else a new one.

    Key, vault and row change together. Raises `LeaseLost` and `KeyDisabled`.
    """
    with transaction.atomic():
        leases.write(lease)
        budget = read_budget(intern)
        if budget != (intern.budget_nano, intern.budget_reset):
            # Somebody limited the key otherwise since.
            intern.budget_nano, intern.budget_reset = budget
            leases.write(lease, budget_nano=budget[0], budget_reset=budget[1])
        string = _read_usable_key(intern)
        if string is None:
            key, string = _issue_key(intern)
            limits = {"budget_nano": key.limit_nano, "budget_reset": key.limit_reset}
            leases.write(lease, api_key_id=key.pk, **limits)
            host = urlsplit(build_gateway_url()).hostname or settings.HOST
            put_managed(intern.pk, SECRET, string, [host])
        return string


def check_model(intern: Intern) -> None:
    """Raise `ModelRefused` where the intern's key, or the one that it would get, may not ask for
    its model. A name of no model, such as a router's, is left to the requests."""
    name = intern.model or intern.workspace.default_text_model
    key = _filter_living(intern).first()
    if key is not None:
        allowed = key.allowed_models
    else:
        fields = bound_key(intern.workspace_id, intern.creator_id, {}).fields
        allowed = fields.get("allowed_models")
    if not allowed or name in allowed:
        return
    slug = higher_apps().find_model_slugs([name]).get(name)
    if slug is not None and slug not in allowed:
        raise ModelRefused(name)


def _read_usable_key(intern: Intern) -> str | None:
    """The string of the key that there is. Its limit, which a manager may have changed, is the
    budget."""
    string = read_managed(intern.pk, SECRET)
    if string is None or intern.api_key_id is None:
        return None
    rows = ApiKey.objects.living().filter(pk=intern.api_key_id, hash=hash_key(string))
    key = rows.select_related("creator").first()
    if key is None:
        return None
    if key.disabled or (key.creator is not None and not key.creator.is_active):
        raise KeyDisabled
    if key.expires_at is not None and key.expires_at <= datetime.now(UTC):
        return None
    return string


def _issue_key(intern: Intern) -> tuple[ApiKey, str]:
    """A new string of the key that there is, or a new key."""
    living = _filter_living(intern)
    if living.exists():
        key, string = rotate_key(keys=living, by=_BY)
        fresh = {"expires_at": None}
        return change_key(keys=ApiKey.objects.filter(pk=key.pk), changes=fresh, by=_BY), string
    limit_nano, limit_reset = read_budget(intern)
    budget = {"limit_nano": limit_nano, "limit_reset": limit_reset}
    key, string = create_key(
        account=intern.workspace.account,
        name=f"Intern {intern.name}",
        workspace=intern.workspace,
        creator=intern.creator,
        # A larger budget than members' keys may have is as large as these have it.
        **bound_key(intern.workspace_id, intern.creator_id, budget).fields,
        by=_BY,
    )
    ApiKey.objects.filter(pk=key.pk).update(intern_id=intern.pk)
    return key, string


def _filter_living(intern: Intern) -> ApiKeyQuerySet:
    """Its key, where it has one that was not deleted."""
    if intern.api_key_id is None:
        return ApiKey.objects.none()
    return ApiKey.objects.living().filter(pk=intern.api_key_id)


def read_budget(intern: Intern) -> tuple[int | None, str | None]:
    """The limit of its key and how often it begins anew; without a key, what the next one gets."""
    key = _filter_living(intern).first()
    if key is not None:
        return key.limit_nano, key.limit_reset
    return intern.budget_nano, None if intern.budget_nano is None else intern.budget_reset


def revoke_key(intern: Intern) -> None:
    """Delete the intern's keys; every process follows within a second."""
    delete_keys(keys=ApiKey.objects.filter(intern_id=intern.pk), by=_REVOKED_BY)


def change_budget(intern: Intern) -> None:
    """Let what the row says hold for the key that there is, from the commit on."""
    keys = _filter_living(intern)
    if keys.exists():
        reset = None if intern.budget_nano is None else intern.budget_reset
        limits = {"limit_nano": intern.budget_nano, "limit_reset": reset}
        change_key(keys=keys, changes=limits, by=_BY)


def is_budget_spent(intern: Intern, *, now: datetime) -> bool:
    """Whether the intern's key has spent its limit."""
    key = intern.api_key
    if key is None or key.enforced_limit_nano is None:
        return False
    return read_usage(key=key, at=now).counted_nano(key) >= key.enforced_limit_nano


def build_gateway_url() -> str:
    """Where an intern reaches this gateway, as `http://host:port/api/v1`."""
    if settings.INTERN_GATEWAY_URL:
        return str(settings.INTERN_GATEWAY_URL)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.HOST, settings.HOST)  # noqa: S104 - Recognised here, not bound.
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}:{settings.PORT}/api/v1"
