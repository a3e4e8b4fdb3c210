"""What stands on pages beside a team's keys and requests."""

import zlib
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

from accounts.models import ApiKey, Guardrail, SpendCounter, User, Workspace
from accounts.services.guardrail_assignments import assign_keys, assign_members
from accounts.services.guardrails import create_guardrail
from accounts.services.records import SYSTEM
from accounts.services.workspace_budgets import set_budget
from gateway.http.jsonio import dumps
from gateway.sealing import seal_bytes
from interns.models import Intern, Status
from interns.vault.service import create_intern_vault
from routing.catalogue.models import Model, Provider
from routing.catalogue.snapshot import catalogue
from routing.history.contents import PURPOSE
from routing.history.models import GenerationContent
from routing.metering.models import Generation
from routing.presets.models import Preset
from routing.presets.read import PresetScope
from routing.presets.schema import build_content
from routing.presets.services import save_version
from tests.support.operations import endpoint


def make_provider(slug: str, **fields: Any) -> Provider:
    """One at which nobody listens."""
    usual = {"name": slug.title(), "base_url": "http://127.0.0.1:9/v1"}
    return Provider.objects.create(slug=slug, **usual | fields)


def make_model(slug: str, *providers: Provider, **fields: Any) -> Model:
    """A model that these serve."""
    usual = {"canonical_slug": slug, "name": slug, "created": 1}
    model = Model.objects.create(slug=slug, **usual | fields)
    for provider in providers:
        endpoint(model, provider)
    catalogue.forget()
    return model


def make_intern(
    workspace: Workspace, creator: User, name: str, status: str = Status.STOPPED
) -> Intern:
    now = datetime.now(UTC)
    intern = Intern.objects.create(
        workspace=workspace,
        creator=creator,
        name=name,
        status=status,
        status_since=now,
        created_at=now,
        updated_at=now,
    )
    create_intern_vault(intern, at=now)
    return intern


def make_guardrail(workspace: Workspace, name: str, **settings: Any) -> Guardrail:
    return create_guardrail(
        account_id=workspace.account_id,
        workspace_id=workspace.pk,
        by=SYSTEM,
        settings={"name": name, **settings},
    )


def put_under(row: Guardrail, *keys: ApiKey, people: Sequence[User] = ()) -> None:
    place: Any = {"account_id": row.workspace.account_id, "guardrail_id": row.pk, "by": SYSTEM}
    if keys:
        assign_keys(**place, assigner=None, key_hashes=[key.hash for key in keys])
    if people:
        assign_members(**place, assigner=None, user_ids=[each.public_id for each in people])


def limit_workspace(workspace: Workspace, limit_nano: int, interval: str = "monthly") -> None:
    set_budget(
        account_id=workspace.account_id,
        reference=workspace.slug,
        interval=interval,
        limit_nano=limit_nano,
        include_byok=None,
        by=SYSTEM,
    )


def count_spending(key: ApiKey, nano: int, window: str, start: date) -> None:
    """As the ledger writer does."""
    SpendCounter.objects.update_or_create(
        {"spent_nano": nano},
        scope="key",
        scope_id=str(key.pk),
        window=window,
        window_start=start,
    )


def keep_content(record: Generation, messages: list[Any]) -> None:
    """As the recorder keeps a prompt."""
    packed = zlib.compress(dumps({"input": {"messages": messages}, "output": {}}))
    GenerationContent.objects.create(
        pk=record.pk,
        account_id=record.account_id,
        created_at=record.created_at,
        sealed=seal_bytes(packed, purpose=PURPOSE, row=record.pk),
    )


def save_preset(workspace: Workspace, slug: str, **body: Any) -> Preset:
    scope = PresetScope(workspace.account_id, workspace.pk)
    content = build_content("chat", {"model": "acme/one", **body}, models_max=3)
    return save_version(scope=scope, slug=slug, content=content, creator=None, by=SYSTEM)
