"""/byok: a team's own credentials at providers, managed with one of the account's keys."""

from typing import Any

from django.http import HttpRequest, HttpResponseBase

from accounts.caller import Caller
from accounts.models import ByokCredential
from accounts.services import byok
from accounts.services.records import key_actor
from accounts.views.bodies.byok_body import read_changes, read_id, read_new_credential, read_query
from accounts.views.managed import ManagedViewSet, managed_body
from accounts.views.openapi import byok_description as described
from gateway.database.db import Lane, run_queries
from gateway.http.jsonio import format_time
from gateway.http.responses import json_response


class ByokViewSet(ManagedViewSet):
    """Management keys only. The list of statuses has no 503, so a silent database is a 500.

    The provider is asked about a key between two pieces of work for the database, in neither.
    """

    @described.listing
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        asked = read_query(request.GET.dict())
        rows, total = run_queries(
            Lane.READ,
            lambda: byok.list_credentials(account_id=caller.account_id, **asked._asdict()),
        )
        return json_response({"data": list(map(_object, rows)), "total_count": total})

    @described.creation
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        said = read_new_credential(managed_body(request))
        trial = byok.check_with_provider(said["provider"], said["key"])
        made = run_queries(
            Lane.OPERATOR,
            lambda: byok.create_credential(
                account_id=caller.account_id, trial=trial, by=key_actor(caller), **said
            ),
        )
        return json_response({"data": _object(made)}, status=201)

    @described.retrieval
    def retrieve(self, request: HttpRequest, credential: str) -> HttpResponseBase:
        caller = self.manager(request)
        wanted = read_id(credential)
        found = run_queries(
            Lane.READ, lambda: byok.load_details(byok.find_credential(caller.account_id, wanted))
        )
        return json_response({"data": _object(found)})

    @described.change
    def partial_update(self, request: HttpRequest, credential: str) -> HttpResponseBase:
        caller, row = self._found(request, credential)
        changes = read_changes(managed_body(request))
        key = changes.pop("key", None)
        trial = None if key is None else byok.check_with_provider(row.provider, key)
        changed = run_queries(
            Lane.OPERATOR,
            lambda: byok.change_credential(
                row=row, changes=changes, by=key_actor(caller), key=key, trial=trial
            ),
        )
        return json_response({"data": _object(changed)})

    @described.deletion
    def destroy(self, request: HttpRequest, credential: str) -> HttpResponseBase:
        caller, row = self._found(request, credential)
        run_queries(Lane.OPERATOR, lambda: byok.delete_credential(row=row, by=key_actor(caller)))
        return json_response({"deleted": True})

    def _found(self, request: HttpRequest, credential: str) -> tuple[Caller, ByokCredential]:
        caller = self.manager(request)
        wanted = read_id(credential)
        return caller, run_queries(
            Lane.READ, lambda: byok.find_credential(caller.account_id, wanted)
        )


def _object(shown: byok.CredentialDetails) -> dict[str, Any]:
    """Every field is present; the key is in none of them."""
    row = shown.row
    return {
        "id": str(row.pk),
        "provider": row.provider,
        "name": row.name,
        "label": row.label,
        "workspace_id": None if row.workspace_id is None else str(row.workspace_id),
        "disabled": row.disabled,
        "is_fallback": row.is_fallback,
        "is_required": row.is_required,
        "is_byok_only": row.is_byok_only,
        # Nobody can declare either: what the catalogue says of an endpoint holds for all.
        "declared_zdr": None,
        "declared_region": None,
        "sort_order": row.sort_order,
        "allowed_models": row.allowed_models,
        "allowed_api_key_hashes": shown.key_hashes,
        "allowed_user_ids": row.allowed_user_ids,
        "created_at": format_time(row.created_at),
    }
