"""audit_ledger: do the books agree?"""

from datetime import UTC, datetime

from accounts.services.books.audit import compare_books
from gateway.commands import JsonCommand
from gateway.http.jsonio import JsonObject, usd


class Command(JsonCommand):
    help = (
        "Recompute every account's and key's totals from ledger entries and open holds alone and "
        "compare. Exit status 1 when anything disagrees."
    )

    def run(self, **options: object) -> tuple[JsonObject, int]:
        found = compare_books(now=datetime.now(UTC))
        result = {
            "accounts": found.accounts,
            "mismatches": found.mismatches,
            "open_holds": found.open_holds,
            "held": usd(found.held_nano),
            "expired_holds": found.expired_holds,
        }
        return result, 1 if found.mismatches else 0
