"""What the account pays for a call on a team's own credential: a share of the list price."""

from datetime import datetime
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from functools import cache
from typing import Final
from uuid import UUID

from django.db.models import BigIntegerField, Count, F, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce

from accounts.ports import ByokUsage
from gateway.live_settings import settings
from routing.metering.models import Generation

_ONE: Final = Decimal(1)


def fee_nano(list_nano: int) -> int:
    """The fee for an answer of this list price, rounded half-even."""
    rate = _rate()
    return int((rate * list_nano).quantize(_ONE, ROUND_HALF_EVEN)) if rate else 0


def fee_bound_nano(list_nano: int) -> int:
    """The highest fee for an answer of at most this list price."""
    rate = _rate()
    return int((rate * list_nano).quantize(_ONE, ROUND_CEILING)) if rate else 0


def charges_a_fee() -> bool:
    """Whether such a call costs the account anything."""
    return bool(_rate())


def _rate() -> Decimal:
    return _to_decimal(settings.BYOK_FEE_RATE)


@cache
def _to_decimal(rate: float) -> Decimal:
    """The decimal that was written, not the float nearest to it."""
    return Decimal(repr(rate))


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
