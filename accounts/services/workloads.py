"""Programs that prove by a token of a trusted issuer who they are, and the keys they stand for."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from django.db import transaction

from accounts.models import ApiKey, TrustedIssuer, Workload, Workspace
from accounts.services.keys import create_key, delete_keys
from accounts.services.records import Actor, record_row
from gateway.http.jsonio import JsonObject

_record: Final = partial(record_row, "workload")


def create_workload(
    *,
    issuer: TrustedIssuer,
    name: str,
    conditions: Mapping[str, str],
    workspace: Workspace | None,
    by: Actor,
    limit_nano: int | None = None,
    limit_reset: str | None = None,
    scopes: Sequence[str] | None = None,
    tags: Mapping[str, str] | None = None,
) -> Workload:
    """A workload with a key of its own, whose string nobody learns. Without a workspace it manages
    the account, by `scopes`."""
    assert conditions
    with transaction.atomic():
        key, _ = create_key(
            account=issuer.account,
            name=name,
            workspace=workspace,
            limit_nano=limit_nano,
            limit_reset=limit_reset,
            scopes=scopes,
            by=by,
        )
        row = Workload.objects.create(
            issuer=issuer, conditions=dict(conditions), tags=dict(tags) if tags else None, key=key
        )
        facts = _list_facts(row) | {"key": key.pk}
        _record(by, "created", row, None, facts, account_id=issuer.account_id)
    return row


def change_workload(
    *,
    workload: Workload,
    conditions: Mapping[str, str],
    tags: Mapping[str, str] | None,
    by: Actor,
) -> None:
    """Whose tokens stand for the key from now on, and what they tag, within a second."""
    with transaction.atomic():
        before = _list_facts(workload)
        workload.conditions, workload.tags = dict(conditions), dict(tags) if tags else None
        workload.save(update_fields=["conditions", "tags"])
        account_id = workload.issuer.account_id
        _record(by, "updated", workload, before, _list_facts(workload), account_id=account_id)


def delete_workload(*, workload: Workload, by: Actor) -> None:
    """Nobody stands for the key any more, which ends within a second; its history stays."""
    with transaction.atomic():
        account_id = workload.issuer.account_id
        _record(by, "deleted", workload, _list_facts(workload), None, account_id=account_id)
        workload.delete()
        delete_keys(keys=ApiKey.objects.filter(pk=workload.key_id), by=by)


def _list_facts(row: Workload) -> JsonObject:
    return {"conditions": row.conditions, "tags": row.tags}
