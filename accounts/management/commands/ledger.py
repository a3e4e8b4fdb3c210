"""ledger: the entries behind one generation."""

from django.core.management.base import CommandParser

from accounts.models import LedgerEntry
from gateway.commands import JsonCommand
from gateway.http.jsonio import JsonObject, format_time


class Command(JsonCommand):
    help = "Show every ledger entry of one generation."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--generation", required=True, help="its id, gen-...")

    def run(self, **options: object) -> tuple[JsonObject, int]:
        rows = LedgerEntry.objects.filter(generation_id=options["generation"]).order_by("pk")
        return {"entries": [_entry(row) for row in rows]}, 0


def _entry(row: LedgerEntry) -> JsonObject:
    return {
        "id": row.pk,
        "kind": row.kind,
        "amount_nano": row.amount_nano,
        "account_id": str(row.account_id),
        "workspace_id": str(row.workspace_id) if row.workspace_id else None,
        "api_key_id": row.api_key_id,
        "generation_id": row.generation_id,
        "source": row.source,
        "source_ref": row.source_ref,
        "created_at": format_time(row.created_at),
        "note": row.note,
    }
