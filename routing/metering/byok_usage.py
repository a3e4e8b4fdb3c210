"""What was got with a team's own credential, from the records of its calls."""

from datetime import datetime
from uuid import UUID

from django.db.models import BigIntegerField, Count, F, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce

from accounts.ports import ByokUsage
from routing.metering.models import Generation


def read_byok_usage(account_id: UUID, credential_id: UUID, since: datetime) -> ByokUsage:
    """Answered calls of the account since then that this credential served."""
    served = Generation.objects.filter(
        account_id=account_id,
        created_at__gte=since,
        status=200,
        detail__byok__id=str(credential_id),
    )
    sums = served.aggregate(
        calls=Count("pk"),
        listed=Sum(_part("own_cost_nano", of="upstream_cost_nano")),
        fees=Sum(_part("own_fee_nano", of="charge_nano")),
    )
    return ByokUsage(sums["calls"], sums["listed"] or 0, sums["fees"] or 0)


def _part(name: str, *, of: str) -> Coalesce:
    """Of a request that was partly on the gateway's credentials, only the team's own part."""
    return Coalesce(Cast(KeyTextTransform(name, "detail"), BigIntegerField()), F(of))
