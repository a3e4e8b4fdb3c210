"""credentials: the pools of providers' credentials, masked, and what each of them spent."""

from datetime import UTC, datetime

from gateway.commands import JsonCommand
from gateway.http.jsonio import JsonObject, usd
from routing.catalogue.credentials import ProviderCredential
from routing.metering.models import CredentialSpend


class Command(JsonCommand):
    help = "List the credentials of providers that have several, with what each spent (UTC)."

    def run(self, **options: object) -> tuple[JsonObject, int]:
        today = datetime.now(UTC).date()
        days: dict[tuple[str, str], list[CredentialSpend]] = {}
        for spend in CredentialSpend.objects.filter(day__gte=today.replace(day=1)):
            days.setdefault((spend.provider, spend.label), []).append(spend)
        rows = ProviderCredential.objects.select_related("provider").order_by("provider", "pk")
        credentials = []
        for row in rows:
            month = days.get((row.provider.slug, row.label), [])
            credential = {
                "provider": row.provider.slug,
                "label": row.label,
                "credential": row.masked,
                "weight": row.weight,
                "rate_limits": row.rate_limits,
                "requests_this_month": sum(each.requests for each in month),
                "usd_this_month": usd(sum(each.cost_nano for each in month)),
                "usd_today": usd(sum(each.cost_nano for each in month if each.day == today)),
            }
            credentials.append(credential)
        return {"credentials": credentials}, 0
