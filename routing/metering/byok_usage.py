"""What was got with a team's own credential, from the records of its calls."""

from datetime import datetime
from uuid import UUID

from django.db.models import Count, Sum

from accounts.byok_usage import ByokUsage
from routing.metering.models import Generation


def usage_of(account_id: UUID, credential_id: UUID, since: datetime) -> ByokUsage:
    """Answered calls of the account since then that this credential served."""
    served = Generation.objects.filter(
        account_id=account_id,
        created_at__gte=since,
        is_byok=True,
        status=200,
        detail__byok__id=str(credential_id),
    )
    sums = served.aggregate(
        calls=Count("pk"), listed=Sum("upstream_cost_nano"), fees=Sum("charge_nano")
    )
    return ByokUsage(sums["calls"], sums["listed"] or 0, sums["fees"] or 0)
