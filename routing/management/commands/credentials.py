"""credentials: the pools of providers' credentials, masked, and what each of them spent."""

from collections.abc import Iterable
from datetime import UTC, date, datetime

from gateway.commands import JsonCommand
from gateway.http.jsonio import JsonObject, usd
from routing.catalogue.credentials import ProviderCredential
from routing.metering.models import CredentialSpend


class Command(JsonCommand):
    help = "List the credentials of providers that have several, with what each spent (UTC)."

    def run(self, **options: object) -> tuple[JsonObject, int]:
        today = datetime.now(UTC).date()
        days: dict[tuple[str, str], list[CredentialSpend]] = {}
        for row in CredentialSpend.objects.filter(day__gte=today.replace(day=1)):
            days.setdefault((row.provider, row.label), []).append(row)
        rows = ProviderCredential.objects.select_related("provider").order_by("provider", "pk")
        credentials = [
            {
                "provider": row.provider.slug,
                "label": row.label,
                "credential": row.masked,
                "weight": row.weight,
                "rate_limits": row.rate_limits,
                **_sum_days(days.get((row.provider.slug, row.label), ()), today),
            }
            for row in rows
        ]
        return {"credentials": credentials}, 0


def _sum_days(days: Iterable[CredentialSpend], today: date) -> JsonObject:
    """Since the month began, and of today."""
    rows = list(days)
    return {
        "requests_this_month": sum(row.requests for row in rows),
        "usd_this_month": usd(sum(row.cost_nano for row in rows)),
        "usd_today": usd(sum(row.cost_nano for row in rows if row.day == today)),
    }
