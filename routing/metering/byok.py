"""What the account pays for a call on a team's own credential: a share of the list price."""

from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from functools import cache
from typing import Final

from gateway.live_settings import settings

_ONE: Final = Decimal(1)


def fee_nano(list_nano: int) -> int:
    """The fee for an answer of this list price, rounded half-even."""
    rate = _rate()
    return int((rate * list_nano).quantize(_ONE, ROUND_HALF_EVEN)) if rate else 0


def fee_bound_nano(list_nano: int) -> int:
    """The most it can come to for an answer of at most this list price."""
    rate = _rate()
    return int((rate * list_nano).quantize(_ONE, ROUND_CEILING)) if rate else 0


def charges_a_fee() -> bool:
    """Whether such a call costs the account anything."""
    return bool(_rate())


def _rate() -> Decimal:
    return _exactly(settings.BYOK_FEE_RATE)


@cache
def _exactly(rate: float) -> Decimal:
    """As it was written, not as a float comes closest to it."""
    return Decimal(repr(rate))
