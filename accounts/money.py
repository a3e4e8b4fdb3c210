"""USD as people write it, and nano-USD as the books keep it."""

from argparse import ArgumentTypeError
from decimal import Decimal, InvalidOperation

NANO_PER_USD = 1_000_000_000
_USD_MAX = Decimal(1_000_000_000)


def nano_of(usd: Decimal) -> int:
    """Whole nano-USD. Raises `ValueError` for finer amounts and ones past a billion USD."""
    nano = usd * NANO_PER_USD
    if not usd.is_finite() or abs(usd) > _USD_MAX or nano != nano.to_integral_value():
        raise ValueError("expected at most 9 decimal places and a billion USD")
    return int(nano)


def usd_argument(text: str) -> int:
    """A command-line amount in USD, zero or more, as nano-USD."""
    try:
        nano = nano_of(Decimal(text))
    except (InvalidOperation, ValueError):
        raise ArgumentTypeError(f"not an amount in USD: {text!r}") from None
    if nano < 0:
        raise ArgumentTypeError("expected zero or more USD")
    return nano
