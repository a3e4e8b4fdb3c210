"""USD as people write it, and nano-USD as the books keep it."""

from argparse import ArgumentTypeError
from decimal import Decimal, InvalidOperation

NANO_PER_USD = 1_000_000_000
_USD_MAX = Decimal(1_000_000_000)
_NANO = Decimal("0.000000001")


def usd_to_nano(usd: Decimal) -> int:
    """Whole nano-USD. Raises `ValueError` for finer amounts and ones past a billion USD."""
    # No arithmetic before the size is known: it would round, or overflow.
    if not usd.is_finite() or usd.copy_abs() > _USD_MAX or usd != usd.quantize(_NANO):
        raise ValueError("expected at most 9 decimal places and a billion USD")
    return int(usd * NANO_PER_USD)


def format_dollars(amount_nano: int) -> str:
    """A limit as people read it: `$500.00`, with more decimals where it has them."""
    whole, fraction = divmod(amount_nano, NANO_PER_USD)
    cents = f"{fraction:09d}".rstrip("0").ljust(2, "0")
    return f"${whole}.{cents}"


def parse_usd_argument(text: str) -> int:
    """A command-line amount in USD, zero or more, as nano-USD."""
    try:
        nano = usd_to_nano(Decimal(text))
    except (InvalidOperation, ValueError):
        raise ArgumentTypeError(f"not an amount in USD: {text!r}") from None
    if nano < 0:
        raise ArgumentTypeError("expected zero or more USD")
    return nano
